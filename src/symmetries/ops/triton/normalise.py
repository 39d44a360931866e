"""Layer norm of a gelu, with the bias before it: one kernel forward and one backward.

Torch reads and writes the hidden units once for each of bias, gelu and norm, and again for every
part of their gradients. Here the forward pass reads them once and writes them once; the backward
pass reads two arrays, writes one, and sums the gradients of the three vectors on the way.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients
from symmetries.ops.triton.sums import column_sums

_PROGRAMS = 528  # at most: four for each multiprocessor of the largest GPUs
_TILE = 2048  # numbers of a program at a time, where rows are many and narrow
_MANY = 16_384


@triton.jit
def _share(h):
    """Normal distribution function and sqrt(2 pi) times its density, of one exponential.

    Abramowitz and Stegun 7.1.26, which is off by 8e-8 at most.
    """
    density = tl.exp2(h * (-0.7213475204444817 * h))
    root = tl.rsqrt(1.0 + 0.2316418882 * tl.abs(h))  # unlike a quotient, one instruction
    t = root * root
    tail = 0.7107068705 + t * (-0.726576014 + t * 0.5307027145)
    tail = density * t * (0.127414796 + t * (-0.142248368 + t * tail))
    return tl.where(h < 0.0, tail, 1.0 - tail), density


@triton.jit
def _hidden(z, bias, at, columns, there, HAS_BIAS: tl.constexpr):
    """Bias added: h, then gelu(h) and its slope; rows by columns."""
    h = tl.load(z + at, mask=there, other=0.0).to(tl.float32)
    if HAS_BIAS:
        h += tl.load(bias + columns, mask=there, other=0.0)
    share, density = _share(h)
    return h, h * share, share + h * 0.3989422804014327 * density


@triton.jit
def _forward(
    z, bias, gamma, beta, out, mean, scale, rows, width, epsilon,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    keep = columns < width
    there = keep & (row < rows)
    at = row * width + columns
    _h, g, _slope = _hidden(z, bias, at, columns, there, HAS_BIAS)
    m = tl.sum(g, 1)[:, None] / width
    centred = tl.where(keep, g - m, 0.0)
    s = 1.0 / tl.sqrt(tl.sum(centred * centred, 1)[:, None] / width + epsilon)
    weight = tl.load(gamma + columns, mask=keep, other=0.0)
    y = centred * s * weight + tl.load(beta + columns, mask=keep, other=0.0)
    tl.store(out + at, y, mask=there)
    tl.store(mean + row, m, mask=row < rows)
    tl.store(scale + row, s, mask=row < rows)


@triton.jit
def _backward(
    z, bias, gamma, grad_out, mean, scale, grad_z, partial, rows, width,
    HAS_BIAS: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    columns = column[None, :]
    keep = columns < width
    weight = tl.load(gamma + columns, mask=keep, other=0.0)
    to_gamma, to_beta = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    to_bias = tl.zeros([BLOCK], tl.float32)
    for j in range(STEPS):
        row = ((program * STEPS + j) * ROWS + tl.arange(0, ROWS))[:, None]
        at = row.to(tl.int64) * width + columns
        there = keep & (row < rows)
        known = tl.minimum(row, rows - 1)
        _h, g, slope = _hidden(z, bias, at, columns, there, HAS_BIAS)
        s = tl.load(scale + known)
        unit = tl.where(there, (g - tl.load(mean + known)) * s, 0.0)
        dy = tl.load(grad_out + at, mask=there, other=0.0).to(tl.float32)
        to_gamma += tl.sum(dy * unit, 0)
        to_beta += tl.sum(dy, 0)
        d = dy * weight
        d = s * (d - tl.sum(d, 1)[:, None] / width - unit * (tl.sum(d * unit, 1)[:, None] / width))
        d *= slope
        to_bias += tl.sum(tl.where(there, d, 0.0), 0)
        tl.store(grad_z + at, d, mask=there)
    partial += program * 3 * width
    inside = column < width
    tl.store(partial + column, to_gamma, mask=inside)
    tl.store(partial + width + column, to_beta, mask=inside)
    tl.store(partial + 2 * width + column, to_bias, mask=inside)


def _launch(rows: int, width: int) -> tuple[int, int, int]:
    """Rows and columns of a program's tile, and warps for it."""
    block = triton.next_power_of_2(width)
    if rows < _MANY or block >= _TILE:
        return 1, block, min(max(block // 512, 1), 16)
    return _TILE // block, block, 8


def _gradients(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor,
    grad_out: Tensor,
    mean: Tensor,
    scale: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradient to z, and parts (programs, 3, width) of those to gamma, beta and bias."""
    rows, width = z.shape
    tall, block, warps = _launch(rows, width)
    many = tall > 1
    steps = 1 if many else triton.cdiv(rows, _PROGRAMS)
    warps = warps if many else min(2 * warps, max(1, block // 256))
    programs = triton.cdiv(rows, steps * tall)
    grad_z = torch.empty_like(z)
    partial = torch.empty(programs, 3, width, dtype=torch.float32, device=z.device)
    known = gamma if bias is None else bias
    _backward[(programs,)](
        z, known, gamma, grad_out, mean, scale, grad_z, partial, rows, width,
        bias is not None, steps, tall, block, num_warps=warps,
    )  # fmt: skip
    return grad_z, partial


class KernelGeluNorm(torch.autograd.Function):
    """LN(gelu(z + bias)); ``plain`` is torch's form of the same function."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        bias: Tensor | None,
        gamma: Tensor,
        beta: Tensor,
        epsilon: float,
        plain: Callable[..., Tensor],
    ) -> Tensor:
        """The normalised units, like z (N, width)."""
        z = z.contiguous()
        rows, width = z.shape
        out = torch.empty_like(z)
        mean, scale = (torch.empty(rows, dtype=torch.float32, device=z.device) for _ in "ms")
        tall, block, warps = _launch(rows, width)
        known = gamma if bias is None else bias
        _forward[(triton.cdiv(rows, tall),)](
            z, known, gamma, beta, out, mean, scale, rows, width, epsilon,
            bias is not None, tall, block, num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(z, bias, gamma, beta, mean, scale)
        ctx.epsilon, ctx.plain = epsilon, plain
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to z, bias, gamma and beta."""
        z, bias, gamma, beta, mean, scale = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs = (z, bias, gamma, beta)
            out = ctx.plain(*inputs, ctx.epsilon)
            return *differentiable_gradients(out, inputs, grad_out), None, None
        grad_out = grad_out.contiguous()
        grad_z, partial = _gradients(z, bias, gamma, grad_out, mean, scale)
        # Tall tiles leave many thousand rows, which torch shares out better.
        many = len(partial) > _PROGRAMS
        sums = partial.sum(0) if many else column_sums(partial.flatten(1)).view(3, -1)
        to_gamma, to_beta, to_bias = sums.unbind(0)
        return grad_z, None if bias is None else to_bias, to_gamma, to_beta, None, None
