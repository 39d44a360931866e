"""Weighted sums over the neighbourhood of each pixel, with weights of its own for each pixel.

    out[p, n, c, m] = sum over taps d of  x[n, p + d, c]  phi[p, d, m]

What each pixel sees is never written down: a matrix of it would be k k times as large as x. Read
the other way round (``TURNED``: pixels p - d and the weights that stand there), the same sum takes
gradients back to the pixels they came from, without adding into memory.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 128  # pairs (image, channel) that a program holds at once


@triton.jit
def _taps(
    place, height, width, other_height, other_width, margin,
    K: tl.constexpr, TAPS: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """For each tap of a place: the pixel, whether it exists, and the row of phi."""
    tap = tl.arange(0, TAPS)
    shift_y, shift_x = tap // K - margin, tap % K - margin
    y, x = place // width, place % width
    if TURNED:
        shift_y, shift_x = -shift_y, -shift_x
    y, x = y + shift_y, x + shift_x
    there = (tap < K * K) & (y >= 0) & (y < other_height) & (x >= 0) & (x < other_width)
    pixel = y * other_width + x
    row = (pixel if TURNED else place) * K * K + tap
    return pixel, there, row


@triton.jit
def _gather(
    x, phi, out, images, height, width, other_height, other_width, margin,
    C: tl.constexpr, M: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, ROWS: tl.constexpr,
    TURNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    pixel, there, row = _taps(
        place, height, width, other_height, other_width, margin, K, TAPS, TURNED
    )
    pair = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = pair < images * C
    unit = tl.arange(0, M)
    start = (pair // C).to(tl.int64) * (other_height * other_width * C) + pair % C
    where = start[:, None] + (pixel * C)[None, :]
    seen = tl.load(x + where, mask=inside[:, None] & there[None, :], other=0.0)
    weights = tl.load(phi + row[:, None] * M + unit[None, :], mask=there[:, None], other=0.0)
    total = tl.dot(seen, weights, input_precision=PRECISION)
    target = (place.to(tl.int64) * images * C + pair)[:, None] * M + unit[None, :]
    tl.store(out + target, total.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _correlate(
    x, given, out, height, width, other_height, other_width, margin,
    PAIRS: tl.constexpr, C: tl.constexpr, M: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr,
    ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    pixel, there, row = _taps(
        place, height, width, other_height, other_width, margin, K, TAPS, False
    )
    unit = tl.arange(0, M)
    total = tl.zeros([TAPS, M], tl.float32)
    for begin in range(0, PAIRS, ROWS):
        pair = begin + tl.arange(0, ROWS)
        inside = pair < PAIRS
        start = (pair // C).to(tl.int64) * (other_height * other_width * C) + pair % C
        where = start[None, :] + (pixel * C)[:, None]
        seen = tl.load(x + where, mask=inside[None, :] & there[:, None], other=0.0)
        source = (place.to(tl.int64) * PAIRS + pair)[:, None] * M + unit[None, :]
        values = tl.load(given + source, mask=inside[:, None], other=0.0)
        total = tl.dot(seen, values, total, input_precision=PRECISION)
    tap = tl.arange(0, TAPS)
    target = row[:, None] * M + unit[None, :]
    tl.store(out + target, total.to(out.dtype.element_ty), mask=(tap < K * K)[:, None])


def gather(
    x: Tensor, phi: Tensor, size: tuple[int, int], margin: int, turned: bool = False
) -> Tensor:
    """(pixels out, N, C, hidden): see above.

    Args:
        x: (N, height, width, C), contiguous.
        phi: (pixels, k k, hidden), of the pixels that come out, or with ``turned`` of those of x.
        size: height and width of what comes out.
        margin: pixels before the first that the first tap of the first place reads.
        turned: whether to read the pixels p - d, and the weights that stand there.
    """
    images, other_height, other_width, channels = x.shape
    places, hidden = size[0] * size[1], phi.shape[2]
    out = x.new_empty(places, images, channels, hidden)
    grid = (places, triton.cdiv(images * channels, _ROWS))
    sizes = _sizes(x, phi)
    lengths = (images, *size, other_height, other_width, margin)
    _gather[grid](x, phi, out, *lengths, **sizes, TURNED=turned)
    return out


def correlate(x: Tensor, given: Tensor, like: Tensor, size: tuple[int, int], margin: int) -> Tensor:
    """The gradient of :func:`gather` by phi: sum over n, c of x[n, p + d, c] given[p, n, c, m].

    Args:
        x: (N, height, width, C), contiguous.
        given: (pixels out, N, C, hidden), contiguous.
        like: phi.
        size: height and width of what came out.
        margin: as above.
    """
    images, other_height, other_width, channels = x.shape
    out = torch.empty_like(like)
    sizes = {"PAIRS": images * channels, **_sizes(x, like)}
    lengths = (*size, other_height, other_width, margin)
    _correlate[(size[0] * size[1],)](x, given, out, *lengths, **sizes)
    return out


def _sizes(x: Tensor, phi: Tensor) -> dict[str, int | str]:
    taps = phi.shape[1]
    exact = x.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return {
        "C": x.shape[3],
        "M": phi.shape[2],
        "K": round(taps**0.5),
        "TAPS": max(16, triton.next_power_of_2(taps)),
        "ROWS": _ROWS,
        "PRECISION": "ieee" if exact else "tf32",
    }
