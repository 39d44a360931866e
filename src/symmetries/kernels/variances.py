"""A full covariance S = L L' in two passes over its factors: variances, and all their gradients.

With s the diagonal of L and r = phi L, the variance is |r|^2. Only what is below the diagonal is
read. Forward one pass makes r, the variances and the sum of squares of the factors; backward one
pass makes the gradients to the features, to the factors (their KL's part with it) and to the
diagonals. Everything above the diagonal is zero and stays so.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, TILE, DEPTH = 128, 64, 32


@triton.jit
def _dot(x, y, ROUNDED: tl.constexpr):
    if ROUNDED:
        return tl.dot(x, y, input_precision="tf32")
    return tl.dot(x, y, input_precision="tf32x3")  # as good as float32, and still fast


@triton.jit
def _rotate(
    phi, lower, scale, rotated, squares, energy, B, D, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, DEPTH: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Some columns of r for some examples: their part of |r|^2, and of the sum of squares of L."""
    block, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    run, output = block // outputs, block % outputs
    b = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    j = tile * TILE + tl.arange(0, TILE)
    seen, inside = (b < B)[:, None], (j < D)[None, :]
    features = phi + (run * B + b)[:, None] * D
    total, size = tl.zeros([ROWS, TILE], tl.float32), tl.zeros([TILE], tl.float32)
    for first in range(tile * TILE, D, DEPTH):
        i = first + tl.arange(0, DEPTH)
        x = tl.load(features + i[None, :], mask=seen & (i < D)[None, :], other=0.0)
        below = (i < D)[:, None] & (i[:, None] > j[None, :])
        w = tl.load(lower + (block * D + i[:, None]) * D + j[None, :], mask=below, other=0.0)
        total += _dot(x, w, ROUNDED)
        size += tl.sum(w * w, 0)
    s = tl.load(scale + block * D + j, mask=j < D, other=0.0)
    total += tl.load(features + j[None, :], mask=seen & inside, other=0.0) * s[None, :]
    tl.store(rotated + (block * B + b)[:, None] * D + j[None, :], total, mask=seen & inside)
    tiles = tl.num_programs(1)
    goal = squares + ((run * tiles + tile) * B + b) * outputs + output
    tl.store(goal, tl.sum(total * total, 1), mask=b < B)
    if tl.program_id(2) == 0:
        tl.store(energy + block * tiles + tile, tl.sum(size, 0))


@triton.jit
def _gradients(
    phi, rotated, lower, scale, grad, factor, to_phi, to_lower, to_scale, B, D, first, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, MORE: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Some rows of L: their gradient from some examples, and that of the same features."""
    block = tl.program_id(0).to(tl.int64)
    tiles = tl.num_programs(1)
    tile = tiles - 1 - tl.program_id(1)  # the longest rows first
    run, output = block // outputs, block % outputs
    b = first + tl.arange(0, ROWS)
    i = tile * TILE + tl.arange(0, TILE)
    seen, inside = (b < B)[:, None], (i < D)[None, :]
    x = tl.load(phi + (run * B + b)[:, None] * D + i[None, :], mask=seen & inside, other=0.0)
    g = 2.0 * tl.load(grad + (run * B + b) * outputs + output, mask=b < B, other=0.0)
    share = 2.0 * tl.load(factor + run)
    turned = rotated + (block * B + b)[:, None] * D
    total = tl.zeros([ROWS, TILE], tl.float32)
    for other in range(0, tile + 1):
        j = other * TILE + tl.arange(0, TILE)
        y = tl.load(turned + j[None, :], mask=seen & (j < D)[None, :], other=0.0) * g[:, None]
        at = (block * D + i[:, None]) * D + j[None, :]
        below = (i < D)[:, None] & (i[:, None] > j[None, :])
        w = tl.load(lower + at, mask=below, other=0.0)
        slope = _dot(tl.trans(x), y, ROUNDED)
        if MORE:
            slope += tl.load(to_lower + at, mask=below, other=0.0)
        else:
            slope += share * w
        every = (i < D)[:, None] & (j < D)[None, :]
        tl.store(to_lower + at, tl.where(below, slope, 0.0), mask=every)
        total += _dot(y, tl.trans(w), ROUNDED)
    y = tl.load(turned + i[None, :], mask=seen & inside, other=0.0) * g[:, None]
    s = tl.load(scale + block * D + i, mask=i < D, other=0.0)
    total += y * s[None, :]
    tl.store(to_phi + (block * B + b)[:, None] * D + i[None, :], total, mask=seen & inside)
    change = tl.sum(y * x, 0)
    if MORE:
        change += tl.load(to_scale + block * D + i, mask=i < D, other=0.0)
    tl.store(to_scale + block * D + i, change, mask=i < D)
    if not MORE:
        for other in range(tile + 1, tiles):
            j = other * TILE + tl.arange(0, TILE)
            at = (block * D + i[:, None]) * D + j[None, :]
            every = (i < D)[:, None] & (j < D)[None, :]
            tl.store(to_lower + at, tl.zeros([TILE, TILE], tl.float32), mask=every)


def _rounded() -> bool:
    return torch.get_float32_matmul_precision() != "highest"


def variances(phi: Tensor, lower: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Variances (R, B, outputs), sums of squares (R,) of the factors, and r (R, outputs, B, D).

    Args:
        phi: features (R, B, D).
        lower: L below its diagonal, (R, outputs, D, D).
        scale: its diagonal, (R, outputs, D).
    """
    runs, outputs, dim = scale.shape
    batch, tiles = phi.shape[1], triton.cdiv(dim, TILE)
    rotated = phi.new_empty(runs, outputs, batch, dim)
    squares = phi.new_empty(runs, tiles, batch, outputs)
    energy = phi.new_empty(runs, outputs * tiles)
    _rotate[(runs * outputs, tiles, triton.cdiv(batch, ROWS))](
        phi, lower, scale, rotated, squares, energy, batch, dim, outputs,
        ROWS, TILE, DEPTH, _rounded(), num_warps=8, num_stages=3,
    )  # fmt: skip
    return squares.sum(1), energy.sum(1), rotated


def gradients(
    phi: Tensor, rotated: Tensor, lower: Tensor, scale: Tensor, grad: Tensor, factor: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to the features, to the factors (zero from the diagonal up) and to the diagonals.

    Args:
        phi: features (R, B, D).
        rotated: r, (R, outputs, B, D).
        lower: (R, outputs, D, D).
        scale: (R, outputs, D).
        grad: to the variances, (R, B, outputs).
        factor: to the sums of squares, (R,).
    """
    runs, outputs, batch, dim = rotated.shape
    to_phi, to_lower, to_scale = (torch.empty_like(t) for t in (rotated, lower, scale))
    for first in range(0, batch, ROWS):
        _gradients[(runs * outputs, triton.cdiv(dim, TILE))](
            phi, rotated, lower, scale, grad, factor, to_phi, to_lower, to_scale,
            batch, dim, first, outputs, ROWS, TILE, first > 0, _rounded(), num_warps=8,
        )  # fmt: skip
    return to_phi.sum(1), to_lower, to_scale
