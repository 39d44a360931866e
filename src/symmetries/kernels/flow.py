"""Log-density of a flow of coupling splines: two kernels a layer forward, two backward.

The hidden units of a layer (what the context gives, the kept coordinates through a narrow matrix,
gelu, norm, dropout) are one kernel; the parameters that they give, by a product, and the splines of
these are another. Everything between lies in buffers of all layers, so the backward
pass forms the gradients to the weights of all layers together, and torch's automatic
differentiation sees one function instead of some thirty nodes a layer.

Coordinates are rows of u (dim, n). Layer l bends those of its own parity and keeps the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from symmetries.kernels.flow_layers import (
    _base_backward,
    _base_forward,
    _hidden_backward,
    _hidden_forward,
    _spline_backward,
    _spline_forward,
)
from symmetries.kernels.sums import column_sums

_ROWS = 2  # of a program, which is one warp: its sums need no barrier
_ROWS_BACK, _WARPS_BACK = 8, 4
_PAD = 16  # columns beside the hidden units, of which the first holds ones
_PARTS = 16  # of the points, in the products that sum over them
_BLOCK = 64
_TILE = 16  # rows of a program that multiplies
_CHUNK = 64
_LOG_2_PI = 1.8378770664093453


class Shape(NamedTuple):
    """Sizes and constants of a flow: what the kernels are compiled for."""

    dim: int
    hidden: int
    layers: int
    samples: int  # points that share a context
    bins: int
    half: float
    share: float  # smallest width and height of a bin
    min_slope: float
    unit_slope: float  # free parameter of slope 1
    min_scale: float
    unit_scale: float
    epsilon: float  # of the norms
    dropout: float

    @property
    def rows(self) -> int:
        """Free parameters of one spline."""
        return 3 * self.bins - 1

    def bent(self, layer: int) -> int:
        """How many coordinates a layer bends."""
        return (self.dim + 1 - layer % 2) // 2

    def splines(self) -> tuple[Any, ...]:
        """Constants of the splines."""
        return (self.half, self.share, self.min_slope, self.unit_slope, self.bins)


class KernelFlow(torch.autograd.Function):
    """log p of points u (N S, dim); ``plain`` is torch's form of the same function.

    Hidden units are ``projected`` (N, layers hidden; float32 or bfloat16) and ``bias`` added up;
    ``weights`` are, for each layer, the matrix of the kept coordinates (hidden, kept), gain and
    shift of the norm, and weight and bias of the parameters.
    """

    @staticmethod
    def forward(
        ctx: Any,
        shape: Shape,
        plain: Callable[..., Tensor],
        mask: Tensor | None,
        bounds: Tensor,
        eta: Tensor,
        projected: Tensor,
        base: Tensor,
        bias: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        """The log-densities (N S,)."""
        n, dim, hidden = len(eta), shape.dim, shape.hidden
        projected, base = projected.contiguous(), base.contiguous()
        u = eta.new_empty(shape.layers + 1, dim, n)
        torch.mul(eta.T, (shape.half / bounds)[:, None], out=u[0])
        units = eta.new_empty(shape.layers, n, hidden + _PAD)
        statistics = eta.new_empty(shape.layers, 2, n)
        counts = [shape.bent(layer) for layer in range(shape.layers)]
        logs = eta.new_empty(sum(counts), n)
        stride, done, made = shape.layers * hidden, 0, []
        for layer, bent in enumerate(counts):
            read, gamma, beta, weight, shift = weights[5 * layer : 5 * layer + 5]
            part = slice(layer * hidden, (layer + 1) * hidden)
            dropped = projected if mask is None else mask
            _hidden_forward[(triton.cdiv(n, _ROWS),)](
                projected[:, part], bias[part], u[layer], read, gamma, beta, dropped[:, part],
                units[layer],
                statistics[layer, 0], statistics[layer, 1], n, stride, shape.epsilon,
                1.0 - shape.dropout, shape.samples, *_kept(shape, layer), hidden,
                _PAD, mask is not None, _ROWS, triton.next_power_of_2(hidden), num_warps=1,
            )  # fmt: skip
            parameters = eta.new_empty(n, len(weight))
            _spline_forward[(triton.cdiv(n, _TILE),)](
                u[layer], units[layer], weight, shift, parameters, u[layer + 1], logs[done:], n,
                *shape.splines(), layer % 2, bent, dim - bent, hidden, _PAD, *_tile(bent, weight),
                num_warps=4,
            )  # fmt: skip
            made.append(parameters)
            done += bent
        out = eta.new_empty(n)
        _base_forward[(triton.cdiv(n, _BLOCK),)](
            u[-1], logs, base, bounds, out, n, shape.half, shape.min_scale, shape.unit_scale,
            shape.samples, dim, sum(counts), _LOG_2_PI, _BLOCK, num_warps=2,
        )  # fmt: skip
        ctx.save_for_backward(
            mask, bounds, eta, projected, base, bias, u, units, statistics, *made, *weights
        )
        ctx.shape, ctx.plain = shape, plain
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the points, to what the context gives, and to the weights."""
        shape: Shape = ctx.shape
        mask, bounds, eta, projected, base, bias, u, units, statistics, *rest = ctx.saved_tensors
        made, weights = rest[: shape.layers], rest[shape.layers :]
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs = [eta, projected, base, bias, *weights]
            wanted = [t for t in inputs if t.requires_grad]
            out = ctx.plain(mask, eta, projected, base, bias)
            found = iter(
                torch.autograd.grad(out, wanted, grad, create_graph=True, allow_unused=True)
            )
            each = (next(found) if t.requires_grad else None for t in inputs)
            return None, None, None, None, *each
        n, dim, hidden, samples = len(eta), shape.dim, shape.hidden, shape.samples
        grad = grad.contiguous()
        grad_u = eta.new_empty(dim, n)
        grad_base = eta.new_empty(n, 2 * dim)
        _base_backward[(triton.cdiv(n, _BLOCK),)](
            u[-1], base, grad, grad_u, grad_base, n, shape.min_scale, shape.unit_scale, samples,
            dim, _BLOCK, num_warps=2,
        )  # fmt: skip
        grad_projected = projected.new_empty(n, shape.layers * hidden)
        programs = triton.cdiv(n, _ROWS_BACK)
        # Layers of one parity have the same sizes: their gradients are formed together.
        turns = [list(range(turn, shape.layers, 2)) for turn in (0, 1)]
        to_parameters = [
            eta.new_empty(len(turn), n, shape.rows * shape.bent(i)) for i, turn in enumerate(turns)
        ]
        partials = [
            eta.new_empty(len(turn), programs, dim - shape.bent(i) + 3, hidden)
            for i, turn in enumerate(turns)
        ]
        for layer in reversed(range(shape.layers)):
            read, gamma, _beta, weight, _bias = weights[5 * layer : 5 * layer + 5]
            parity, place = layer % 2, layer // 2
            to_these, bent = to_parameters[parity][place], shape.bent(layer)
            to_units = eta.new_empty(n, hidden)
            _spline_backward[(triton.cdiv(n, _TILE),)](
                u[layer], u[layer + 1], made[layer], weight, grad, grad_u, to_these, to_units, n,
                *shape.splines(), parity, bent, hidden, *_tile(bent, weight), num_warps=4,
            )  # fmt: skip
            part = slice(layer * hidden, (layer + 1) * hidden)
            dropped = projected if mask is None else mask
            _hidden_backward[(programs,)](
                projected[:, part], bias[part], u[layer], read, gamma, dropped[:, part],
                statistics[layer, 0], statistics[layer, 1], to_units, grad_projected[:, part],
                grad_u, partials[parity][place], n, shape.layers * hidden, 1.0 - shape.dropout,
                samples, *_kept(shape, layer), hidden, mask is not None, _ROWS_BACK,
                triton.next_power_of_2(hidden), num_warps=_WARPS_BACK,
            )  # fmt: skip
        rest = _weight_gradients(shape, turns, to_parameters, partials, units, weights)
        if samples > 1:
            grad_projected = grad_projected.unflatten(0, (-1, samples)).sum(1)
            grad_base = grad_base.unflatten(0, (-1, samples)).sum(1)
        grad_eta = None
        if ctx.needs_input_grad[4]:
            grad_eta = (grad_u * (shape.half / bounds)[:, None]).T
        return None, None, None, None, grad_eta, grad_projected, grad_base, *rest


