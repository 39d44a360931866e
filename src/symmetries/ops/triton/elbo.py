"""The bound of several runs from its two parts, and their means, as one kernel each way."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024


@triton.jit
def _total(values, count, BLOCK: tl.constexpr):
    parts = tl.zeros([BLOCK], tl.float32)
    first = 0
    while first < count:
        at = first + tl.arange(0, BLOCK)
        parts += tl.load(values + at, mask=at < count, other=0.0)
        first += BLOCK
    return tl.sum(parts, 0)


@triton.jit
def _forward(kl, fit, out, R, B, examples, BLOCK: tl.constexpr):
    left = _total(kl, R, BLOCK) / examples
    right = _total(fit, R * B, BLOCK) / B
    tl.store(out, left - right)
    tl.store(out + 1, right / R)
    tl.store(out + 2, left / R)


@triton.jit
def _backward(grad, to_kl, to_fit, R, B, examples, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(grad)
    tl.store(to_fit + at, tl.zeros([BLOCK], tl.float32) - g / B, mask=at < R * B)
    tl.store(to_kl + at, tl.zeros([BLOCK], tl.float32) + g / examples, mask=at < R)


class KernelBound(torch.autograd.Function):
    """Sum over runs of kl / N - mean fit, and the means over runs of both: three numbers.

    Only the first has a gradient.
    """

    @staticmethod
    def forward(ctx: Any, kl: Tensor, fit: Tensor, examples: int) -> tuple[Tensor, Tensor, Tensor]:
        """``kl`` (R,), and ``fit`` (R, B), which is that of each example."""
        runs, batch = fit.shape
        out = fit.new_empty(3)
        _forward[(1,)](kl.contiguous(), fit.contiguous(), out, runs, batch, float(examples), BLOCK)
        ctx.sizes = runs, batch, float(examples)
        loss, mean, share = out.unbind()
        ctx.mark_non_differentiable(mean, share)
        ctx.set_materialize_grads(False)
        return loss, mean, share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients to both parts."""
        runs, batch, _ = ctx.sizes
        to_kl, to_fit = grad.new_empty(runs), grad.new_empty(runs, batch)
        _backward[(triton.cdiv(runs * batch, BLOCK),)](
            grad.contiguous(), to_kl, to_fit, *ctx.sizes, BLOCK
        )
        return to_kl, to_fit, None
