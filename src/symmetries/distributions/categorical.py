"""Categorical distribution over the elements of a finite group, conditioned on the input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import invalid


class ConditionalCategorical(nn.Module):
    """Distribution p(g | c) = softmax(W phi(c)) over ``order`` elements, initially uniform.

    Args:
        order: number of elements.
        context: number of features of c.
        hidden: number of units of the single hidden layer.
        dropout: dropout after the hidden layer.

    Example:
        >>> p = ConditionalCategorical(4, context=8)
        >>> c = torch.randn(5, 8)
        >>> p.log_prob(torch.tensor([0, 1, 2, 3, 0]), c).exp().tolist()
        [0.25, 0.25, 0.25, 0.25, 0.25]
        >>> p.sample(c, 3).shape
        torch.Size([5, 3])
    """

    def __init__(
        self, order: int, context: int, *, hidden: int = 256, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if order < 2:
            raise invalid("order", "at least 2 elements", order, "a trivial group has no symmetry")
        self.order = order
        head = nn.Linear(hidden, order)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        self.layers = nn.Sequential(
            nn.Linear(context, hidden), nn.GELU(), nn.LayerNorm(hidden), nn.Dropout(dropout), head
        )

    def log_probs(self, context: Tensor) -> Tensor:
        """Return log-probabilities (N, order) of all elements under contexts (N, context)."""
        return F.log_softmax(self.layers(context), -1)

    def log_prob(self, element: Tensor, context: Tensor) -> Tensor:
        """Return the log-probability of elements (N,) or (N, S) under contexts (N, context)."""
        if element.ndim not in (1, 2) or len(element) != len(context):
            n = len(context)
            shape = f"shape {tuple(element.shape)}"
            raise invalid("element", f"shape ({n},) or ({n}, S)", shape, "one row for each context")
        every = self.log_probs(context)
        return every.gather(1, element.reshape(len(element), -1)).reshape(element.shape)

    def sample(self, context: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw elements (N, n), int64."""
        if n < 1:
            raise invalid("n", "at least one sample", n, "give n >= 1")
        probabilities = self.log_probs(context).exp()
        return torch.multinomial(probabilities, n, replacement=True, generator=generator)
