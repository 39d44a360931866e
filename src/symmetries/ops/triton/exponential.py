"""The affine exponential as one kernel forward and one backward.

The backward kernel carries the six tangents of the same formula through registers and takes
their products with the incoming gradient: no intermediate value is stored.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients

_BLOCK = 128
_DOUBLINGS = 5
_DEGREE = 9


@triton.jit
def _value_and_tangent(
    e0, e1, e2, e3, e4, e5, v0, v1, v2, v3, v4, v5, DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr
):
    a, d = e3, e4
    b, c = e5 - e2, e5 + e2
    va, vd = v3, v4
    vb, vc = v5 - v2, v5 + v2
    trace, det = a + d, a * d - b * c
    vtrace, vdet = va + vd, va * d + a * vd - vb * c - b * vc
    half: tl.constexpr = 1.0 / (1 << DOUBLINGS)
    t, s = trace * half, det * half * half
    vt, vs = vtrace * half, vdet * half * half
    factorial = 1.0
    for j in tl.static_range(1, DEGREE + 2):
        factorial = factorial * j
    u = tl.zeros_like(t) + 1.0 / factorial
    w = tl.zeros_like(t)
    vu, vw = tl.zeros_like(t), tl.zeros_like(t)
    for i in tl.static_range(0, DEGREE):
        factorial = factorial / (DEGREE + 1 - i)
        vu, vw = -(vs * w + s * vw), vu + vt * w + t * vw
        u, w = 1.0 / factorial - s * w, u + t * w
    w, vw = w * half, vw * half
    scale = half * 0.5
    for _ in tl.static_range(0, DOUBLINGS):
        p, vp = w * det, vw * det + w * vdet
        y, vy = u + w * trace, vu + vw * trace + w * vtrace
        x, vx = 1.0 - scale * p, -scale * vp
        vu, vw = (
            vx * u + x * vu - scale * (vy * p + y * vp),
            vx * w + x * vw + scale * 2.0 * y * vy,
        )
        u, w = x * u - scale * y * p, x * w + scale * y * y
        scale = scale * 2.0
    f, g = 1.0 - w * det, u + w * trace
    vf, vg = -(vw * det + w * vdet), vu + vw * trace + w * vtrace
    mx, my = a * e0 + b * e1, c * e0 + d * e1
    vmx = va * e0 + a * v0 + vb * e1 + b * v1
    vmy = vc * e0 + c * v0 + vd * e1 + d * v1
    value = (f + g * a, g * b, u * e0 + w * mx, g * c, f + g * d, u * e1 + w * my)
    tangent = (
        vf + vg * a + g * va,
        vg * b + g * vb,
        vu * e0 + u * v0 + vw * mx + w * vmx,
        vg * c + g * vc,
        vf + vg * d + g * vd,
        vu * e1 + u * v1 + vw * my + w * vmy,
    )
    return value, tangent


@triton.jit
def _coefficient(eta, at, keep, COLUMN: tl.constexpr):
    """Load the coefficient of one generator; 0 where the family lacks it."""
    if COLUMN < 0:
        return tl.zeros_like(at).to(tl.float32)
    else:
        return tl.load(eta + at + COLUMN, mask=keep, other=0.0)


@triton.jit
def _forward(
    eta, out, n, DIM: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr,
    C3: tl.constexpr, C4: tl.constexpr, C5: tl.constexpr, BLOCK: tl.constexpr,
    DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    e0, e1 = _coefficient(eta, DIM * i, keep, C0), _coefficient(eta, DIM * i, keep, C1)
    e2, e3 = _coefficient(eta, DIM * i, keep, C2), _coefficient(eta, DIM * i, keep, C3)
    e4, e5 = _coefficient(eta, DIM * i, keep, C4), _coefficient(eta, DIM * i, keep, C5)
    z = tl.zeros_like(e0)
    value, _tangent = _value_and_tangent(
        e0, e1, e2, e3, e4, e5, z, z, z, z, z, z, DOUBLINGS, DEGREE
    )
    for k in tl.static_range(6):
        tl.store(out + 9 * i + k, value[k], mask=keep)
    tl.store(out + 9 * i + 6, z, mask=keep)
    tl.store(out + 9 * i + 7, z, mask=keep)
    tl.store(out + 9 * i + 8, z + 1.0, mask=keep)


@triton.jit
def _backward(
    eta, grad_out, grad_eta, n, DIM: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr,
    C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr, C5: tl.constexpr, BLOCK: tl.constexpr,
    DOUBLINGS: tl.constexpr, DEGREE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    e0, e1 = _coefficient(eta, DIM * i, keep, C0), _coefficient(eta, DIM * i, keep, C1)
    e2, e3 = _coefficient(eta, DIM * i, keep, C2), _coefficient(eta, DIM * i, keep, C3)
    e4, e5 = _coefficient(eta, DIM * i, keep, C4), _coefficient(eta, DIM * i, keep, C5)
    g0 = tl.load(grad_out + 9 * i, mask=keep, other=0.0)
    g1 = tl.load(grad_out + 9 * i + 1, mask=keep, other=0.0)
    g2 = tl.load(grad_out + 9 * i + 2, mask=keep, other=0.0)
    g3 = tl.load(grad_out + 9 * i + 3, mask=keep, other=0.0)
    g4 = tl.load(grad_out + 9 * i + 4, mask=keep, other=0.0)
    g5 = tl.load(grad_out + 9 * i + 5, mask=keep, other=0.0)
    z = tl.zeros_like(e0)
    o = z + 1.0
    for k in tl.static_range(DIM):
        v0 = o if k == C0 else z
        v1 = o if k == C1 else z
        v2 = o if k == C2 else z
        v3 = o if k == C3 else z
        v4 = o if k == C4 else z
        v5 = o if k == C5 else z
        _value, t = _value_and_tangent(
            e0, e1, e2, e3, e4, e5, v0, v1, v2, v3, v4, v5, DOUBLINGS, DEGREE
        )
        total = g0 * t[0] + g1 * t[1] + g2 * t[2] + g3 * t[3] + g4 * t[4] + g5 * t[5]
        tl.store(grad_eta + DIM * i + k, total, mask=keep)


class KernelExp(torch.autograd.Function):
    """The kernels as a differentiable function; ``plain`` is torch's form of the same function.

    ``columns`` says where in eta (..., dim) the coefficients of the six generators are, -1 where
    they are 0.
    """

    @staticmethod
    def forward(
        ctx: Any, eta: Tensor, plain: Callable[[Tensor], Tensor], columns: Sequence[int]
    ) -> Tensor:
        """Matrices (..., 3, 3)."""
        ctx.save_for_backward(eta)
        dim = eta.shape[-1]
        ctx.plain, ctx.n, ctx.columns = plain, eta.numel() // dim, (dim, *columns)
        out = torch.empty(*eta.shape[:-1], 3, 3, dtype=eta.dtype, device=eta.device)
        if ctx.n:
            grid = (triton.cdiv(ctx.n, _BLOCK),)
            _forward[grid](eta.contiguous(), out, ctx.n, *ctx.columns, _BLOCK, _DOUBLINGS, _DEGREE)
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient to eta."""
        (eta,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return *differentiable_gradients(ctx.plain(eta), [eta], grad_out), None, None
        eta = eta.contiguous()
        grad = torch.empty_like(eta)
        if ctx.n:
            grid, sizes = (triton.cdiv(ctx.n, _BLOCK),), (_BLOCK, _DOUBLINGS, _DEGREE)
            _backward[grid](eta, grad_out.contiguous(), grad, ctx.n, *ctx.columns, *sizes)
        return grad, None, None
