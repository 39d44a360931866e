"""The expected log-probability of classes under Gaussian outputs, as one kernel each way.

Outputs z = mean + root(variance) noise, and the mean over draws of z_y - log sum exp z.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 16


@triton.jit
def _forward(
    mean, variance, noise, target, out, B, C, draws, tiny, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    run = tl.program_id(0)
    b, c = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    keep = (b < B)[:, None] & (c < C)[None, :]
    at = (run * B + b)[:, None] * C + c[None, :]
    m = tl.load(mean + at, mask=keep, other=0.0)
    root = tl.sqrt(tl.load(variance + at, mask=keep, other=0.0) + tiny)
    picked = c[None, :] == tl.load(target + b, mask=b < B, other=0)[:, None]
    total = tl.zeros([ROWS], tl.float32)
    draw = 0
    while draw < draws:
        e = tl.load(noise + (draw * B + b)[:, None] * C + c[None, :], mask=keep, other=0.0)
        z = tl.where((c < C)[None, :], m + root * e, -float("inf"))
        top = tl.max(z, 1)
        spread = tl.log(tl.sum(tl.exp(z - top[:, None]), 1))
        total += tl.sum(tl.where(picked, z, 0.0), 1) - top - spread
        draw += 1
    tl.store(out + run * B + b, total / draws, mask=b < B)


@triton.jit
def _backward(
    mean, variance, noise, target, grad, to_mean, to_variance, B, C, draws, tiny,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0)
    b, c = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    keep = (b < B)[:, None] & (c < C)[None, :]
    at = (run * B + b)[:, None] * C + c[None, :]
    m = tl.load(mean + at, mask=keep, other=0.0)
    root = tl.sqrt(tl.load(variance + at, mask=keep, other=0.0) + tiny)
    picked = c[None, :] == tl.load(target + b, mask=b < B, other=0)[:, None]
    g = (tl.load(grad + run * B + b, mask=b < B, other=0.0) / draws)[:, None]
    first, second = tl.zeros([ROWS, WIDTH], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    draw = 0
    while draw < draws:
        e = tl.load(noise + (draw * B + b)[:, None] * C + c[None, :], mask=keep, other=0.0)
        z = tl.where((c < C)[None, :], m + root * e, -float("inf"))
        p = tl.exp(z - tl.max(z, 1)[:, None])
        slope = tl.where(picked, 1.0, 0.0) - p / tl.sum(p, 1)[:, None]
        first += slope
        second += slope * e
        draw += 1
    tl.store(to_mean + at, g * first, mask=keep)
    tl.store(to_variance + at, g * second * 0.5 / root, mask=keep)


class FusedLogSoftmax(torch.autograd.Function):
    """Expected log-probabilities (R, B) of classes (B,), for outputs (R, B, C)."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, noise: Tensor, target: Tensor) -> Tensor:
        """``noise``: standard normal numbers (draws, B, C), which all runs share."""
        mean, variance, noise = mean.contiguous(), variance.contiguous(), noise.contiguous()
        target = target.contiguous()
        runs, batch, classes = mean.shape
        out = mean.new_empty(runs, batch)
        ctx.sizes = batch, classes, len(noise), torch.finfo(mean.dtype).tiny
        _forward[(runs, triton.cdiv(batch, ROWS))](
            mean, variance, noise, target, out, *ctx.sizes, ROWS, triton.next_power_of_2(classes)
        )
        ctx.save_for_backward(mean, variance, noise, target)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Gradients to means and variances."""
        mean, variance, noise, target = ctx.saved_tensors
        runs, batch, classes = mean.shape
        to_mean, to_variance = torch.empty_like(mean), torch.empty_like(variance)
        _backward[(runs, triton.cdiv(batch, ROWS))](
            mean, variance, noise, target, grad.contiguous(), to_mean, to_variance, *ctx.sizes,
            ROWS, triton.next_power_of_2(classes),
        )  # fmt: skip
        return to_mean, to_variance, None, None
