"""Norms of fields of group convolutions: one mean and variance for all elements of a field."""

import torch
from torch import Tensor

from symmetries.ops._dispatch import usable

TYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_CHANNELS = 2048  # that the fused form holds in a tile


def field_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    elements: int,
    eps: float,
    *,
    batch: bool,
    training: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return the fields scaled to mean 0 and variance 1, then by weight and bias.

    .. math:: y = w\,(x - m) / \sqrt{v + \epsilon} + b

    with mean m and variance v over elements, rows and columns, and over the batch if ``batch``.

    Args:
        x: (N, C |H|, H, W).
        weight: w, (C,).
        bias: b, (C,).
        elements: |H|.
        eps: added to the variance.
        batch: whether mean and variance are those of the batch, or of each sample.
        training: whether one gradient is enough, as it is all that the fused form has. Without
            a gradient torch's operations are as fast or faster.

    Returns:
        The normalised fields; mean and variance, (1, C) or (N, C).

    Example:
        >>> one, zero = torch.ones(3), torch.zeros(3)
        >>> x = 3 + torch.randn(2, 12, 5, 5)
        >>> y, mean, _ = field_norm(x, one, zero, 4, 1e-5, batch=True, training=False)
        >>> bool(y.mean().abs() < 1e-5), mean.shape
        (True, torch.Size([1, 3]))
    """
    small = training and torch.is_grad_enabled() and x.shape[1] <= MOST_CHANNELS
    if small and usable("field_norm", x, dtypes=TYPES):
        from symmetries.ops.triton.field_norm import FusedFieldNorm

        fused: tuple[Tensor, Tensor, Tensor]
        fused = FusedFieldNorm.apply(x, weight, bias, elements, eps, batch)  # type: ignore[no-untyped-call]
        return fused
    fields = x.unflatten(1, (-1, elements))
    axes = (0, 2, 3, 4) if batch else (2, 3, 4)
    variance, mean = torch.var_mean(fields, axes, correction=0, keepdim=True)
    y = scale_fields(fields, mean, variance, weight, bias, eps)
    return y, mean.flatten(1), variance.flatten(1)


def scale_fields(
    fields: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """Return (fields - mean) / sqrt(variance + eps) weight + bias, in two passes over the fields.

    Args:
        fields: (N, C, |H|, H, W).
        mean: that broadcasts against the fields.
        variance: of the same shape.
        weight: (C,).
        bias: (C,).
        eps: added to the variance.

    Returns:
        (N, C |H|, H, W).
    """
    scale = torch.rsqrt(variance + eps) * weight.view(1, -1, 1, 1, 1)
    shift = bias.view(1, -1, 1, 1, 1) - mean * scale
    return torch.addcmul(shift, fields, scale).to(fields.dtype).flatten(1, 2)
