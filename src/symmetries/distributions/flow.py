"""Normalising flow over transformations, conditioned on the input."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.per_example_random import per_example_random
from symmetries._validation.checks import invalid
from symmetries.distributions.coupling import HALF, Coupling, bent_by, stacked
from symmetries.nn.perceptron import MLP
from symmetries.ops import is_followed
from symmetries.ops.rational_quadratic import MIN_SHARE, wrap

MIN_SCALE = 1e-3
UNIT_SCALE = math.log(math.expm1(1 - MIN_SCALE))  # free parameter of scale 1
Part = tuple[Tensor, Tensor]


class ConditionalFlow(nn.Module):
    r"""Density p(eta | c): coupling layers of rational-quadratic splines on a normal base.

    With u = 3 eta / bound and z = f_L(... f_1(u)), where each layer transforms every second
    coordinate by a spline whose parameters depend on the others and on c,

    .. math:: \log p(\eta | c) = \log N(z; \mu(c), \sigma(c)) + \sum_l \log |f_l'|
              + \sum_i \log(3 / b_i)

    (Durkan et al. 2019, in the form of Allingham et al. 2024). Outside [-3, 3] the splines are the
    identity, so the tails are those of the normal. Circular coordinates are periodic on
    [-bound, bound) and have a uniform base. A single coordinate has nothing to couple with, and its
    splines depend on c alone.

    The context enters all layers through one matrix product, computed once per context, however
    many samples share it.

    Args:
        bounds: b_i for each parameter.
        context: number of features of c.
        circular: for each parameter, whether it is circular; none by default.
        layers: number of coupling layers.
        bins: number of bins of each spline.
        hidden: width of each layer's conditioner.
        base: widths of the hidden layers that predict mean and scale of the base.
        dropout: dropout in the conditioners.

    Example:
        >>> flow = ConditionalFlow((1.0, 3.14), context=8)
        >>> c = torch.randn(4, 8)
        >>> flow.sample(c, 10).shape
        torch.Size([4, 10, 2])
        >>> flow.log_prob(torch.zeros(4, 2), c).shape
        torch.Size([4])
    """

    def __init__(
        self,
        bounds: Sequence[float],
        context: int,
        *,
        circular: Sequence[bool] | None = None,
        layers: int = 6,
        bins: int = 6,
        hidden: int = 256,
        base: Sequence[int] = (256, 256),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        circular = [False] * len(bounds) if circular is None else list(circular)
        if not bounds or len(circular) != len(bounds):
            expected = f"{len(bounds)} flags, one for each of at least one bound"
            raise invalid("circular", expected, f"{len(circular)} flags", "give one for each bound")
        for name, value in (("context", context), ("layers", layers), ("bins", bins)):
            if value < 1:
                raise invalid(name, "at least 1", value, "give a larger number")
        if bins * MIN_SHARE >= 1:
            expected = f"fewer than {round(1 / MIN_SHARE):,}"
            raise invalid("bins", expected, bins, "6 to 16 are enough for most densities")
        self.dim = len(bounds)
        self.context = context
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.register_buffer("bounds", torch.tensor([float(b) for b in bounds]))
        self.bounds: Tensor
        self.straight = [i for i in range(self.dim) if not circular[i]]
        self.around = [i for i in range(self.dim) if circular[i]]
        self.project = nn.Linear(context, layers * hidden)
        self.couplings: Sequence[Coupling] = nn.ModuleList(  # type: ignore[assignment]
            Coupling(bent_by(layer, self.dim), circular, bins, hidden, dropout)
            for layer in range(layers)
        )
        widths = (context, *base)
        blocks = [MLP(a, (b,)) for a, b in pairwise(widths)]
        self.base = nn.Sequential()
        if self.straight:
            head = nn.Linear(widths[-1], 2 * len(self.straight))
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            self.base = nn.Sequential(*blocks, head)

    def log_prob(self, eta: Tensor, context: Tensor) -> Tensor:
        """Return the log-density with respect to eta.

        Args:
            eta: (N, dim), or (N, S, dim) for S points under each context.
            context: (N, context), with the dtype of eta or bfloat16.

        Returns:
            (N,) or (N, S).
        """
        self._check(context)
        shape = eta.shape
        if eta.ndim not in (2, 3) or len(eta) != len(context) or shape[-1] != self.dim:
            n = len(context)
            expected = f"shape ({n}, {self.dim}) or ({n}, S, {self.dim})"
            raise invalid("eta", expected, f"shape {tuple(shape)}", "one row for each context")
        samples = 1 if eta.ndim == 2 else shape[1]
        context, points = context.to(eta.dtype), eta.reshape(-1, self.dim)
        u = (points * (HALF / self.bounds)).unbind(-1)  # dim rows (N S,)
        u = tuple(wrap(row, HALF) if i in self.around else row for i, row in enumerate(u))
        base = self.base(context) if self.straight else None
        parts = projected_parts(context, self.project, self.hidden, samples, range(self.layers))
        terms = []
        for layer, part in zip(self.couplings, parts, strict=True):
            u, log_slopes = layer(u, *part, inverse=False)
            terms += log_slopes
        if base is not None:
            mean, scale = _base_law(base, samples)
            z = (stacked(u, self.straight) - mean) / scale
            terms.append(-0.5 * z * z - torch.log(scale))
        total = torch.cat(terms).sum(0)
        constant = torch.log(HALF / self.bounds).sum()
        constant = constant - len(self.straight) * 0.5 * math.log(2 * math.pi)
        constant = constant - len(self.around) * math.log(2 * HALF)
        return (total + constant).reshape(shape[:-1])

    def sample(self, context: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n samples under each context.

        Args:
            context: (N, context).
            n: number of samples.
            generator: random generator on the context's device.

        Returns:
            (N, n, dim); circular parameters within their bounds.
        """
        self._check(context)
        if n < 1:
            raise invalid("n", "at least one sample", n, "give n >= 1")
        rows, dtype = len(context) * n, context.dtype
        rows_of: dict[int, Tensor] = {}
        if self.straight:
            mean, scale = _base_law(self.base(context), n)
            shape = (len(self.straight), rows)
            place = {"dtype": dtype, "device": context.device}
            z = mean + scale * per_example_random(torch.randn, shape, 1, generator, **place)
            rows_of.update(zip(self.straight, z, strict=True))
        if self.around:
            shape = (len(self.around), rows)
            place = {"dtype": dtype, "device": context.device}
            unit = per_example_random(torch.rand, shape, 1, generator, **place)
            z = HALF * (2 * unit - 1)
            rows_of.update(zip(self.around, z, strict=True))
        u = tuple(rows_of[i] for i in range(self.dim))
        order = range(self.layers)[::-1]
        parts = projected_parts(context, self.project, self.hidden, n, order)
        for i, part in zip(order, parts, strict=True):
            u, _ = self.couplings[i](u, *part, inverse=True)
        eta = torch.stack(u, -1) * (self.bounds / HALF)
        return eta.reshape(len(context), n, self.dim)

    def _check(self, context: Tensor) -> None:
        if context.ndim != 2 or context.shape[1] != self.context:
            shape = f"shape {tuple(context.shape)}"
            remedy = "give one row of features for each"
            raise invalid("context", f"shape (N, {self.context})", shape, remedy)