def _tile(bent: int, weight: Tensor) -> tuple[int, int, int, int, str]:
    """Columns of parameters and of axes, rows, and depth of a program's product; its precision."""
    exact = torch.get_float32_matmul_precision() == "highest"
    columns = max(16, triton.next_power_of_2(len(weight)))
    axes = triton.next_power_of_2(bent)
    return columns, axes, _TILE, _CHUNK, "ieee" if exact else "tf32"


def _kept(shape: Shape, layer: int) -> tuple[int, int]:
    """First of the coordinates that a layer keeps, and how many there are."""
    return 1 - layer % 2, shape.dim - shape.bent(layer)


def _weight_gradients(
    shape: Shape,
    turns: Sequence[Sequence[int]],
    to_parameters: Sequence[Tensor],
    partials: Sequence[Tensor],
    units: Tensor,
    weights: Sequence[Tensor],
) -> list[Tensor | None]:
    """Gradients to the bias and all weights, by one product and one sum for each parity."""
    found: list[Tensor | None] = [None] * len(weights)
    biases: list[Tensor] = [units] * shape.layers
    for parity, turn in enumerate(turns):
        if not turn:
            continue
        products = _long_product(to_parameters[parity], units[parity::2, :, : shape.hidden + 1])
        sums = column_sums(partials[parity].flatten(2)).view(len(turn), -1, shape.hidden)
        for place, layer in enumerate(turn):
            weight, shift = products[place].split((shape.hidden, 1), 1)
            each = (sums[place, 3:].T, sums[place, 0], sums[place, 1], weight)
            found[5 * layer : 5 * layer + 5] = *each, shift.reshape(weights[5 * layer + 4].shape)
            biases[layer] = sums[place, 2]
    return [torch.cat(biases), *found]


def _long_product(a: Tensor, b: Tensor) -> Tensor:
    """a^T b (L, k, m) of long matrices (L, n, k) and (L, n, m), in parts that run side by side."""
    n = a.shape[1]
    if n % _PARTS:
        return a.mT @ b
    parts: Tensor = a.unflatten(1, (_PARTS, -1)).mT @ b.unflatten(1, (_PARTS, -1))
    return parts.sum(1)
