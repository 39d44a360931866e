"""A full covariance S = L L' in two passes over its factors: variances, and what they depend on.

With s the diagonal of L and r = phi L, the variance is |r|^2. Forward one pass makes r, the
variances and the sum of squares of the factors; backward one pass makes the gradients to the
features and to the diagonals (:mod:`symmetries.kernels.factors` makes that to the factors). Only
tiles that reach below the diagonal are read, and what else is in them is left out.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 128  # examples of a program
ROTATE = {"TILE": 32, "DEPTH": 32, "num_warps": 4, "num_stages": 3}
FEATURES = {"TILE": 64, "DEPTH": 64, "num_warps": 8, "num_stages": 3}


@triton.jit
def dot(x, y, ROUNDED: tl.constexpr):
    """Product of matrices: in tf32, or as good as float32 and still fast."""
    if ROUNDED:
        return tl.dot(x, y, input_precision="tf32")
    return tl.dot(x, y, input_precision="tf32x3")


@triton.jit
def _rotate(
    phi, lower, scale, rotated, squares, energy, B, D, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, DEPTH: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Some columns of r for some examples: their part of |r|^2, and of the sum of squares of L.

    Transposed: so few rows of a product keep it on instructions that read columns as they lie.
    """
    block, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    run, output = block // outputs, block % outputs
    b = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    j = tile * TILE + tl.arange(0, TILE)
    seen, inside = (b < B)[:, None], (j < D)[None, :]
    features = phi + (run * B + b)[:, None] * D
    columns = lower + block * D * D + j[None, :]
    i = tile * TILE + tl.arange(0, DEPTH)
    x = tl.load(features + i[None, :], mask=seen & (i < D)[None, :], other=0.0)
    w = tl.load(columns + i[:, None] * D, mask=(i < D)[:, None] & inside, other=0.0)
    w = tl.where(i[:, None] > j[None, :], w, 0.0)
    total = dot(tl.trans(w), tl.trans(x), ROUNDED)
    size = w * w
    for first in range(tile * TILE + DEPTH, D, DEPTH):
        i = first + tl.arange(0, DEPTH)
        x = tl.load(features + i[None, :], mask=seen & (i < D)[None, :], other=0.0)
        w = tl.load(columns + i[:, None] * D, mask=(i < D)[:, None] & inside, other=0.0)
        total += dot(tl.trans(w), tl.trans(x), ROUNDED)
        size += w * w
    turned = tl.trans(total)
    s = tl.load(scale + block * D + j, mask=j < D, other=0.0)
    turned += tl.load(features + j[None, :], mask=seen & inside, other=0.0) * s[None, :]
    tl.store(rotated + (block * B + b)[:, None] * D + j[None, :], turned, mask=seen & inside)
    tiles = tl.num_programs(1)
    goal = squares + ((run * tiles + tile) * B + b) * outputs + output
    tl.store(goal, tl.sum(turned * turned, 1), mask=b < B)
    if tl.program_id(2) == 0:
        tl.store(energy + block * tiles + tile, tl.sum(tl.sum(size, 0), 0))


@triton.jit
def _features(
    phi, rotated, lower, scale, grad, columns, slope, to_phi, to_scale, B, D, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, DEPTH: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Gradients to the same columns of phi, of r and of the diagonals, from some examples.

    That to r, and phi itself, are written as columns: as the product that is the gradient to L
    reads them best.
    """
    block = tl.program_id(0).to(tl.int64)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)  # the longest rows first
    run, output = block // outputs, block % outputs
    b = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    i = tile * TILE + tl.arange(0, TILE)
    seen, inside = (b < B)[:, None], (i < D)[None, :]
    turned = rotated + (block * B + b)[:, None] * D
    rows = lower + (block * D + i[:, None]) * D
    total = tl.zeros([ROWS, TILE], tl.float32)
    for first in range(0, tile * TILE, DEPTH):
        j = first + tl.arange(0, DEPTH)
        y = tl.load(turned + j[None, :], mask=seen, other=0.0)
        w = tl.load(rows + j[None, :], mask=(i < D)[:, None], other=0.0)
        total += dot(y, tl.trans(w), ROUNDED)
    y = tl.load(turned + i[None, :], mask=seen & inside, other=0.0)
    w = tl.load(rows + i[None, :], mask=(i < D)[:, None] & inside, other=0.0)
    w = tl.where(i[:, None] > i[None, :], w, 0.0)
    total += dot(y, tl.trans(w), ROUNDED)
    s = tl.load(scale + block * D + i, mask=i < D, other=0.0)
    g = 2.0 * tl.load(grad + (run * B + b) * outputs + output, mask=b < B, other=0.0)
    goal = to_phi + (block * B + b)[:, None] * D + i[None, :]
    tl.store(goal, (total + y * s[None, :]) * g[:, None], mask=seen & inside)
    y *= g[:, None]
    kept = (i < D)[:, None] & (b < B)[None, :]
    tl.store(slope + (block * D + i[:, None]) * B + b[None, :], tl.trans(y), mask=kept)
    x = tl.load(phi + (run * B + b)[:, None] * D + i[None, :], mask=seen & inside, other=0.0)
    if output == 0:
        tl.store(columns + (run * D + i[:, None]) * B + b[None, :], tl.trans(x), mask=kept)
    goal = to_scale + (tl.program_id(2) * tl.num_programs(0) + block) * D + i
    tl.store(goal, tl.sum(y * x, 0), mask=i < D)


def rounded() -> bool:
    """Whether products may be rounded to tf32."""
    return torch.get_float32_matmul_precision() != "highest"


def variances(phi: Tensor, lower: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Variances (R, B, outputs), sums of squares (R,) of the factors, and r (R, outputs, B, D).

    Args:
        phi: features (R, B, D).
        lower: L below its diagonal, (R, outputs, D, D).
        scale: its diagonal, (R, outputs, D).
    """
    runs, outputs, dim = scale.shape
    batch, tiles = phi.shape[1], triton.cdiv(dim, ROTATE["TILE"])
    rotated = phi.new_empty(runs, outputs, batch, dim)
    squares = phi.new_empty(runs, tiles, batch, outputs)
    energy = phi.new_empty(runs, outputs * tiles)
    _rotate[(runs * outputs, tiles, triton.cdiv(batch, ROWS))](
        phi, lower, scale, rotated, squares, energy, batch, dim, outputs,
        ROWS, ROUNDED=rounded(), **ROTATE,
    )  # fmt: skip
    return squares.sum(1), energy.sum(1), rotated


def to_features(
    phi: Tensor, rotated: Tensor, lower: Tensor, scale: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients to the features and to the diagonals; phi' (R, D, B), and that to r'.

    Args:
        phi: features (R, B, D).
        rotated: r, (R, outputs, B, D).
        lower: (R, outputs, D, D).
        scale: (R, outputs, D).
        grad: to the variances, (R, B, outputs).
    """
    runs, outputs, batch, dim = rotated.shape
    parts = triton.cdiv(batch, ROWS)
    to_phi, to_scale = torch.empty_like(rotated), scale.new_empty(parts, *scale.shape)
    columns, slope = phi.new_empty(runs, dim, batch), phi.new_empty(runs, outputs, dim, batch)
    _features[(runs * outputs, triton.cdiv(dim, FEATURES["TILE"]), parts)](
        phi, rotated, lower, scale, grad, columns, slope, to_phi, to_scale, batch, dim, outputs,
        ROWS, ROUNDED=rounded(), **FEATURES,
    )  # fmt: skip
    return to_phi.sum(1), to_scale[0] if parts == 1 else to_scale.sum(0), columns, slope
