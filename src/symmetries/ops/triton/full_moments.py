"""Gaussian outputs with a full covariance S = L L', in two passes over its factors.

With exp(d) the diagonal of L and r = phi L, an output has mean mu' phi and variance |r|^2. Forward
one pass makes r, both moments and the sum of squares of the factors; backward one pass makes all
gradients but that to the factors (see :mod:`symmetries.ops.triton.factor_gradient`). Only tiles
that reach below the diagonal are read, and what else is in them is left out.
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
    phi, mean, diagonal, lower, rotated, moments, energy, B, D, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, DEPTH: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Some columns of r for some examples: their part of both moments, and of the squares of L.

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
    s = tl.exp(tl.load(diagonal + block * D + j, mask=j < D, other=0.0))
    x = tl.load(features + j[None, :], mask=seen & inside, other=0.0)
    turned += x * s[None, :]
    tl.store(rotated + (block * B + b)[:, None] * D + j[None, :], turned, mask=seen & inside)
    tiles = tl.num_programs(1)
    m = tl.load(mean + block * D + j, mask=j < D, other=0.0)
    goal = moments + ((run * tiles + tile) * B + b) * outputs + output
    tl.store(goal, tl.sum(x * m[None, :], 1), mask=b < B)
    goal += tl.num_programs(0).to(tl.int64) * tiles * B
    tl.store(goal, tl.sum(turned * turned, 1), mask=b < B)
    if tl.program_id(2) == 0:
        tl.store(energy + block * tiles + tile, tl.sum(tl.sum(size, 0), 0))


@triton.jit
def _features(
    phi, rotated, mean, diagonal, lower, to_means, to_variances,
    columns, slope, to_phi, to_mean, to_diagonal, B, D, outputs,
    ROWS: tl.constexpr, TILE: tl.constexpr, DEPTH: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """Gradients to the same columns of phi, r, mu and d, from some examples.

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
    s = tl.exp(tl.load(diagonal + block * D + i, mask=i < D, other=0.0))
    m = tl.load(mean + block * D + i, mask=i < D, other=0.0)
    example = (run * B + b) * outputs + output
    first = tl.load(to_means + example, mask=b < B, other=0.0)[:, None]
    second = 2.0 * tl.load(to_variances + example, mask=b < B, other=0.0)[:, None]
    goal = to_phi + (block * B + b)[:, None] * D + i[None, :]
    total = (total + y * s[None, :]) * second + first * m[None, :]
    tl.store(goal, total, mask=seen & inside)
    y *= second
    kept = (i < D)[:, None] & (b < B)[None, :]
    tl.store(slope + (block * D + i[:, None]) * B + b[None, :], tl.trans(y), mask=kept)
    x = tl.load(phi + (run * B + b)[:, None] * D + i[None, :], mask=seen & inside, other=0.0)
    if output == 0:
        tl.store(columns + (run * D + i[:, None]) * B + b[None, :], tl.trans(x), mask=kept)
    at = (tl.program_id(2) * tl.num_programs(0) + block) * D + i
    tl.store(to_mean + at, tl.sum(x * first, 0), mask=i < D)
    tl.store(to_diagonal + at, tl.sum(y * x, 0) * s, mask=i < D)


def rounded() -> bool:
    """Whether products may be rounded to tf32."""
    return torch.get_float32_matmul_precision() != "highest"


def moments(
    phi: Tensor, mean: Tensor, diagonal: Tensor, lower: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means and variances (R, B, outputs), squares (R,) of the factors, r (R, outputs, B, D).

    Args:
        phi: features (R, B, D).
        mean: mu, (R, outputs, D).
        diagonal: d, (R, outputs, D).
        lower: L below its diagonal, (R, outputs, D, D).
    """
    runs, outputs, dim = mean.shape
    batch, tiles = phi.shape[1], triton.cdiv(dim, ROTATE["TILE"])
    rotated = phi.new_empty(runs, outputs, batch, dim)
    parts = phi.new_empty(2, runs, tiles, batch, outputs)
    energy = phi.new_empty(runs, outputs * tiles)
    _rotate[(runs * outputs, tiles, triton.cdiv(batch, ROWS))](
        phi, mean, diagonal, lower, rotated, parts, energy, batch, dim, outputs,
        ROWS, ROUNDED=rounded(), **ROTATE,
    )  # fmt: skip
    means, variances = parts.sum(2)
    return means, variances, energy.sum(1), rotated


def to_features(
    phi: Tensor,
    rotated: Tensor,
    mean: Tensor,
    diagonal: Tensor,
    lower: Tensor,
    grads: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients to the features, to mu and to d; then phi' (R, D, B), and the gradient to r'.

    Args:
        phi: features (R, B, D).
        rotated: r, (R, outputs, B, D).
        mean: (R, outputs, D).
        diagonal: (R, outputs, D).
        lower: (R, outputs, D, D).
        grads: to means and variances, (R, B, outputs).
    """
    runs, outputs, batch, dim = rotated.shape
    parts = triton.cdiv(batch, ROWS)
    to_phi, small = torch.empty_like(rotated), mean.new_empty(2, parts, *mean.shape)
    columns, slope = phi.new_empty(runs, dim, batch), phi.new_empty(runs, outputs, dim, batch)
    _features[(runs * outputs, triton.cdiv(dim, FEATURES["TILE"]), parts)](
        phi, rotated, mean, diagonal, lower, *grads, columns, slope, to_phi, *small,
        batch, dim, outputs, ROWS, ROUNDED=rounded(), **FEATURES,
    )  # fmt: skip
    to_mean, to_diagonal = small[:, 0] if parts == 1 else small.sum(1)
    return to_phi.sum(1), to_mean, to_diagonal, columns, slope
