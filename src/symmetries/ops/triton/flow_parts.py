"""Parts of a flow of coupling splines that both passes need: places, splines, hidden units.

Widths, heights and slopes of a spline lie along an axis of their own, so that normalising and
choosing the bin are sums over eight lanes instead of a walk over the bins.

Weights of all layers are packed into one vector: for each layer the matrix of the kept coordinates
(hidden, kept), gain and shift of the norm, and weight of the splines' parameters; then for each
layer the bias of these.
"""

import triton
import triton.language as tl

from symmetries.ops.triton.normalise import _share


@triton.jit
def _place(
    layer, DIM: tl.constexpr, FREE: tl.constexpr, WIDTH: tl.constexpr, LAYERS: tl.constexpr,
    ALIGN: tl.constexpr,
):  # fmt: skip
    """First bent coordinate, how many are bent and kept, where weights and biases begin."""
    first = layer % 2
    bent = (DIM + 1 - first) // 2
    many: tl.constexpr = (DIM + 1) // 2
    few: tl.constexpr = DIM // 2
    one: tl.constexpr = WIDTH * (few + 2 + FREE * many)
    two: tl.constexpr = WIDTH * (many + 2 + FREE * few)
    begin = (layer // 2) * (one + two) + first * one
    whole: tl.constexpr = (LAYERS + 1) // 2 * one + LAYERS // 2 * two
    shift = whole + (layer // 2) * (FREE * DIM) + first * (FREE * many)
    return first, bent, DIM - bent, tl.multiple_of(begin, ALIGN), shift


@triton.jit
def _lengths(free, used, HALF: tl.constexpr, SHARE: tl.constexpr, BINS: tl.constexpr):
    """Shares of a soft-max over the bins, lengths of the bins, and where they begin."""
    free = tl.where(used, free, -1e30)
    grown = tl.where(used, tl.exp(free - tl.max(free, 1)[:, None]), 0.0)
    share = grown / tl.sum(grown, 1)[:, None]
    rest: tl.constexpr = 1.0 - SHARE * BINS
    length = tl.where(used, 2.0 * HALF * (SHARE + rest * share), 0.0)
    return share, length, tl.cumsum(length, 1) - length - HALF


@triton.jit
def _spline(
    given, parameters, at, step, bins, keep, HALF: tl.constexpr, SHARE: tl.constexpr,
    MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr,
):  # fmt: skip
    """The bin of each number (points,): its index and six numbers; shares and slopes' rates."""
    used = (bins < BINS)[None, :] & keep[:, None]
    inner = (bins < BINS - 1)[None, :] & keep[:, None]
    place = at[:, None] + bins[None, :] * step
    free_w = tl.load(parameters + place, mask=used, other=0.0)
    free_h = tl.load(parameters + place + BINS * step, mask=used, other=0.0)
    free_d = tl.load(parameters + place + 2 * BINS * step, mask=inner, other=0.0) + UNIT
    real = (bins < BINS)[None, :]
    share_w, width, left = _lengths(free_w, real, HALF, SHARE, BINS)
    share_h, height, bottom = _lengths(free_h, real, HALF, SHARE, BINS)
    large = free_d > 20.0
    grown = tl.exp(tl.where(large, 0.0, free_d))
    slope = tl.where(large, free_d, tl.log(1.0 + grown))
    slope = MIN_SLOPE + tl.where(grown < 1e-4, grown, slope)
    rate = tl.where(large, 1.0, grown / (1.0 + grown))
    x = tl.minimum(tl.maximum(given, -HALF), HALF)
    behind = (x[:, None] >= left) & (bins > 0)[None, :] & (bins < BINS)[None, :]
    k = tl.sum(behind.to(tl.int32), 1)
    here, before = bins[None, :] == k[:, None], bins[None, :] == k[:, None] - 1
    x0, w = tl.sum(tl.where(here, left, 0.0), 1), tl.sum(tl.where(here, width, 0.0), 1)
    y0, h = tl.sum(tl.where(here, bottom, 0.0), 1), tl.sum(tl.where(here, height, 0.0), 1)
    d0 = tl.where(k > 0, tl.sum(tl.where(before, slope, 0.0), 1), 1.0)
    d1 = tl.where(k < BINS - 1, tl.sum(tl.where(here, slope, 0.0), 1), 1.0)
    return x, k, x0, y0, w, h, d0, d1, share_w, share_h, rate


@triton.jit
def _lanes(
    n, WIDTH: tl.constexpr, AXES: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Return the indices of a program: points, hidden units, and splines by point, axis and bin."""
    begin = tl.program_id(0) * ROWS
    row, columns = begin + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    element = tl.arange(0, ROWS * AXES)
    point, axis, bins = begin + element // AXES, element % AXES, tl.arange(0, LANES)
    return row, row < n, columns, columns < WIDTH, point, axis, bins


@triton.jit
def _law(
    base, u, j, row, there, n, MIN_SCALE: tl.constexpr, UNIT_SCALE: tl.constexpr,
    SAMPLES: tl.constexpr, DIM: tl.constexpr, LAYERS: tl.constexpr,
):  # fmt: skip
    """The j-th coordinate in units of its base; the scale of that, and the rate it grows with."""
    at = base + (row // SAMPLES) * (2 * DIM) + j
    mean = tl.load(at, mask=there, other=0.0)
    value = tl.load(at + DIM, mask=there, other=0.0) + UNIT_SCALE
    grown = tl.exp(tl.minimum(value, 20.0))
    scale = MIN_SCALE + tl.where(value > 20.0, value, tl.log(1.0 + grown))
    rate = tl.where(value > 20.0, 1.0, grown / (1.0 + grown))
    z = (tl.load(u + (LAYERS * DIM + j) * n + row, mask=there, other=0.0) - mean) / scale
    return z, scale, rate


@triton.jit
def _hidden(
    projected, bias, u, packed, row, there, columns, inside, n, stride, first, kept,
    SAMPLES: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """Hidden units before the norm: gelu(h) and its slope."""
    at = (row // SAMPLES).to(tl.int64)[:, None] * stride + columns[None, :]
    both = there[:, None] & inside[None, :]
    h = tl.load(projected + at, mask=both, other=0.0).to(tl.float32)
    h += tl.load(bias + columns, mask=inside, other=0.0)[None, :]
    for j in tl.static_range(MOST):
        real = there & (j + 0 * row < kept)  # a tensor where numbers are Python's: masks of bits
        value = tl.load(u + (1 - first + 2 * j) * n + row, mask=real, other=0.0)
        used = inside & (j + 0 * columns < kept)
        weight = tl.load(packed + columns * kept + j, mask=used, other=0.0)
        h += value[:, None] * weight[None, :]
    share, density = _share(h)
    return h * share, share + h * 0.3989422804014327 * density
