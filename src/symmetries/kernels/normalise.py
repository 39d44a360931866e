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

_PROGRAMS = 528  # at most: four for each multiprocessor of the largest GPUs


@triton.jit
def _hidden(z, bias, columns, keep, HAS_BIAS: tl.constexpr):
    """Bias added: h, then gelu(h) and the two factors of its slope."""
    h = tl.load(z + columns, mask=keep, other=0.0).to(tl.float32)
    if HAS_BIAS:
        h += tl.load(bias + columns, mask=keep, other=0.0)
    share = 0.5 * (1.0 + tl.erf(h * 0.7071067811865476))
    return h, h * share, share


@triton.jit
def _forward(
    z, bias, gamma, beta, out, mean, scale, width, epsilon,
    HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    keep = columns < width
    _h, g, _share = _hidden(z + row * width, bias, columns, keep, HAS_BIAS)
    m = tl.sum(g, 0) / width
    centred = tl.where(keep, g - m, 0.0)
    s = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + epsilon)
    weight = tl.load(gamma + columns, mask=keep, other=0.0)
    y = centred * s * weight + tl.load(beta + columns, mask=keep, other=0.0)
    tl.store(out + row * width + columns, y, mask=keep)
    tl.store(mean + row, m)
    tl.store(scale + row, s)


@triton.jit
def _backward(
    z, bias, gamma, grad_out, mean, scale, grad_z, partial, rows, width,
    HAS_BIAS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    keep = columns < width
    weight = tl.load(gamma + columns, mask=keep, other=0.0)
    to_gamma, to_beta = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    to_bias = tl.zeros([BLOCK], tl.float32)
    for j in range(STEPS):
        row = program * STEPS + j
        at = row.to(tl.int64) * width
        there = columns < tl.where(row < rows, width, 0)
        known = tl.minimum(row, rows - 1)
        h, g, share = _hidden(z + at, bias, columns, there, HAS_BIAS)
        s = tl.load(scale + known)
        unit = tl.where(there, (g - tl.load(mean + known)) * s, 0.0)
        dy = tl.load(grad_out + at + columns, mask=there, other=0.0).to(tl.float32)
        to_gamma += dy * unit
        to_beta += dy
        d = dy * weight
        d = s * (d - tl.sum(d, 0) / width - unit * (tl.sum(d * unit, 0) / width))
        d *= share + h * 0.3989422804014327 * tl.exp(-0.5 * h * h)
        to_bias += tl.where(there, d, 0.0)
        tl.store(grad_z + at + columns, d, mask=there)
    partial += program * 3 * width
    tl.store(partial + columns, to_gamma, mask=keep)
    tl.store(partial + width + columns, to_beta, mask=keep)
    tl.store(partial + 2 * width + columns, to_bias, mask=keep)


def _launch(width: int) -> tuple[int, int]:
    """Block of columns, and warps for it."""
    block = triton.next_power_of_2(width)
    return block, min(max(block // 256, 1), 16)


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
        block, warps = _launch(width)
        known = gamma if bias is None else bias
        _forward[(rows,)](
            z, known, gamma, beta, out, mean, scale, width, epsilon, bias is not None, block,
            num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(z, bias, gamma, beta, mean, scale)
        ctx.epsilon, ctx.plain = epsilon, plain
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to z, bias, gamma and beta."""
        z, bias, gamma, beta, mean, scale = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs = [t for t in (z, bias, gamma, beta) if t is not None and t.requires_grad]
            out = ctx.plain(z, bias, gamma, beta, ctx.epsilon)
            found = iter(torch.autograd.grad(out, inputs, grad_out, create_graph=True))
            each = (
                next(found) if t is not None and t.requires_grad else None
                for t in (z, bias, gamma, beta)
            )
            return *each, None, None
        rows, width = z.shape
        block, warps = _launch(width)
        steps = triton.cdiv(rows, _PROGRAMS)
        programs = triton.cdiv(rows, steps)
        grad_z = torch.empty_like(z)
        partial = torch.empty(programs, 3, width, dtype=torch.float32, device=z.device)
        known = gamma if bias is None else bias
        _backward[(programs,)](
            z, known, gamma, grad_out.contiguous(), mean, scale, grad_z, partial, rows, width,
            bias is not None, steps, block, num_warps=warps,
        )  # fmt: skip
        to_gamma, to_beta, to_bias = partial.sum(0).unbind(0)
        return grad_z, None if bias is None else to_bias, to_gamma, to_beta, None, None
