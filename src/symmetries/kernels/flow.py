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
import triton.language as tl
from torch import Tensor

from symmetries.kernels.normalise import _share
from symmetries.kernels.spline import _apply, _gradient
from symmetries.kernels.sums import column_sums

_ROWS = 2  # of a program, which is one warp: its sums need no barrier
_ROWS_BACK = 4
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


@triton.jit
def _units(
    projected, bias, u, read, row, there, columns, inside, n, stride, SAMPLES: tl.constexpr,
    FIRST: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Hidden units before the norm: gelu(h) and its slope."""
    at = (row // SAMPLES).to(tl.int64)[:, None] * stride + columns[None, :]
    both = there[:, None] & inside[None, :]
    h = tl.load(projected + at, mask=both, other=0.0).to(tl.float32)
    h += tl.load(bias + columns, mask=inside, other=0.0)[None, :]
    for k in tl.static_range(KEPT):
        value = tl.load(u + (FIRST + 2 * k) * n + row, mask=there, other=0.0)
        weight = tl.load(read + columns * KEPT + k, mask=inside, other=0.0)
        h += value[:, None] * weight[None, :]
    share, density = _share(h)
    return h * share, share + h * 0.3989422804014327 * density


@triton.jit
def _hidden_forward(
    projected, bias, u, read, gamma, beta, mask, out, mean, scale, n, stride, epsilon,
    KEEP: tl.constexpr, SAMPLES: tl.constexpr, FIRST: tl.constexpr, KEPT: tl.constexpr,
    WIDTH: tl.constexpr, PAD: tl.constexpr, DROP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    there, inside = row < n, columns < WIDTH
    both = there[:, None] & inside[None, :]
    g, _slope = _units(
        projected, bias, u, read, row, there, columns, inside, n, stride, SAMPLES, FIRST, KEPT
    )
    m = tl.sum(g, 1) / WIDTH
    centred = tl.where(inside[None, :], g - m[:, None], 0.0)
    s = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
    y = centred * s[:, None] * tl.load(gamma + columns, mask=inside, other=0.0)[None, :]
    y += tl.load(beta + columns, mask=inside, other=0.0)[None, :]
    if DROP:
        kept = tl.load(mask + row[:, None] * stride + columns[None, :], mask=both, other=0.0)
        y = tl.where(kept != 0.0, y / KEEP, 0.0)
    tl.store(out + row[:, None] * (WIDTH + PAD) + columns[None, :], y, mask=both)
    tl.store(out + row * (WIDTH + PAD) + WIDTH, tl.zeros_like(m) + 1.0, mask=there)
    tl.store(mean + row, m, mask=there)
    tl.store(scale + row, s, mask=there)


@triton.jit
def _hidden_backward(
    projected, bias, u, read, gamma, mask, mean, scale, grad, grad_projected, grad_u, partial, n,
    stride, KEEP: tl.constexpr, SAMPLES: tl.constexpr, FIRST: tl.constexpr, KEPT: tl.constexpr,
    WIDTH: tl.constexpr, DROP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    there, inside = row < n, columns < WIDTH
    both = there[:, None] & inside[None, :]
    g, slope = _units(
        projected, bias, u, read, row, there, columns, inside, n, stride, SAMPLES, FIRST, KEPT
    )
    s = tl.load(scale + row, mask=there, other=0.0)[:, None]
    m = tl.load(mean + row, mask=there, other=0.0)[:, None]
    unit = tl.where(both, (g - m) * s, 0.0)
    dy = tl.load(grad + row[:, None] * WIDTH + columns[None, :], mask=both, other=0.0)
    if DROP:
        kept = tl.load(mask + row[:, None] * stride + columns[None, :], mask=both, other=0.0)
        dy = tl.where(kept != 0.0, dy / KEEP, 0.0)
    partial += tl.program_id(0) * (KEPT + 3) * WIDTH
    tl.store(partial + columns, tl.sum(dy * unit, 0), mask=inside)
    tl.store(partial + WIDTH + columns, tl.sum(dy, 0), mask=inside)
    d = dy * tl.load(gamma + columns, mask=inside, other=0.0)[None, :]
    middle, along = tl.sum(d, 1) / WIDTH, tl.sum(d * unit, 1) / WIDTH
    d = s * (d - middle[:, None] - unit * along[:, None])
    d *= slope
    d = tl.where(both, d, 0.0)
    tl.store(partial + 2 * WIDTH + columns, tl.sum(d, 0), mask=inside)
    tl.store(grad_projected + row.to(tl.int64)[:, None] * stride + columns[None, :], d, mask=both)
    for k in tl.static_range(KEPT):
        at = (FIRST + 2 * k) * n + row
        value = tl.load(u + at, mask=there, other=0.0)
        tl.store(partial + (3 + k) * WIDTH + columns, tl.sum(d * value[:, None], 0), mask=inside)
        weight = tl.load(read + columns * KEPT + k, mask=inside, other=0.0)
        total = tl.load(grad_u + at, mask=there, other=0.0) + tl.sum(d * weight[None, :], 1)
        tl.store(grad_u + at, total, mask=there)


@triton.jit
def _spline_forward(
    u, units, weight, shift, parameters, u_next, logs, n, HALF: tl.constexpr, SHARE: tl.constexpr,
    MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr, FIRST: tl.constexpr,
    BENT: tl.constexpr, KEPT: tl.constexpr, WIDTH: tl.constexpr, PAD: tl.constexpr,
    OUT: tl.constexpr, AXES: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Parameters of the splines, a product; then the splines themselves."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < n
    count: tl.constexpr = (3 * BINS - 1) * BENT
    out, inner = tl.arange(0, OUT), tl.arange(0, CHUNK)
    total = tl.zeros([ROWS, OUT], tl.float32)
    for first in range(0, WIDTH, CHUNK):
        k = first + inner
        left = tl.load(
            units + row[:, None] * (WIDTH + PAD) + k[None, :],
            mask=there[:, None] & (k < WIDTH)[None, :], other=0.0,
        )  # fmt: skip
        right = tl.load(
            weight + out[None, :] * WIDTH + k[:, None],
            mask=(out < count)[None, :] & (k < WIDTH)[:, None], other=0.0,
        )  # fmt: skip
        total += tl.dot(left, right, input_precision=PRECISION)
    total += tl.load(shift + out, mask=out < count, other=0.0)[None, :]
    tl.store(
        parameters + row[:, None] * count + out[None, :], total,
        mask=there[:, None] & (out < count)[None, :],
    )  # fmt: skip
    tl.debug_barrier()  # what other threads stored is read below
    axis = tl.arange(0, AXES)[None, :]
    keep = there[:, None] & (axis < BENT)
    at = (FIRST + 2 * axis) * n + row[:, None]
    y, log_slope = _apply(
        tl.load(u + at, mask=keep, other=0.0), parameters, BENT, row[:, None] * count + axis, keep,
        HALF, SHARE, MIN_SLOPE, UNIT, BINS, False, False,
    )  # fmt: skip
    tl.store(u_next + at, y, mask=keep)
    tl.store(logs + axis * n + row[:, None], log_slope, mask=keep)
    for j in tl.static_range(KEPT):
        other = (1 - FIRST + 2 * j) * n + row
        tl.store(u_next + other, tl.load(u + other, mask=there, other=0.0), mask=there)


@triton.jit
def _spline_backward(
    u, u_next, parameters, weight, grad_log, grad_u, grad_parameters, grad_units, n,
    HALF: tl.constexpr, SHARE: tl.constexpr, MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr,
    BINS: tl.constexpr, FIRST: tl.constexpr, BENT: tl.constexpr, WIDTH: tl.constexpr,
    OUT: tl.constexpr, AXES: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients to the coordinates and to the parameters; of these, by a product, to the units."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < n
    rows: tl.constexpr = 3 * BINS - 1
    count: tl.constexpr = rows * BENT
    axis = tl.arange(0, AXES)[None, :]
    keep = there[:, None] & (axis < BENT)
    at = (FIRST + 2 * axis) * n + row[:, None]
    x, y = tl.load(u + at, mask=keep, other=0.0), tl.load(u_next + at, mask=keep, other=0.0)
    first = tl.load(grad_u + at, mask=keep, other=0.0)
    second = tl.load(grad_log + row, mask=there, other=0.0)[:, None] + tl.zeros_like(x)
    to_x = _gradient(
        x, y, first, second, parameters, grad_parameters, BENT, row[:, None] * count + axis, keep,
        HALF, SHARE, MIN_SLOPE, UNIT, BINS, False, False, rows,
    )  # fmt: skip
    tl.store(grad_u + at, to_x, mask=keep)
    tl.debug_barrier()  # what other threads stored is read below
    out, inner = tl.arange(0, OUT), tl.arange(0, CHUNK)
    left = tl.load(
        grad_parameters + row[:, None] * count + out[None, :],
        mask=there[:, None] & (out < count)[None, :], other=0.0,
    )  # fmt: skip
    for begin in range(0, WIDTH, CHUNK):
        k = begin + inner
        right = tl.load(
            weight + out[:, None] * WIDTH + k[None, :],
            mask=(out < count)[:, None] & (k < WIDTH)[None, :], other=0.0,
        )  # fmt: skip
        tl.store(
            grad_units + row[:, None] * WIDTH + k[None, :],
            tl.dot(left, right, input_precision=PRECISION),
            mask=there[:, None] & (k < WIDTH)[None, :],
        )  # fmt: skip


@triton.jit
def _base_forward(
    u, logs, base, bounds, out, n, HALF: tl.constexpr, MIN_SCALE: tl.constexpr,
    UNIT_SCALE: tl.constexpr, SAMPLES: tl.constexpr, DIM: tl.constexpr, TERMS: tl.constexpr,
    LOG_2_PI: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = row < n
    total = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(TERMS):
        total += tl.load(logs + k * n + row, mask=keep, other=0.0)
    at = base + (row // SAMPLES) * (2 * DIM)
    for j in tl.static_range(DIM):
        mean = tl.load(at + j, mask=keep, other=0.0)
        free = tl.load(at + DIM + j, mask=keep, other=0.0) + UNIT_SCALE
        grown = tl.exp(tl.minimum(free, 20.0))
        scale = MIN_SCALE + tl.where(free > 20.0, free, tl.log(1.0 + grown))
        z = (tl.load(u + j * n + row, mask=keep, other=0.0) - mean) / scale
        total += tl.log(HALF / tl.load(bounds + j)) - 0.5 * LOG_2_PI
        total -= 0.5 * z * z + tl.log(scale)
    tl.store(out + row, total, mask=keep)


@triton.jit
def _base_backward(
    u, base, grad, grad_u, grad_base, n, MIN_SCALE: tl.constexpr, UNIT_SCALE: tl.constexpr,
    SAMPLES: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = row < n
    g = tl.load(grad + row, mask=keep, other=0.0)
    at, target = base + (row // SAMPLES) * (2 * DIM), grad_base + row * (2 * DIM)
    for j in tl.static_range(DIM):
        mean = tl.load(at + j, mask=keep, other=0.0)
        free = tl.load(at + DIM + j, mask=keep, other=0.0) + UNIT_SCALE
        grown = tl.exp(tl.minimum(free, 20.0))
        scale = MIN_SCALE + tl.where(free > 20.0, free, tl.log(1.0 + grown))
        rate = tl.where(free > 20.0, 1.0, grown / (1.0 + grown))
        z = (tl.load(u + j * n + row, mask=keep, other=0.0) - mean) / scale
        tl.store(grad_u + j * n + row, -g * z / scale, mask=keep)
        tl.store(target + j, g * z / scale, mask=keep)
        tl.store(target + DIM + j, g * (z * z - 1.0) / scale * rate, mask=keep)


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
                triton.next_power_of_2(hidden), num_warps=1,
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
