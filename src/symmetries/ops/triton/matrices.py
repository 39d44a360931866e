"""Products and inverses of affine matrices, each one kernel forward and one backward.

Torch has no fast path for many 3 x 3 matrices: a batched product costs a library call made for
large ones, and an inverse in closed form some ten kernels forward and more backward.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients

_BLOCK = 128


@triton.jit
def _product(a, b, c, n, inner, a0, a1, b0, b1, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    a += (i // inner) * a0 + (i % inner) * a1
    b += (i // inner) * b0 + (i % inner) * b1
    for r in tl.static_range(3):
        for k in tl.static_range(3):
            total = tl.zeros([BLOCK], tl.float32)
            for j in tl.static_range(3):
                left = tl.load(a + 3 * r + j, mask=keep, other=0.0)
                total += left * tl.load(b + 3 * j + k, mask=keep, other=0.0)
            tl.store(c + 9 * i + 3 * r + k, total, mask=keep)


@triton.jit
def _product_backward(a, b, g, grad_a, grad_b, n, inner, a0, a1, b0, b1, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    a += (i // inner) * a0 + (i % inner) * a1
    b += (i // inner) * b0 + (i % inner) * b1
    g += 9 * i
    for r in tl.static_range(3):
        for k in tl.static_range(3):
            to_a, to_b = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
            for j in tl.static_range(3):
                right = tl.load(b + 3 * k + j, mask=keep, other=0.0)
                to_a += tl.load(g + 3 * r + j, mask=keep, other=0.0) * right
                left = tl.load(a + 3 * j + r, mask=keep, other=0.0)
                to_b += left * tl.load(g + 3 * j + k, mask=keep, other=0.0)
            tl.store(grad_a + 9 * i + 3 * r + k, to_a, mask=keep)
            tl.store(grad_b + 9 * i + 3 * r + k, to_b, mask=keep)


@triton.jit
def _inverse(a, out, n, inner, a0, a1, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    a += (i // inner) * a0 + (i % inner) * a1
    p, q = tl.load(a, mask=keep, other=1.0), tl.load(a + 1, mask=keep, other=0.0)
    r, s = tl.load(a + 3, mask=keep, other=0.0), tl.load(a + 4, mask=keep, other=1.0)
    x, y = tl.load(a + 2, mask=keep, other=0.0), tl.load(a + 5, mask=keep, other=0.0)
    scale = 1.0 / (p * s - q * r)
    p, q, r, s = s * scale, -q * scale, -r * scale, p * scale
    out += 9 * i
    tl.store(out, p, mask=keep)
    tl.store(out + 1, q, mask=keep)
    tl.store(out + 2, -(p * x + q * y), mask=keep)
    tl.store(out + 3, r, mask=keep)
    tl.store(out + 4, s, mask=keep)
    tl.store(out + 5, -(r * x + s * y), mask=keep)
    tl.store(out + 6, tl.zeros_like(p), mask=keep)
    tl.store(out + 7, tl.zeros_like(p), mask=keep)
    tl.store(out + 8, tl.zeros_like(p) + 1.0, mask=keep)


@triton.jit
def _inverse_backward(inverse, g, grad, n, BLOCK: tl.constexpr):
    """-M^T G M^T with M the inverse; only the upper two rows of a matrix are free."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    m, g, grad = inverse + 9 * i, g + 9 * i, grad + 9 * i
    p, q = tl.load(m, mask=keep, other=1.0), tl.load(m + 1, mask=keep, other=0.0)
    r, s = tl.load(m + 3, mask=keep, other=0.0), tl.load(m + 4, mask=keep, other=1.0)
    x, y = tl.load(m + 2, mask=keep, other=0.0), tl.load(m + 5, mask=keep, other=0.0)
    g0, g1 = tl.load(g, mask=keep, other=0.0), tl.load(g + 1, mask=keep, other=0.0)
    g2, g3 = tl.load(g + 2, mask=keep, other=0.0), tl.load(g + 3, mask=keep, other=0.0)
    g4, g5 = tl.load(g + 4, mask=keep, other=0.0), tl.load(g + 5, mask=keep, other=0.0)
    # M^T G, upper two rows of three columns; then times M^T, whose last column is (x, y, 1)^T's.
    h0, h1, h2 = p * g0 + r * g3, p * g1 + r * g4, p * g2 + r * g5
    k0, k1, k2 = q * g0 + s * g3, q * g1 + s * g4, q * g2 + s * g5
    z = tl.zeros_like(p)
    tl.store(grad, -(h0 * p + h1 * q + h2 * x), mask=keep)
    tl.store(grad + 1, -(h0 * r + h1 * s + h2 * y), mask=keep)
    tl.store(grad + 2, -h2, mask=keep)
    tl.store(grad + 3, -(k0 * p + k1 * q + k2 * x), mask=keep)
    tl.store(grad + 4, -(k0 * r + k1 * s + k2 * y), mask=keep)
    tl.store(grad + 5, -k2, mask=keep)
    tl.store(grad + 6, z, mask=keep)
    tl.store(grad + 7, z, mask=keep)
    tl.store(grad + 8, z, mask=keep)


