"""GELU of a group norm, the operation between the convolutions of a residual network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.ops._dispatch import usable

_TYPES = (torch.float32, torch.bfloat16)
_MOST_CHANNELS = 1024  # that the fused form holds in a tile


def group_gelu(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    """Gelu(norm(x)) of features (N, C, H, W), in one pass where there is a kernel.

    The kernel takes and gives channels-last features, which torch's norm copies back and forth, and
    computes in float32 whatever their type is.

    Example:
        >>> group_gelu(torch.randn(2, 8, 4, 4), nn.GroupNorm(2, 8)).shape
        torch.Size([2, 8, 4, 4])
    """
    if x.ndim == 4 and has_fused_form(x, norm):
        from symmetries.ops.triton.group_gelu import KernelGroupGelu

        rows = x.contiguous(memory_format=torch.channels_last)
        arguments = (norm.weight, norm.bias, norm.num_groups, norm.eps)
        return KernelGroupGelu.apply(rows, *arguments)  # type: ignore[no-untyped-call]
    whole = x if norm.weight is None else x.to(norm.weight.dtype)
    units = F.group_norm(whole, norm.num_groups, norm.weight, norm.bias, norm.eps)
    return F.gelu(units).to(x.dtype)


def has_fused_form(x: Tensor, norm: nn.GroupNorm) -> bool:
    """Return whether the fused form takes these features: channels and groups by powers of two."""
    channels, groups = norm.num_channels, norm.num_groups
    even = channels & (channels - 1) == 0 and groups & (groups - 1) == 0
    fits = norm.affine and even and 4 <= channels <= _MOST_CHANNELS
    return fits and usable("group_gelu", norm.weight) and usable("group_gelu", x, dtypes=_TYPES)
