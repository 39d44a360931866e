"""Weighted sums over the neighbourhood of each pixel, with weights of its own for each pixel.

    out[n, p, c, m] = sum over taps d of  x[n, p + d, c]  phi[p, d, m]

What each pixel sees is never written down: a matrix of it would be k k times as large as x. Read
the other way round (``TURNED``: pixels p - d and the weights that stand there), the same sum takes
gradients back to the pixels they came from, without adding into memory.

A program takes some places side by side, which see nearly the same pixels: these are read once.
"""

import math
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.position_conv import exact_wanted
from symmetries.ops.triton.launching import Launch

_ROWS = 64  # pairs (image, channel) that a program holds at once
_SIDE = 2  # places side by side


@triton.jit
def _window(
    width, other_height, other_width, margin,
    M: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, SIDE: tl.constexpr,
    TURNED: tl.constexpr,
):  # fmt: skip
    """Load the neighbourhoods of the positions of a program.

    Returns, by tap of the window: the pixel and whether it exists; by place and unit: the place,
    whether it exists, and the unit; by both: the row of phi and whether that place has that tap.
    """
    across = tl.cdiv(width, SIDE)
    y, x = tl.program_id(0) // across, tl.program_id(0) % across * SIDE
    tap = tl.arange(0, TAPS)
    down, right = tap // (K + SIDE - 1), tap % (K + SIDE - 1)
    column = tl.arange(0, SIDE * M)
    which, unit = column // M, column % M
    place = y * width + x + which
    if TURNED:
        pixel_y, pixel_x = y + margin - down, x + SIDE - 1 + margin - right
        step = right[:, None] + which[None, :] - (SIDE - 1)
    else:
        pixel_y, pixel_x = y + down - margin, x + right - margin
        step = right[:, None] - which[None, :]
    pixel = pixel_y * other_width + pixel_x
    there = (down < K) & (pixel_y >= 0) & (pixel_y < other_height)
    there = there & (pixel_x >= 0) & (pixel_x < other_width)
    exists = x + which < width
    has = (down < K)[:, None] & (step >= 0) & (step < K) & exists[None, :]
    owner = pixel[:, None] if TURNED else place[None, :]
    row = owner * (K * K) + down[:, None] * K + step
    return pixel, there, place, exists, unit, row, has


@triton.jit
def _gather(
    x, phi, out, images, height, width, other_height, other_width, margin,
    C: tl.constexpr, M: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, ROWS: tl.constexpr,
    SIDE: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pixel, there, place, exists, unit, row, has = _window(
        width, other_height, other_width, margin, M, K, TAPS, SIDE, TURNED
    )
    pair = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = pair < images * C
    image, channel = (pair // C).to(tl.int64), pair % C
    where = (image * (other_height * other_width * C) + channel)[:, None] + (pixel * C)[None, :]
    seen = tl.load(x + where, mask=inside[:, None] & there[None, :], other=0.0)
    keep = has & there[:, None]
    weights = tl.load(phi + row * M + unit[None, :], mask=keep, other=0.0)
    total = tl.dot(seen, weights, input_precision=PRECISION)
    target = (image * (height * width))[:, None] + place[None, :]
    target = (target * C + channel[:, None]) * M + unit[None, :]
    tl.store(out + target, total.to(out.dtype.element_ty), mask=inside[:, None] & exists[None, :])


@triton.jit
def _correlate(
    x, given, out, height, width, other_height, other_width, margin,
    PAIRS: tl.constexpr, C: tl.constexpr, M: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr,
    ROWS: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pixel, there, place, exists, unit, row, has = _window(
        width, other_height, other_width, margin, M, K, TAPS, SIDE, False
    )
    total = tl.zeros([TAPS, SIDE * M], tl.float32)
    for begin in range(0, PAIRS, ROWS):
        pair = begin + tl.arange(0, ROWS)
        inside = pair < PAIRS
        image, channel = (pair // C).to(tl.int64), pair % C
        where = (image * (other_height * other_width * C) + channel)[None, :]
        where = where + (pixel * C)[:, None]
        seen = tl.load(x + where, mask=inside[None, :] & there[:, None], other=0.0)
        source = (image * (height * width))[:, None] + place[None, :]
        source = (source * C + channel[:, None]) * M + unit[None, :]
        values = tl.load(given + source, mask=inside[:, None] & exists[None, :], other=0.0)
        total = tl.dot(seen, values, total, input_precision=PRECISION)
    tl.store(out + row * M + unit[None, :], total.to(out.dtype.element_ty), mask=has)


def gather(
    x: Tensor, phi: Tensor, size: tuple[int, int], margin: int, turned: bool = False
) -> Tensor:
    """(N, pixels out, C, hidden): see above.

    Args:
        x: (N, height, width, C), contiguous.
        phi: (pixels, k k, hidden), of the pixels that come out, or with ``turned`` of those of x.
        size: height and width of what comes out.
        margin: pixels before the first that the first tap of the first place reads.
        turned: whether to read the pixels p - d, and the weights that stand there.
    """
    images, other_height, other_width, channels = x.shape
    out = x.new_empty(images, size[0] * size[1], channels, phi.shape[2])
    numbers = (images, *size, other_height, other_width, margin)
    launch = _launch("turned" if turned else "gather", numbers, *_sizes(x, phi), x.device)
    launch(x, phi, out)
    return out


def correlate(x: Tensor, given: Tensor, like: Tensor, size: tuple[int, int], margin: int) -> Tensor:
    """The gradient of :func:`gather` by phi: sum over n, c of x[n, p + d, c] given[n, p, c, m].

    Args:
        x: (N, height, width, C), contiguous.
        given: (N, pixels out, C, hidden), contiguous.
        like: phi.
        size: height and width of what came out.
        margin: as above.
    """
    images, other_height, other_width, _ = x.shape
    out = torch.empty_like(like)
    numbers = (images, *size, other_height, other_width, margin)
    _launch("correlate", numbers, *_sizes(x, like), x.device)(x, given, out)
    return out


def _sizes(x: Tensor, phi: Tensor) -> tuple[int, int, int, bool, torch.dtype]:
    """Channels, units, k, whether products are exact, and of which type."""
    exact = x.dtype == torch.float32 and exact_wanted()
    return x.shape[3], phi.shape[2], math.isqrt(phi.shape[1]), exact, x.dtype


@lru_cache(maxsize=256)
def _launch(
    kind: str,
    numbers: tuple[int, ...],
    channels: int,
    units: int,
    k: int,
    exact: bool,
    dtype: torch.dtype,  # Triton compiles one kernel for each, and each device
    device: torch.device,
) -> Launch:
    """One of the kernels for tensors of one kind; the constants in the order of its arguments."""
    pairs, height, width = numbers[0] * channels, *numbers[1:3]
    taps = max(16, triton.next_power_of_2(k * (k + _SIDE - 1)))
    constants = {"C": channels, "M": units, "K": k, "TAPS": taps, "ROWS": _ROWS, "SIDE": _SIDE}
    precision = {"PRECISION": "ieee" if exact else "tf32"}
    programs = height * -(-width // _SIDE)
    if kind == "correlate":
        sizes = {"PAIRS": pairs, **constants, **precision}
        return Launch(_correlate, (programs, 1), numbers[1:], sizes)
    sizes = {**constants, "TURNED": kind == "turned", **precision}
    return Launch(_gather, (programs, triton.cdiv(pairs, _ROWS)), numbers, sizes)
