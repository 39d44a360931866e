"""What stands around the products of a full covariance: one pass each over (R, outputs, B, D).

With r = phi L, L the factor and s its diagonal, the variance is |r|^2. Products with what is below
the diagonal are torch's; the diagonal, squares and sums are here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, BLOCK = 16, 128


@triton.jit
def _squares(product, phi, scale, out, B, D, outputs, BLOCK: tl.constexpr):
    """In place r = product + phi s for one row, and its square sum."""
    b, block = tl.program_id(0), tl.program_id(1).to(tl.int64)
    r, c = block // outputs, block % outputs
    d = tl.arange(0, BLOCK)
    keep = d < D
    at = product + (block * B + b) * D + d
    x = tl.load(phi + (r * B + b) * D + d, mask=keep, other=0.0)
    s = tl.load(scale + block * D + d, mask=keep, other=0.0)
    value = tl.load(at, mask=keep, other=0.0) + x * s
    tl.store(at, value, mask=keep)
    tl.store(out + (r * B + b) * outputs + c, tl.sum(value * value, 0))


@triton.jit
def _slopes(
    rotated, phi, grad, slope, partial, B, D, outputs, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Slope = 2 g r, and its sum over some examples times phi."""
    block = tl.program_id(0).to(tl.int64)
    r, c = block // outputs, block % outputs
    b = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    keep = (b < B)[:, None] & (d < D)[None, :]
    at = (block * B + b[:, None]) * D + d[None, :]
    g = tl.load(grad + (r * B + b) * outputs + c, mask=b < B, other=0.0)
    value = 2.0 * g[:, None] * tl.load(rotated + at, mask=keep, other=0.0)
    tl.store(slope + at, value, mask=keep)
    x = tl.load(phi + (r * B + b[:, None]) * D + d[None, :], mask=keep, other=0.0)
    goal = partial + (block * tl.num_programs(1) + tl.program_id(1)) * D + d
    tl.store(goal, tl.sum(value * x, 0), mask=d < D)


@triton.jit
def _sums(product, slope, scale, out, B, D, outputs, BLOCK: tl.constexpr):
    """Sum over outputs of product + slope s."""
    row = tl.program_id(0).to(tl.int64)
    r, b = row // B, row % B
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    keep = d < D
    total = tl.zeros([BLOCK], tl.float32)
    c = 0
    while c < outputs:
        block = r * outputs + c
        at = (block * B + b) * D + d
        s = tl.load(scale + block * D + d, mask=keep, other=0.0)
        total += tl.load(product + at, mask=keep, other=0.0)
        total += s * tl.load(slope + at, mask=keep, other=0.0)
        c += 1
    tl.store(out + row * D + d, total, mask=keep)


def squares_(product: Tensor, phi: Tensor, scale: Tensor) -> Tensor:
    """In place r = product + phi scale; returns the sums of squares (R, B, outputs).

    Args:
        product: phi times what is below the diagonal, (R, outputs, B, D).
        phi: (R, B, D).
        scale: (R, outputs, D).
    """
    runs, outputs, batch, dim = product.shape
    out = phi.new_empty(runs, batch, outputs)
    block = triton.next_power_of_2(dim)
    _squares[(batch, runs * outputs)](
        product, phi.contiguous(), scale.contiguous(), out, batch, dim, outputs, block
    )
    return out


def slopes(rotated: Tensor, phi: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes 2 g r (R, outputs, B, D), and the gradient to the diagonal (R, outputs, D).

    Args:
        rotated: r, (R, outputs, B, D).
        phi: (R, B, D).
        grad: to the variances, (R, B, outputs).
    """
    runs, outputs, batch, dim = rotated.shape
    parts = triton.cdiv(batch, ROWS)
    out, partial = torch.empty_like(rotated), rotated.new_empty(runs, outputs, parts, dim)
    _slopes[(runs * outputs, parts, triton.cdiv(dim, BLOCK))](
        rotated, phi.contiguous(), grad.contiguous(), out, partial, batch, dim, outputs, ROWS, BLOCK
    )
    return out, partial.sum(2)


def sums(product: Tensor, slope: Tensor, scale: Tensor) -> Tensor:
    """Sum over outputs of product + slope scale: the gradient to phi, (R, B, D).

    Args:
        product: slopes times the transpose of what is below the diagonal, (R, outputs, B, D).
        slope: the same shape.
        scale: (R, outputs, D).
    """
    runs, outputs, batch, dim = product.shape
    out = product.new_empty(runs, batch, dim)
    _sums[(runs * batch, triton.cdiv(dim, BLOCK))](
        product, slope, scale.contiguous(), out, batch, dim, outputs, BLOCK
    )
    return out
