"""Hidden units of a perceptron: layer norm of the GELU of a linear layer."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.ops._dispatch import is_followed, usable
from symmetries.ops._vmap_rules import fold, foldable
from symmetries.ops.rounded import RoundedLinear

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
    units: Tensor
    if x.ndim == 2 and has_fused_form(x, norm):
        rounded = x.is_cuda and x.dtype == torch.bfloat16 and linear.weight.dtype == torch.float32
        units = (RoundedLinear.apply if rounded else F.linear)(x, linear.weight)
        return gelu_norm(units, norm, linear.bias)
    return gelu_norm(linear(x), norm, own=not is_watched(linear))


def is_watched(module: nn.Module) -> bool:
    """Return whether a forward hook may hold the module's output."""
    return bool(module._forward_hooks or nn.modules.module._global_forward_hooks)


def gelu_norm(
    z: Tensor, norm: nn.LayerNorm, bias: Tensor | None = None, *, own: bool = False
) -> Tensor:
    """LN(gelu(z + b)) of z (N, width), with b (width,) if z lacks it; see :func:`hidden_units`.

    ``own`` says that z may be overwritten: on a CPU new memory costs more than the gelu.
    """
    if z.ndim == 2 and has_fused_form(z, norm):
        from symmetries.ops.triton.normalise import KernelGeluNorm

        arguments = (bias, norm.weight, norm.bias, norm.eps, _plain)
        return KernelGeluNorm.apply(z.contiguous(), *arguments)  # type: ignore[no-untyped-call]
    narrow = z.ndim == 2 and norm.weight.numel() <= _MAX_WIDTH
    if narrow and foldable("gelu_norm", z, dtypes=_DTYPES):
        z = z if bias is None else z + bias
        plain = _unit_norm(norm.weight.numel(), norm.eps, z.device)
        found: Tensor = fold(lambda rows: gelu_norm(rows, plain), z, axes=(0,))
        return torch.addcmul(norm.bias.to(found.dtype), found, norm.weight.to(found.dtype))
    z = z if bias is None else z + bias
    own = own and not is_followed(z, *norm.parameters())
    units = torch.ops.aten.gelu_(z) if own else F.gelu(z)
    return norm(units)


@lru_cache(maxsize=64)
def _unit_norm(width: int, epsilon: float, device: torch.device) -> nn.LayerNorm:
    """Return a layer norm with weights 1 and biases 0, which all models share."""
    norm = nn.LayerNorm(width, epsilon, elementwise_affine=False)
    with torch.inference_mode(False):
        norm.weight = nn.Parameter(torch.ones(width, device=device), requires_grad=False)
        norm.bias = nn.Parameter(torch.zeros(width, device=device), requires_grad=False)
    return norm


def has_fused_form(z: Tensor, norm: nn.LayerNorm) -> bool:
    """Return whether the fused form takes these hidden units."""
    narrow = norm.weight.numel() <= _MAX_WIDTH
    return narrow and usable("gelu_norm", norm.weight) and usable("gelu_norm", z, dtypes=_DTYPES)


def _plain(z: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    units = F.gelu(z if bias is None else z + bias)
    return F.layer_norm(units, gamma.shape, gamma, beta, epsilon)
