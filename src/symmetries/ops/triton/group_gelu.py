"""GELU of a group norm of channels-last features: one kernel forward, two backward.

A program reads one sample, which stays in its cache, once for the mean, once for the variance and
once to write the result. Sums are kept in float32 whatever the features are.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.triton.normalise import _share
from symmetries.ops.triton.sums import column_sums

_TILE = 4096  # numbers that a program holds at once


@triton.jit
def _pooled(values, G: tl.constexpr, C: tl.constexpr):
    """Sums over the channels of each group, at every channel (C,)."""
    sums = tl.sum(tl.reshape(values, [G, C // G]), 1)
    return tl.reshape(tl.broadcast_to(sums[:, None], [G, C // G]), [C])


@triton.jit
def _forward(
    x, gamma, beta, out, mean, scale, points, epsilon,
    G: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    column, row = tl.arange(0, C), tl.arange(0, ROWS)
    at = sample * points * C + row[:, None] * C + column[None, :]
    count = points * (C // G)
    total = tl.zeros([ROWS, C], tl.float32)
    for begin in range(0, points, ROWS):
        keep = (begin + row < points)[:, None]
        total += tl.load(x + at + begin * C, mask=keep, other=0.0).to(tl.float32)
    m = _pooled(tl.sum(total, 0), G, C) / count
    total = tl.zeros([ROWS, C], tl.float32)
    for begin in range(0, points, ROWS):
        keep = (begin + row < points)[:, None]
        centred = tl.load(x + at + begin * C, mask=keep, other=0.0).to(tl.float32) - m[None, :]
        total += tl.where(keep, centred * centred, 0.0)
    s = 1.0 / tl.sqrt(_pooled(tl.sum(total, 0), G, C) / count + epsilon)
    tl.store(mean + sample * C + column, m)
    tl.store(scale + sample * C + column, s)
    weight = (s * tl.load(gamma + column))[None, :]
    bias = tl.load(beta + column)[None, :]
    for begin in range(0, points, ROWS):
        keep = (begin + row < points)[:, None]
        value = tl.load(x + at + begin * C, mask=keep, other=0.0).to(tl.float32)
        h = (value - m[None, :]) * weight + bias
        share, _density = _share(h)
        tl.store(out + at + begin * C, (h * share).to(out.dtype.element_ty), mask=keep)


@triton.jit
def _unit_and_slope(x, grad, at, keep, m, s, weight, bias):
    """The normalised features, and the gradient to what the gelu is of."""
    unit = (tl.load(x + at, mask=keep, other=0.0).to(tl.float32) - m) * s
    h = unit * weight + bias
    share, density = _share(h)
    slope = share + h * 0.3989422804014327 * density
    return unit, tl.load(grad + at, mask=keep, other=0.0).to(tl.float32) * slope


@triton.jit
def _backward(
    x, gamma, beta, mean, scale, grad, grad_x, partial, points,
    G: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    column, row = tl.arange(0, C), tl.arange(0, ROWS)
    at = sample * points * C + row[:, None] * C + column[None, :]
    weight, bias = tl.load(gamma + column)[None, :], tl.load(beta + column)[None, :]
    m = tl.load(mean + sample * C + column)[None, :]
    s = tl.load(scale + sample * C + column)[None, :]
    to_gamma, to_beta = tl.zeros([ROWS, C], tl.float32), tl.zeros([ROWS, C], tl.float32)
    for begin in range(0, points, ROWS):
        keep = (begin + row < points)[:, None]
        unit, d = _unit_and_slope(x, grad, at + begin * C, keep, m, s, weight, bias)
        to_gamma += d * unit
        to_beta += d
    by_gamma, by_beta = tl.sum(to_gamma, 0), tl.sum(to_beta, 0)
    tl.store(partial + sample * 2 * C + column, by_gamma)
    tl.store(partial + sample * 2 * C + C + column, by_beta)
    one = tl.load(gamma + column)
    count = points * (C // G)
    along = (_pooled(by_gamma * one, G, C) / count)[None, :]
    level = (_pooled(by_beta * one, G, C) / count)[None, :]
    for begin in range(0, points, ROWS):
        keep = (begin + row < points)[:, None]
        unit, d = _unit_and_slope(x, grad, at + begin * C, keep, m, s, weight, bias)
        d = s * (d * weight - level - unit * along)
        tl.store(grad_x + at + begin * C, d.to(grad_x.dtype.element_ty), mask=keep)


class KernelGroupGelu(torch.autograd.Function):
    """gelu(group norm) of channels-last features (N, C, H, W), with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, groups: int, epsilon: float
    ) -> Tensor:
        """Features of the type and layout of x."""
        count, channels = x.shape[:2]
        points = x.shape[2] * x.shape[3]
        out = torch.empty_like(x)
        mean, scale = (torch.empty(count, channels, device=x.device) for _ in "ms")
        sizes = {"G": groups, "C": channels, "ROWS": _rows(points, channels)}
        _forward[(count,)](
            x, gamma, beta, out, mean, scale, points, epsilon, **sizes, num_warps=8
        )  # fmt: skip
        ctx.save_for_backward(x, gamma, beta, mean, scale)
        ctx.sizes = sizes
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the features, the weight and the bias."""
        x, gamma, beta, mean, scale = ctx.saved_tensors
        count, channels = x.shape[:2]
        grad = grad.contiguous(memory_format=torch.channels_last)
        grad_x = torch.empty_like(x)
        partial = torch.empty(count, 2 * channels, device=x.device)
        _backward[(count,)](
            x, gamma, beta, mean, scale, grad, grad_x, partial, x.shape[2] * x.shape[3],
            **ctx.sizes, num_warps=8,
        )  # fmt: skip
        to_gamma, to_beta = column_sums(partial).unflatten(0, (2, -1)).unbind(0)
        return grad_x, to_gamma, to_beta, None, None


def _rows(points: int, channels: int) -> int:
    """Points of a sample that a program holds at once."""
    return max(1, min(_TILE // channels, int(triton.next_power_of_2(points))))
