"""What one layer of a flow does to points, on the device (:mod:`symmetries.kernels.flow`)."""

import triton
import triton.language as tl

from symmetries.kernels.normalise import _share
from symmetries.kernels.spline import _apply, _gradient


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
