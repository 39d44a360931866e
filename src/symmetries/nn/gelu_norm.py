"""Hidden units of the library's networks: linear, gelu, layer norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.kernels.available import usable

_DTYPES = (torch.float32, torch.bfloat16)
_MAX_WIDTH = 4096


def hidden_units(x: Tensor, linear: nn.Linear, norm: nn.LayerNorm) -> Tensor:
    """LN(gelu(W x + b)): the bias, the gelu and the norm in one pass where there is a kernel.

    Args:
        x: (N, inputs).
        linear: W and b.
        norm: over its outputs.

    Returns:
        (N, outputs).

    Example:
        >>> hidden_units(torch.randn(5, 8), nn.Linear(8, 3), nn.LayerNorm(3)).shape
        torch.Size([5, 3])
    """
    if x.ndim == 2 and _fused(x, norm):
        return gelu_norm(F.linear(x, linear.weight), norm, linear.bias)
    return gelu_norm(linear(x), norm)


def gelu_norm(z: Tensor, norm: nn.LayerNorm, bias: Tensor | None = None) -> Tensor:
    """LN(gelu(z + b)) of z (N, width), with b (width,) if z lacks it."""
    if z.ndim == 2 and _fused(z, norm):
        from symmetries.kernels.normalise import KernelGeluNorm

        arguments = (bias, norm.weight, norm.bias, norm.eps, _plain)
        fused: Tensor = KernelGeluNorm.apply(z.contiguous(), *arguments)  # type: ignore[no-untyped-call]
        return fused
    normalised: Tensor = norm(F.gelu(z if bias is None else z + bias))
    return normalised


def _fused(z: Tensor, norm: nn.LayerNorm) -> bool:
    narrow = norm.weight.numel() <= _MAX_WIDTH
    return narrow and usable(norm.weight) and usable(z, dtypes=_DTYPES)


def _plain(z: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    units = F.gelu(z if bias is None else z + bias)
    return F.layer_norm(units, gamma.shape, gamma, beta, epsilon)
