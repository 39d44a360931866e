"""Norms of fields with few passes over memory, for training on a GPU.

A norm reads its features once for the sums and once to scale them; its gradient reads features and
gradient twice. As separate torch operations it takes three times that, in float32, and more time
than the convolutions between the norms.
"""

from typing import Any

import torch
from torch import Tensor

from symmetries.ops.available import usable

TYPES = (torch.float32, torch.bfloat16, torch.float16)


def has_kernel(x: Tensor) -> bool:
    """Return whether a GPU kernel supports these features (N, C |H|, H, W) and is faster.

    It is faster with a gradient; for a forward pass alone torch operations are as fast or faster.
    """
    return torch.is_grad_enabled() and usable(x, dtypes=TYPES) and x.shape[1] <= 2048


def fused_norm(
    x: Tensor, weight: Tensor, bias: Tensor, elements: int, eps: float, batch: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (x - mean) / sqrt(variance + eps) weight + bias, by field; has first derivatives only.

    Args:
        x: (N, C |H|, H, W).
        weight: (C,).
        bias: (C,).
        elements: |H|.
        eps: added to the variance.
        batch: whether mean and variance are those of the batch, or of each sample.

    Returns:
        The normalised fields, and mean and variance, (1, C) or (N, C), without gradients.
    """
    found: tuple[Tensor, Tensor, Tensor] = _Norm.apply(x, weight, bias, elements, eps, batch)  # type: ignore[no-untyped-call]
    return found


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - of torch
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        elements: int,
        eps: float,
        batch: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        from symmetries.ops.fields import field_blend, field_sums

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
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        from symmetries.ops.fields import field_blend, field_sums

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
    """Reduce sums by channel (G, 2, C |H|) to sums by field (G, 2, C)."""
    pooled: Tensor = sums.unflatten(2, (-1, elements)).sum(3)
    return pooled


def _spread(values: Tensor, elements: int) -> Tensor:
    """Expand values by field (G, C) to values by channel (G, C |H|)."""
    return values.repeat_interleave(elements, 1)
