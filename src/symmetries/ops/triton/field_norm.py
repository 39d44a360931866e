"""Norms of fields from sums and blends of channels-last features by channel.

A norm reads its features once for the sums and once to scale them; its gradient reads features and
gradient twice. As single operations of torch it is three times that, in float32, and takes more
time than the convolutions between the norms.

Features are (groups, points, channels) in memory: one group for statistics over a batch, one for
each sample otherwise. Sums are kept in float32 whatever the features are.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 4096  # numbers that a program holds at once
_PROGRAMS = 1024  # enough to fill a GPU


@triton.jit
def _sums(
    u, v, out, points,
    CHUNK: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    group, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    first = tl.zeros([ROWS, COLUMNS], tl.float32)
    second = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, CHUNK, ROWS):
        at = part * CHUNK + begin + row
        keep = (at < points)[:, None] & (column < K)[None, :]
        where = (group * points + at)[:, None] * K + column[None, :]
        a = tl.load(u + where, mask=keep, other=0.0).to(tl.float32)
        b = tl.load(v + where, mask=keep, other=0.0).to(tl.float32)
        first += a
        second += a * b
    target = out + (group * tl.num_programs(1) + part) * 2 * K + column
    tl.store(target, tl.sum(first, 0), mask=column < K)
    tl.store(target + K, tl.sum(second, 0), mask=column < K)


@triton.jit
def _blend(
    u, v, scale, other, shift, out, points,
    CHUNK: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TWO: tl.constexpr,
):  # fmt: skip
    group, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    inside = column < K
    a = tl.load(scale + group * K + column, mask=inside, other=0.0)[None, :]
    c = tl.load(shift + group * K + column, mask=inside, other=0.0)[None, :]
    if TWO:
        b = tl.load(other + group * K + column, mask=inside, other=0.0)[None, :]
    for begin in range(0, CHUNK, ROWS):
        at = part * CHUNK + begin + row
        keep = (at < points)[:, None] & inside[None, :]
        where = (group * points + at)[:, None] * K + column[None, :]
        value = tl.load(u + where, mask=keep, other=0.0).to(tl.float32) * a + c
        if TWO:
            value += tl.load(v + where, mask=keep, other=0.0).to(tl.float32) * b
        tl.store(out + where, value.to(out.dtype.element_ty), mask=keep)


def field_sums(u: Tensor, v: Tensor, groups: int) -> Tensor:
    """(groups, 2, K): the sums over the points of u and of u v.

    Args:
        u: (N, K, H, W), channels last in memory.
        v: the same.
        groups: 1 for sums over all samples, N for each by itself.
    """
    points, chunk, rows, columns = _tiles(u, groups)
    parts = triton.cdiv(points, chunk)
    out = torch.empty((groups, parts, 2, u.shape[1]), dtype=torch.float32, device=u.device)
    sizes = {"CHUNK": chunk, "K": u.shape[1], "ROWS": rows, "COLUMNS": columns}
    _sums[(groups, parts)](u, v, out, points, **sizes)
    return out.sum(1)


def field_blend(
    u: Tensor, scale: Tensor, shift: Tensor, v: Tensor | None = None, other: Tensor | None = None
) -> Tensor:
    """U scale + v other + shift, of the type and layout of u.

    Args:
        u: (N, K, H, W), channels last in memory.
        scale: (groups, K) float32.
        shift: the same.
        v: like u, or None.
        other: like ``scale``, or None.
    """
    groups = len(scale)
    points, chunk, rows, columns = _tiles(u, groups)
    out = torch.empty_like(u)
    grid = (groups, triton.cdiv(points, chunk))
    second, factor = (v, other) if v is not None and other is not None else (u, scale)
    coefficients = [part.contiguous() for part in (scale, factor, shift)]
    sizes = {"CHUNK": chunk, "K": u.shape[1], "ROWS": rows, "COLUMNS": columns}
    _blend[grid](u, second, *coefficients, out, points, TWO=v is not None, **sizes)
    return out


def _tiles(u: Tensor, groups: int) -> tuple[int, int, int, int]:
    points = u.numel() // (groups * u.shape[1])
    columns = triton.next_power_of_2(u.shape[1])
    rows = max(1, _TILE // columns)
    parts = max(1, _PROGRAMS // groups)
    chunk = triton.cdiv(triton.cdiv(points, parts), rows) * rows
    return points, chunk, rows, columns


class FusedFieldNorm(torch.autograd.Function):
    """Norm of fields with its gradient: two passes over memory forward, two backward."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        elements: int,
        eps: float,
        batch: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised fields, mean and variance; see ``ops.field_norm``."""
        x = x.contiguous(memory_format=torch.channels_last)
        groups = 1 if batch else len(x)
        count = x.numel() // (groups * weight.numel())
        mean, square = (_pool(field_sums(x, x, groups), elements) / count).unbind(1)
        variance = (square - mean * mean).clamp_min(0)
        inverse = torch.rsqrt(variance + eps)
        scale = inverse * weight
        shift = bias - mean * scale
        y = field_blend(x, _spread(scale, elements), _spread(shift, elements))
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.elements, ctx.count = elements, count
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the features, the weight and the bias."""
        x, weight, mean, inverse = ctx.saved_tensors
        gradient = gradient.to(x.dtype).contiguous(memory_format=torch.channels_last)
        elements, count = ctx.elements, ctx.count
        total, product = _pool(field_sums(gradient, x, len(mean)), elements).unbind(1)
        along = (product - mean * total) * inverse  # sum of gradient times normalised fields
        scale = inverse * weight
        other = -scale * inverse * along / count
        shift = -scale * total / count - other * mean
        spread = [_spread(part, elements) for part in (scale, shift, other)]
        by_x = field_blend(gradient, spread[0], spread[1], x, spread[2])
        return by_x, along.sum(0), total.sum(0), None, None, None


def _pool(sums: Tensor, elements: int) -> Tensor:
    """Sums by channel (G, 2, C |H|) to sums by field (G, 2, C)."""
    return sums.unflatten(2, (-1, elements)).sum(3)


def _spread(values: Tensor, elements: int) -> Tensor:
    """Values by field (G, C) to values by channel (G, C |H|)."""
    return values.repeat_interleave(elements, 1)