def _base_law(base: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Return mean and scale of the base, (straight, N S) each, from the network's output."""
    mean, scale = base.T.chunk(2)
    scale = MIN_SCALE + F.softplus(scale + UNIT_SCALE)
    if samples != 1:
        mean, scale = (p[..., None].expand(-1, -1, samples).flatten(1) for p in (mean, scale))
    return mean, scale


def projected_parts(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the context's part of each layer's hidden units (N S, hidden), and their bias.

    One product serves all layers. Without a gradient, on a CPU, each layer has one of its own, all
    of them in the same memory: that stays in the cache, and new memory is expensive there.

    Args:
        context: (N, features).
        project: the linear layer of all hidden units (layers hidden, features).
        hidden: units of a layer.
        samples: S, points under each context.
        order: of the layers.
    """
    if context.is_cpu and not is_followed(context, project.weight):
        yield from _in_place(context, project, hidden, samples, order)
        return
    parts = F.linear(context, project.weight).split(hidden, -1)
    biases = project.bias.split(hidden)
    for i in order:
        part = parts[i]
        if samples != 1:
            part = part[:, None].expand(-1, samples, -1).flatten(0, 1)
        yield part, biases[i]


def _in_place(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    weights, biases = project.weight.detach().split(hidden), project.bias.split(hidden)
    part = context.new_empty(len(context), hidden)
    rows = part if samples == 1 else context.new_empty(len(context), samples, hidden)
    for i in order:
        torch.mm(context, weights[i].T, out=part)
        if samples > 1:
            rows.copy_(part[:, None])
        yield rows.flatten(0, -2), biases[i]
