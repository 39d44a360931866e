"""Random affine matrices, and products with an exponential: one kernel each.

Torch takes a kernel for each of drawing, scaling, padding, exponential, product and inverse, none
of which is longer than its launch. Without gradients.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.exponential import (
    _BLOCK,
    _DEGREE,
    _DOUBLINGS,
    _coefficient,
    _value_and_tangent,
)


@triton.jit
def _drawn(unit, bounds, at, drawn, COLUMN: tl.constexpr):
    """A parameter within its bounds, 0 where nothing is drawn or the family lacks it."""
    if COLUMN < 0:
        return tl.zeros_like(at).to(tl.float32)
    else:
        share = 1.0 - 2.0 * tl.load(unit + at + COLUMN, mask=drawn, other=0.5)
        return share * tl.load(bounds + COLUMN)


@triton.jit
def _exponential(e0, e1, e2, e3, e4, e5, DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr):
    """Upper two rows of a matrix."""
    z = tl.zeros_like(e0)
    value, _tangent = _value_and_tangent(
        e0, e1, e2, e3, e4, e5, z, z, z, z, z, z, DOUBLINGS, DEGREE
    )
    return value


@triton.jit
def _put(out, m0, m1, m2, m3, m4, m5, keep):
    z = tl.zeros_like(m0)
    tl.store(out, m0, mask=keep)
    tl.store(out + 1, m1, mask=keep)
    tl.store(out + 2, m2, mask=keep)
    tl.store(out + 3, m3, mask=keep)
    tl.store(out + 4, m4, mask=keep)
    tl.store(out + 5, m5, mask=keep)
    tl.store(out + 6, z, mask=keep)
    tl.store(out + 7, z, mask=keep)
    tl.store(out + 8, z + 1.0, mask=keep)


@triton.jit
def _moves(
    unit, bounds, out, n, versions, DIM: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr,
    C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr, C5: tl.constexpr, BLOCK: tl.constexpr,
    DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    version = i % (versions + 1)
    at = (i - i // (versions + 1) - 1) * DIM
    drawn = keep & (version > 0)
    e0, e1 = _drawn(unit, bounds, at, drawn, C0), _drawn(unit, bounds, at, drawn, C1)
    e2, e3 = _drawn(unit, bounds, at, drawn, C2), _drawn(unit, bounds, at, drawn, C3)
    e4, e5 = _drawn(unit, bounds, at, drawn, C4), _drawn(unit, bounds, at, drawn, C5)
    m = _exponential(e0, e1, e2, e3, e4, e5, DOUBLINGS, DEGREE)
    _put(out + 9 * i, m[0], m[1], m[2], m[3], m[4], m[5], keep)


@triton.jit
def _composed(
    left, eta, out, n, inner, left0, left1, eta0, eta1, C0: tl.constexpr, C1: tl.constexpr,
    C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr, C5: tl.constexpr, BLOCK: tl.constexpr,
    DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    at = (i // inner) * eta0 + (i % inner) * eta1
    e0, e1 = _coefficient(eta, at, keep, C0), _coefficient(eta, at, keep, C1)
    e2, e3 = _coefficient(eta, at, keep, C2), _coefficient(eta, at, keep, C3)
    e4, e5 = _coefficient(eta, at, keep, C4), _coefficient(eta, at, keep, C5)
    m = _exponential(e0, e1, e2, e3, e4, e5, DOUBLINGS, DEGREE)
    a = left + (i // inner) * left0 + (i % inner) * left1
    p, q = tl.load(a, mask=keep, other=0.0), tl.load(a + 1, mask=keep, other=0.0)
    x, r = tl.load(a + 2, mask=keep, other=0.0), tl.load(a + 3, mask=keep, other=0.0)
    s, y = tl.load(a + 4, mask=keep, other=0.0), tl.load(a + 5, mask=keep, other=0.0)
    _put(
        out + 9 * i, p * m[0] + q * m[3], p * m[1] + q * m[4], p * m[2] + q * m[5] + x,
        r * m[0] + s * m[3], r * m[1] + s * m[4], r * m[2] + s * m[5] + y, keep,
    )  # fmt: skip


def undone_moves(unit: Tensor, bounds: Tensor, columns: Sequence[int]) -> Tensor:
    """T_r^-1 with r = b (2 u - 1); that of nothing goes first.

    Args:
        unit: u (B, K, dim), uniform in [0, 1).
        bounds: b, (dim,).
        columns: where in dim the six generators are, -1 where they are not.

    Returns:
        (B, K + 1, 3, 3).
    """
    b, k, dim = unit.shape
    n = b * (k + 1)
    out = torch.empty(b, k + 1, 3, 3, dtype=unit.dtype, device=unit.device)
    sizes = (dim, *columns, _BLOCK, _DOUBLINGS, _DEGREE)
    _moves[(triton.cdiv(n, _BLOCK),)](unit.contiguous(), bounds, out, n, k, *sizes)
    return out


def composed(left: Tensor, eta: Tensor, columns: Sequence[int]) -> Tensor:
    """L exp(sum eta_i G_i).

    Args:
        left: (B, K, 3, 3), affine; rows of a matrix lie together.
        eta: (B, K, dim); neighbours along the last axis lie together.
        columns: as above.

    Returns:
        (B, K, 3, 3).
    """
    b, k = eta.shape[:2]
    out = torch.empty(b, k, 3, 3, dtype=eta.dtype, device=eta.device)
    steps = (left.stride(0), left.stride(1), eta.stride(0), eta.stride(1))
    sizes = (*columns, _BLOCK, _DOUBLINGS, _DEGREE)
    _composed[(triton.cdiv(b * k, _BLOCK),)](left, eta, out, b * k, k, *steps, *sizes)
    return out
