"""Gradient of triangular factors, written to memory or used by Adam tile by tile.

The gradient of a variance |phi L|^2 to L is a product of a few rows, one for each example. A tile
of it costs less to compute than to read, so the optimiser need not have it in memory.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.triton.full_moments import dot, rounded

TILES = {"ROWS": 64, "HIGH": 64, "WIDE": 64, "num_warps": 4, "num_stages": 2, "maxnreg": 168}


@triton.jit
def _row(top, left, D, HIGH: tl.constexpr, WIDE: tl.constexpr):
    """Rows, columns and places of a tile, one after the other, and whether they are there."""
    place = tl.arange(0, HIGH * WIDE)
    row, column = top + place // WIDE, left + place % WIDE
    return row, column, row * D + column, (row < D) & (column < D)


@triton.jit
def _slope(
    phi, turned, factor, weight, goal, first, second, step, rate, B, D, outputs,
    log1, log2, beta1, beta2, eps,
    ROWS: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
    MOVE: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient: Adam's step with it, or the tile itself. Zero from the diagonal up.

    A tile is read and written whole, so that every access is wide: Adam leaves what is zero and
    has no gradient as it is.
    """
    left, top = tl.program_id(0) * WIDE, tl.program_id(1) * HIGH
    block = tl.program_id(2).to(tl.int64)
    run = block // outputs
    goal += block * D * D
    if left < top + HIGH:
        i, j = top + tl.arange(0, HIGH), left + tl.arange(0, WIDE)
        product = tl.zeros([HIGH, WIDE], tl.float32)
        for start in range(0, B, ROWS):
            b = start + tl.arange(0, ROWS)
            seen = (b < B)[None, :]
            features = phi + (run * D + i[:, None]) * B + b[None, :]
            x = tl.load(features, mask=(i < D)[:, None] & seen, other=0.0)
            columns = turned + (block * D + j[:, None]) * B + b[None, :]
            y = tl.load(columns, mask=(j < D)[:, None] & seen, other=0.0)
            product += dot(x, tl.trans(y), ROUNDED)
        # The tile as one row: only the product is then moved to where its numbers are needed.
        slope = tl.reshape(product, [HIGH * WIDE])
        row, column, at, inside = _row(top, left, D, HIGH, WIDE)
        w = tl.load(weight + block * D * D + at, mask=inside, other=0.0)
        slope = tl.where(row > column, slope + 2.0 * tl.load(factor + run) * w, 0.0)
        if MOVE:
            t = tl.load(step)
            first += block * D * D
            second += block * D * D
            m = tl.load(first + at, mask=inside, other=0.0)
            v = tl.load(second + at, mask=inside, other=0.0)
            m = beta1 * m + (1.0 - beta1) * slope
            v = beta2 * v + (1.0 - beta2) * slope * slope
            size = tl.load(rate) / (1.0 - tl.exp(t * log1))
            root = tl.sqrt(v) / tl.sqrt(1.0 - tl.exp(t * log2)) + eps
            tl.store(first + at, m, mask=inside)
            tl.store(second + at, v, mask=inside)
            tl.store(goal + at, w - size * m / root, mask=inside)
        else:
            tl.store(goal + at, slope, mask=inside)
    elif not MOVE:
        row, column, at, inside = _row(top, left, D, HIGH, WIDE)
        tl.store(goal + at, tl.zeros([HIGH * WIDE], tl.float32), mask=inside)


def write_gradient(phi: Tensor, slope: Tensor, factor: Tensor, lower: Tensor) -> Tensor:
    """Return the gradient (R, outputs, D, D), zero from the diagonal up; see FactorGradient."""
    out = torch.empty_like(lower)
    _launch((phi, slope, factor), lower, out, (factor, factor), factor, factor, (0.5, 0.5), 0.0)
    return out


def adam_with_product_(
    product: tuple[Tensor, Tensor, Tensor],
    lower: Tensor,
    moments: tuple[Tensor, Tensor],
    step: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Step of Adam in place by the gradient that (phi, slope, factor) make, never written."""
    _launch(product, lower, lower, moments, step, rate, betas, eps, move=True)


def _launch(
    product: tuple[Tensor, Tensor, Tensor],
    lower: Tensor,
    goal: Tensor,
    moments: tuple[Tensor, Tensor],
    step: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    eps: float,
    move: bool = False,
) -> None:
    runs, outputs, dim, batch = product[1].shape
    logs = (math.log(beta) if beta else -math.inf for beta in betas)
    grid = (triton.cdiv(dim, TILES["WIDE"]), triton.cdiv(dim, TILES["HIGH"]), runs * outputs)
    _slope[grid](
        *product, lower, goal, *moments, step, rate,
        batch, dim, outputs, *logs, *betas, eps, MOVE=move, ROUNDED=rounded(), **TILES,
    )  # fmt: skip
