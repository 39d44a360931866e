"""A normalising flow over transformations, conditioned on whatever they are applied to."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.distributions.spline import (
    MIN_SHARE,
    MIN_SLOPE,
    UNIT_SLOPE,
    circular_spline,
    rational_quadratic,
    spline_rows,
    wrap,
)
from symmetries.kernels import amx
from symmetries.kernels.available import usable
from symmetries.kernels.rounded import RoundedLinear
from symmetries.perceptron import MLP, gelu_norm
from symmetries.rows import draw_rows

if TYPE_CHECKING:
    from symmetries.kernels.flow import Shape

HALF = 3.0  # splines live on [-3, 3]
MIN_SCALE = 1e-3
Rows = tuple[Tensor, ...]
_MAX_HIDDEN = 1024  # a program of the kernels holds some rows of hidden units
_UNIT_SCALE = math.log(math.expm1(1 - MIN_SCALE))


class ConditionalFlow(nn.Module):
    r"""p(eta | c): coupling layers of rational-quadratic splines on a predicted normal base.

    With u = 3 eta / bound and z = f_L(... f_1(u)), where each layer bends every second coordinate
    by a spline whose parameters come from the others and from c,

    .. math:: \log p(\eta | c) = \log N(z; \mu(c), \sigma(c)) + \sum_l \log |f_l'|
              + \sum_i \log(3 / b_i)

    (Durkan et al. 2019, in the form of Allingham et al. 2024). Outside [-3, 3] splines are the
    identity, so the tails are those of the normal. Circular coordinates live on [-bound, bound)
    with the ends joined; their base is uniform. With one coordinate there is nothing to couple,
    and splines depend on c alone.

    The context enters all layers through one product, and is projected once per context however
    many samples share it.

    Args:
        bounds: b_i for each parameter.
        context: number of features of c.
        circular: which parameters are circular; none by default.
        layers: number of coupling layers.
        bins: of each spline.
        hidden: width of each layer's conditioner.
        base: widths of the hidden layers that predict mean and scale of the base.
        dropout: in the conditioners.

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
            raise invalid("circular", expected, f"{len(circular)} flags", "give one each")
        for name, value in (("context", context), ("layers", layers), ("bins", bins)):
            if value < 1:
                raise invalid(name, "at least 1", value, "give a larger number")
        self.dim = len(bounds)
        self.context = context
        self.hidden = hidden
        self.register_buffer("bounds", torch.tensor([float(b) for b in bounds]))
        self.bounds: Tensor
        self.straight = [i for i in range(self.dim) if not circular[i]]
        self.around = [i for i in range(self.dim) if circular[i]]
        self.project = nn.Linear(context, layers * hidden)
        self.couplings: Sequence[_Coupling] = nn.ModuleList(  # type: ignore[assignment]
            _Coupling(_turn(self.dim, layer), circular, bins, hidden, dropout)
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
        """Log-density with respect to eta.

        Args:
            eta: (N, dim), or (N, S, dim) for S points under each context.
            context: (N, context).

        Returns:
            (N,) or (N, S).
        """
        self._check(context)
        shape = eta.shape
        if eta.ndim not in (2, 3) or len(eta) != len(context) or shape[-1] != self.dim:
            n = len(context)
            expected = f"shape ({n}, {self.dim}) or ({n}, S, {self.dim})"
            raise invalid("eta", expected, f"shape {tuple(shape)}", "one row for each context")
        points = eta.reshape(-1, self.dim)
        if self._has_kernel(points, context):
            return self._kernel_density(points, context).reshape(shape[:-1])
        base = self.base(context) if self.straight else None
        return self._density(None, points, self._projected(context), base).reshape(shape[:-1])

    def _projected(self, context: Tensor) -> Tensor:
        """The context's part of all hidden units, without their bias (N, layers hidden)."""
        weight = self.project.weight
        return (amx.linear if amx.usable(context, weight) else F.linear)(context, weight)

    def _density(
        self, mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor | None
    ) -> Tensor:
        """Log-density (N S,) in torch's operations, by the context's part of all hidden units.

        Args:
            mask: (N S, layers hidden), what dropout leaves; None draws it.
            eta: (N S, dim).
            projected: (N, layers hidden), see :meth:`_projected`.
            base: (N, 2 straight).
        """
        samples = len(eta) // max(1, len(projected))
        u = (eta * (HALF / self.bounds)).unbind(-1)  # dim rows (N S,)
        u = tuple(wrap(row, HALF) if i in self.around else row for i, row in enumerate(u))
        masks = [None] * len(self.couplings) if mask is None else mask.split(self.hidden, -1)
        terms = []
        for layer, part, kept in zip(
            self.couplings, self._parts(projected, samples), masks, strict=True
        ):
            u, log_slopes = layer(u, *part, inverse=False, mask=kept)
            terms += log_slopes
        if base is not None:
            mean, scale = _base_law(base, samples)
            z = (_rows(u, self.straight) - mean) / scale
            terms.append(-0.5 * z * z - torch.log(scale))
        total = torch.cat(terms).sum(0)
        constant = torch.log(HALF / self.bounds).sum()
        constant = constant - len(self.straight) * 0.5 * math.log(2 * math.pi)
        constant = constant - len(self.around) * math.log(2 * HALF)
        return total + constant

    def _has_kernel(self, eta: Tensor, context: Tensor) -> bool:
        coupled = not self.around and self.dim > 1
        if not (coupled and self.hidden <= _MAX_HIDDEN and usable(eta, context, self.bounds)):
            return False
        from symmetries.distributions.flow_check import kernel_agrees

        return kernel_agrees(self._shape(len(eta) // len(context)), eta.device)

    def _shape(self, samples: int) -> "Shape":
        """Sizes and constants, for the kernels."""
        from symmetries.kernels.flow import Shape

        first = self.couplings[0]
        return Shape(
            dim=self.dim,
            hidden=self.hidden,
            layers=len(self.couplings),
            samples=samples,
            bins=(first.rows[0] + 1) // 3,
            half=HALF,
            share=MIN_SHARE,
            min_slope=MIN_SLOPE,
            unit_slope=UNIT_SLOPE,
            min_scale=MIN_SCALE,
            unit_scale=_UNIT_SCALE,
            epsilon=first.norm.eps,
            dropout=first.dropout.p if self.training else 0.0,
        )

    def _kernel_density(self, eta: Tensor, context: Tensor) -> Tensor:
        """The same of eta (N S, dim) and the context, by kernels."""
        shape, mask = self._shape(len(eta) // len(context)), None
        if shape.dropout:  # through torch's function, so that several processes drop what one would
            size = (len(eta), shape.layers * self.hidden)
            ones = torch.ones(size, dtype=torch.bfloat16, device=eta.device)
            mask = F.dropout(ones, shape.dropout)
        return self._by_kernels(shape, mask, eta, *self._products(context))

    def _by_kernels(
        self, shape: "Shape", mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor
    ) -> Tensor:
        """Log-density (N S,), see :meth:`_density`; where the mask is 0, units are dropped."""
        from symmetries.kernels.flow import KernelFlow

        def plain(
            mask: Tensor | None, eta: Tensor, projected: Tensor, base: Tensor, bias: Tensor
        ) -> Tensor:
            kept = None if mask is None else (mask != 0) / (1 - shape.dropout)
            return self._density(kept, eta, projected.to(eta.dtype), base)

        inputs = (eta, projected, base, self.project.bias, *self._weights())
        density: Tensor = KernelFlow.apply(shape, plain, mask, self.bounds, *inputs)  # type: ignore[no-untyped-call]
        return density

    def _weights(self) -> list[Tensor]:
        return [weight for layer in self.couplings for weight in layer.weights()]

    def _products(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """What the context gives: hidden units of all layers, without their bias; and the base.

        In bfloat16 where torch's "float32_matmul_precision" is "medium".
        """
        *blocks, head = self.base
        if context.is_cuda and torch.get_float32_matmul_precision() == "medium":
            x = context.to(torch.bfloat16)
            projected: Tensor = RoundedLinear.apply(x, self.project.weight)  # type: ignore[no-untyped-call]
        else:
            x, projected = context, F.linear(context, self.project.weight)
        for block in blocks:
            x = block(x)
        base: Tensor = head(x.to(context.dtype))
        return projected, base

    def sample(self, context: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
        """N samples under each context.

        Args:
            context: (N, context).
            n: how many.
            generator: source of randomness, on the context's device.

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
            z = mean + scale * draw_rows(torch.randn, shape, 1, generator, **place)
            rows_of.update(zip(self.straight, z, strict=True))
        if self.around:
            shape = (len(self.around), rows)
            place = {"dtype": dtype, "device": context.device}
            unit = draw_rows(torch.rand, shape, 1, generator, **place)
            z = HALF * (2 * unit - 1)
            rows_of.update(zip(self.around, z, strict=True))
        u = tuple(rows_of[i] for i in range(self.dim))
        pairs = list(zip(self.couplings, self._parts(self._projected(context), n), strict=True))
        for layer, part in reversed(pairs):
            u, _ = layer(u, *part, inverse=True)
        eta = torch.stack(u, -1) * (self.bounds / HALF)
        return eta.reshape(len(context), n, self.dim)

    def _parts(self, projected: Tensor, samples: int) -> list[tuple[Tensor, Tensor]]:
        """The context's part of each layer's hidden units (N S, hidden), and their bias."""
        if samples > 1:
            projected = projected[:, None].expand(-1, samples, -1).flatten(0, 1)
        biases = self.project.bias.split(self.hidden)
        return list(zip(projected.split(self.hidden, -1), biases, strict=True))

    def _check(self, context: Tensor) -> None:
        if context.ndim != 2 or context.shape[1] != self.context:
            shape = f"shape {tuple(context.shape)}"
            raise invalid(
                "context", f"shape (N, {self.context})", shape, "one row of features each"
            )


class _Coupling(nn.Module):
    """Bends some of the coordinates u, given the others and what comes from the context.

    Coordinates are rows (N,) of their own: to take one out of a matrix would cost a matrix of
    zeros in the backward pass.
    """

    def __init__(
        self,
        bent: Sequence[int],
        circular: Sequence[bool],
        bins: int,
        hidden: int,
        dropout: float,
    ) -> None:
        super().__init__()
        dim = len(circular)
        self.kept = [i for i in range(dim) if i not in bent]
        self.kept_circular = [circular[i] for i in self.kept]
        self.straight = [i for i in bent if not circular[i]]
        self.around = [i for i in bent if circular[i]]
        inputs = len(self.kept) + sum(self.kept_circular)
        self.read = nn.Linear(inputs, hidden, bias=False) if inputs else None
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)
        self.rows = (spline_rows(bins, circular=False), spline_rows(bins, circular=True))
        self.sizes = (len(self.straight) * self.rows[0], len(self.around) * self.rows[1])
        self.weight = nn.Parameter(torch.zeros(sum(self.sizes), hidden))
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes), 1))

    def weights(self) -> tuple[Tensor, ...]:
        """Of the kept coordinates (where there are any), of the norm, and of the parameters."""
        read = () if self.read is None else (self.read.weight,)
        return *read, self.norm.weight, self.norm.bias, self.weight, self.bias

    def forward(
        self,
        u: Rows,
        projected: Tensor,
        bias: Tensor,
        *,
        inverse: bool,
        mask: Tensor | None = None,
    ) -> tuple[Rows, list[Tensor]]:
        """The coordinates, and logarithms of slopes to be added up."""
        if self.read is None:
            hidden = projected + bias
        else:  # the bias is one more input, which costs less than to add it to wide rows
            read = torch.cat((self.read.weight, bias[:, None]), 1)
            hidden = torch.addmm(projected, self._inputs(u), read.T)
        hidden = gelu_norm(hidden, self.norm)
        hidden = self.dropout(hidden) if mask is None else hidden * mask
        parameters = torch.addmm(self.bias, self.weight, hidden.T)  # rows first, as splines want
        straight, around = parameters.split(self.sizes)
        bent, log_slopes = list(u), []
        for index, part, rows, spline in (
            (self.straight, straight, self.rows[0], rational_quadratic),
            (self.around, around, self.rows[1], circular_spline),
        ):
            if index:
                part = part.reshape(rows, len(index), -1)
                y, log_slope = spline(_rows(u, index), part, HALF, inverse=inverse)
                log_slopes.append(log_slope)
                for i, row in zip(index, y.unbind(0), strict=True):
                    bent[i] = row
        return tuple(bent), log_slopes

    def _inputs(self, u: Rows) -> Tensor:
        columns = []
        for i, circular in zip(self.kept, self.kept_circular, strict=True):
            if circular:
                angle = u[i] * (math.pi / HALF)
                columns += [torch.cos(angle), torch.sin(angle)]
            else:
                columns.append(u[i])
        return torch.stack((*columns, torch.ones_like(columns[0])), -1)


def _base_law(base: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Mean and scale of the base, (straight, N S) each, from the network's output."""
    mean, scale = base.T.chunk(2)
    scale = MIN_SCALE + F.softplus(scale + _UNIT_SCALE)
    if samples > 1:
        mean, scale = (p[..., None].expand(-1, -1, samples).flatten(1) for p in (mean, scale))
    return mean, scale


def _rows(u: Rows, index: Sequence[int]) -> Tensor:
    """Some of the rows as a matrix."""
    return torch.stack([u[i] for i in index])


def _turn(dim: int, layer: int) -> list[int]:
    """The coordinates that a layer bends: even and odd ones in turn, the only one always."""
    return [0] if dim == 1 else [i for i in range(dim) if i % 2 == layer % 2]
