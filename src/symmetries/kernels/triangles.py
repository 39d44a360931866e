"""Lower triangles: the gradient of a Cholesky factor, and Adam on it, without what is above.

Half of such a matrix is zero. What is above the diagonal is neither computed, read nor moved.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE, ROWS = 64, 32


@triton.jit
def _product(
    phi, slope, lower, factor, out, B, D, outputs,
    TILE: tl.constexpr, ROWS: tl.constexpr, ROUNDED: tl.constexpr,
):  # fmt: skip
    """One tile of phi' slope + factor lower, strictly below the diagonal; zero elsewhere."""
    block = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    j = tl.program_id(2) * TILE + tl.arange(0, TILE)
    inside = (i < D)[:, None] & (j < D)[None, :]
    at = block * D * D + i[:, None] * D + j[None, :]
    total = tl.zeros([TILE, TILE], tl.float32)
    if tl.program_id(1) >= tl.program_id(2):
        left = phi + block // outputs * B * D
        right = slope + block * B * D
        first = 0
        while first < B:
            b = first + tl.arange(0, ROWS)
            seen = (b < B)[:, None]
            x_at, y_at = left + b[:, None] * D + i[None, :], right + b[:, None] * D + j[None, :]
            x = tl.load(x_at, mask=seen & (i < D)[None, :], other=0.0)
            y = tl.load(y_at, mask=seen & (j < D)[None, :], other=0.0)
            if ROUNDED:
                total += tl.dot(tl.trans(x), y, input_precision="tf32")
            else:
                total += tl.dot(tl.trans(x), y, input_precision="ieee")
            first += ROWS
        below = inside & (j[None, :] < i[:, None])
        scale = tl.load(factor + block // outputs)
        total += scale * tl.load(lower + at, mask=below, other=0.0)
        total = tl.where(below, total, 0.0)
    tl.store(out + at, total, mask=inside)


def gradient_below(phi: Tensor, slope: Tensor, lower: Tensor, factor: Tensor) -> Tensor:
    """Phi' slope + factor times lower strictly below the diagonal, 0 elsewhere.

    Args:
        phi: (R, B, D).
        slope: (R, outputs, B, D).
        lower: (R, outputs, D, D).
        factor: (R,).

    Returns:
        (R, outputs, D, D).
    """
    phi, slope, lower, factor = (t.contiguous() for t in (phi, slope, lower, factor))
    runs, outputs, batch, dim = slope.shape
    out = torch.empty_like(lower)
    tiles = triton.cdiv(dim, TILE)
    rounded = torch.get_float32_matmul_precision() != "highest"
    _product[(runs * outputs, tiles, tiles)](
        phi, slope, lower, factor, out, batch, dim, outputs, TILE, ROWS, rounded
    )
    return out


@triton.jit
def _adam(
    weight, grad, first, second, step, rate, D, log1, log2, beta1, beta2, eps, BLOCK: tl.constexpr
):
    """One row: what is below the diagonal moves, the rest is not read."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    below = j < row % D
    at = row * D + j
    t = tl.load(step)
    g = tl.load(grad + at, mask=below, other=0.0)
    m = tl.load(first + at, mask=below, other=0.0)
    v = tl.load(second + at, mask=below, other=0.0)
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    size = tl.load(rate) / (1.0 - tl.exp(t * log1))
    root = tl.sqrt(v) / tl.sqrt(1.0 - tl.exp(t * log2)) + eps
    w = tl.load(weight + at, mask=below, other=0.0) - size * m / root
    tl.store(weight + at, w, mask=below)
    tl.store(first + at, m, mask=below)
    tl.store(second + at, v, mask=below)


def adam_below_(
    weight: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    step: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """A step of Adam (Kingma and Ba 2014) in place, strictly below the diagonals.

    Args:
        weight: (..., D, D).
        grad: of the same shape.
        moments: averages of the gradient and of its square.
        step: its number, from 1, as a tensor.
        rate: as a tensor.
        betas: of the averages.
        eps: added to the root.
    """
    dim = weight.shape[-1]
    _adam[(weight.numel() // dim,)](
        weight, grad.contiguous(), *moments, step, rate, dim, math.log(betas[0]),
        math.log(betas[1]), *betas, eps, triton.next_power_of_2(dim),
    )  # fmt: skip