def _strided(matrices: Tensor) -> tuple[Tensor, int, int, int]:
    """Matrices whose rows lie together, and the layout of at most two axes before them.

    Returns:
        The matrices, the length of the inner axis, and the steps along the outer and inner axis.
    """
    if matrices.ndim > 4 or matrices.stride()[-2:] != (3, 1):
        matrices = matrices.contiguous()
    lead = matrices.ndim - 2
    if lead == 2:
        return matrices, matrices.shape[1], matrices.stride(0), matrices.stride(1)
    if lead == 1:
        return matrices, len(matrices), 0, matrices.stride(0)
    return matrices, max(1, matrices.numel() // 9), 0, 9


class KernelProduct(torch.autograd.Function):
    """a b for matrices (..., 3, 3) of one shape."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """The products (..., 3, 3)."""
        ctx.save_for_backward(a, b)
        a, inner, *a_steps = _strided(a)
        b, _, *b_steps = _strided(b)
        n = a.numel() // 9
        out = torch.empty(a.shape, dtype=a.dtype, device=a.device)
        _product[(triton.cdiv(n, _BLOCK),)](a, b, out, n, inner, *a_steps, *b_steps, _BLOCK)
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients to both."""
        a, b = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return grad_out @ b.mT, a.mT @ grad_out
        a, inner, *a_steps = _strided(a)
        b, _, *b_steps = _strided(b)
        n = a.numel() // 9
        grad_a, grad_b = (torch.empty(a.shape, dtype=a.dtype, device=a.device) for _ in "ab")
        _product_backward[(triton.cdiv(n, _BLOCK),)](
            a, b, grad_out.contiguous(), grad_a, grad_b, n, inner, *a_steps, *b_steps, _BLOCK
        )
        return grad_a, grad_b


class KernelInverse(torch.autograd.Function):
    """Inverses of affine matrices; ``plain`` is torch's form of the same function."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, plain: Callable[[Tensor], Tensor]) -> Tensor:
        """The inverses (..., 3, 3)."""
        flat, inner, *steps = _strided(matrix)
        n = flat.numel() // 9
        out = torch.empty(matrix.shape, dtype=matrix.dtype, device=matrix.device)
        _inverse[(triton.cdiv(n, _BLOCK),)](flat, out, n, inner, *steps, _BLOCK)
        ctx.save_for_backward(matrix, out)
        ctx.plain = plain
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient to the matrices."""
        matrix, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return *differentiable_gradients(ctx.plain(matrix), [matrix], grad_out), None
        n = inverse.numel() // 9
        grad = torch.empty_like(inverse)
        grid = (triton.cdiv(n, _BLOCK),)
        _inverse_backward[grid](inverse, grad_out.contiguous(), grad, n, _BLOCK)
        return grad, None
