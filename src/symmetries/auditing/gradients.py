"""Integrated gradients, with one evaluation of a linear first layer.

Reference: Sundararajan, Taly, Yan 2017, "Axiomatic attribution for deep networks".
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from symmetries._validation.checks import check_classes, check_whole
from symmetries._validation.diagnose import diagnose_labels
from symmetries._validation.placement import call_model, check_together
from symmetries.auditing.first_layer import FirstLayer, first_layer
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.models import Model, check_callable, check_examples, check_logits

# Number of input values per pass: on a CPU, so that intermediate results stay in the cache (behind
# a linear first layer, counted by points of the path and by that layer's outputs); on a GPU,
# enough to fill it, but few enough that the activations of a wide network still fit.
AT_ONCE_ON_CPU = 2**20
POINTS_ON_CPU = 2560
HIDDEN_ON_CPU = 2**22
AT_ONCE_ON_GPU = 2**24


def integrated_gradients(
    model: Model, x: Inputs, target: Tensor, *, steps: int = 50, baseline: float | Tensor = 0.0
) -> Tensor:
    r"""Integrate the gradient of f_t over the path from b to x, and multiply by (x - b).

    The path is b + a (x - b) for a in [0, 1].

    The integral uses Gauss-Legendre quadrature. If the network begins with a linear layer, the path
    is straight behind it too: that layer is evaluated once forwards, the gradients behind it are
    averaged, and their average is propagated back through it once.

    Args:
        model: any callable from (N, ...) to (N, K).
        x: (N, ...).
        target: (N,) int64, the output t that is explained.
        steps: number of quadrature nodes.
        baseline: b, a number, or a tensor of the shape of x or of one example.

    Returns:
        Attributions of the shape of x, which sum to f_t(x) - f_t(b).

    Example:
        >>> f = lambda x: x.square()
        >>> integrated_gradients(f, torch.tensor([[3.0, 1.0]]), torch.tensor([0])).round().tolist()
        [[9.0, 0.0]]
    """
    check_callable(model)
    x = inputs_of(x, model)
    check_whole(steps, "steps", most=10_000)
    check_examples(x)
    check_classes(target, len(x), "target")
    check_together(x=x, target=target)
    x = x.detach()
    b = torch.as_tensor(baseline, dtype=x.dtype, device=x.device).detach().expand_as(x)
    nodes, weights = (
        torch.tensor(part, dtype=x.dtype, device=x.device) for part in gauss_legendre(steps)
    )
    with torch.enable_grad():
        split = first_layer(model, x)
        size = _examples_at_once(split, x, steps)
        path = _Path(model, split, nodes, weights)
        parts = zip(x.split(size), b.split(size), target.split(size), strict=True)
        mean = torch.cat([path.mean_gradient(*part) for part in parts])
    return (x - b) * mean


def _examples_at_once(split: FirstLayer | None, x: Tensor, steps: int) -> int:
    if x.device.type != "cpu":
        return max(1, AT_ONCE_ON_GPU // max(1, steps * x[0].numel()))
    if split is None:
        return max(1, AT_ONCE_ON_CPU // max(1, steps * x[0].numel()))
    with torch.no_grad():
        hidden = split.linear(x[:1]).numel()
    return max(1, min(POINTS_ON_CPU, HIDDEN_ON_CPU // max(1, hidden)) // steps)


@dataclass(frozen=True, eq=False)
class _Path:
    """The straight path from baselines to inputs, and the gradients along it."""

    model: Model
    split: FirstLayer | None
    nodes: Tensor
    weights: Tensor

    def mean_gradient(self, x: Tensor, b: Tensor, target: Tensor) -> Tensor:
        """Return the weighted mean over the nodes of the gradient of the input."""
        if self.split is None:
            return self._average(self._along(x, b, x, target))
        leaf = x.detach().requires_grad_()
        end = self.split.linear(leaf)
        # A baseline that is shared by all examples needs only one row.
        start = self.split.linear(b[:1] if b.stride(0) == 0 else b).detach()
        gradient = self._along(end.detach(), start.expand_as(end), x, target)
        return torch.autograd.grad(end, leaf, self._average(gradient))[0]

    def _along(self, end: Tensor, start: Tensor, x: Tensor, target: Tensor) -> Tensor:
        """Return gradients (steps, N, ...) at all nodes between start and end."""
        column = self.nodes.to(end.dtype).reshape(-1, *[1] * end.ndim)  # 16 bits under autocast
        points = torch.lerp(start, end, column).flatten(0, 1).requires_grad_()
        output = (
            call_model(self.model, points) if self.split is None else self.split.rest(points, x)
        )
        check_logits(output, len(points))
        with diagnose_labels(target, output.shape[1], "target"):
            chosen = output.gather(1, target.repeat(len(self.nodes))[:, None])
        (gradient,) = torch.autograd.grad(chosen.sum(), points)
        return gradient.reshape(len(self.nodes), *end.shape)

    def _average(self, gradient: Tensor) -> Tensor:
        weights = self.weights.to(gradient.dtype)
        return (weights @ gradient.flatten(1)).reshape(gradient.shape[1:])


@lru_cache(maxsize=16)
def gauss_legendre(steps: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1].

    Example:
        >>> nodes, weights = gauss_legendre(2)
        >>> round(sum(weights), 12), round(sum(nodes), 12)
        (1.0, 1.0)
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return tuple(((nodes + 1) / 2).tolist()), tuple((weights / 2).tolist())
