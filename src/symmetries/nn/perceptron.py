"""Hidden layers of the library's networks: linear, gelu, layer norm."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.ops import amx
from symmetries.ops.available import is_transformed, usable
from symmetries.ops.rounded import RoundedLinear
from symmetries.ops.side_streams import current_branches
from symmetries.ops.vmap_rules import fold, foldable

_DTYPES = (torch.float32, torch.bfloat16)
_WRITTEN = (torch.float32, torch.float64)
_MAX_WIDTH = 4096
_MOST = 2**24  # bytes of hidden units per chunk on a CPU: larger blocks are allocated anew


class MLP(nn.Sequential):
    """Hidden layers: linear, gelu, layer norm and dropout; no output layer.

    Args:
        inputs: number of inputs.
        widths: widths of the hidden layers, at least one.
        dropout: dropout after each layer.

    Example:
        >>> MLP(784, (256, 64))(torch.zeros(5, 784)).shape
        torch.Size([5, 64])
    """

    def __init__(self, inputs: int, widths: Sequence[int], dropout: float = 0.0) -> None:
        if not widths or min(widths) < 1:
            remedy = "give the width of each hidden layer"
            raise invalid("widths", "positive widths, at least one", tuple(widths), remedy)
        layers: list[nn.Module] = []
        for before, after in zip((inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(before, after), nn.GELU(), nn.LayerNorm(after)]
            if dropout:
                layers.append(nn.Dropout(dropout))
        super().__init__(*layers)
        self.features = widths[-1]
        self._widest = max(widths)
        self._drops = bool(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden units (N, widths[-1]) of inputs (N, inputs)."""
        traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
        if x.device.type == "cpu" and x.ndim == 2 and not (self._drops or traced):
            parts = len(x) * x.element_size() * self._widest // _MOST
            if parts > 1 and not any(map(_watched, self)):
                return torch.cat([self._hidden(part) for part in x.chunk(parts)])
        return self._hidden(x)

    def _hidden(self, x: Tensor) -> Tensor:
        made, mask, layers = current_branches(), None, [*self]
        for layer, after in zip_longest(layers, layers[1:]):
            if isinstance(layer, nn.Linear):
                linear = layer
            elif isinstance(layer, nn.LayerNorm):  # with the gelu before it
                drops = isinstance(after, nn.Dropout)
                mask = made.made_for(after) if made is not None and drops else None
                keep = 1 - after.p if drops else 1.0
                x = hidden_units(x, linear, layer, mask, keep)
            elif isinstance(layer, nn.Dropout) and mask is None:
                x = layer(x)
        return x


def hidden_units(
    x: Tensor,
    linear: nn.Linear,
    norm: nn.LayerNorm,
    mask: Tensor | None = None,
    keep: float = 1.0,
) -> Tensor:
    """Return LN(gelu(W x + b)), with bias, gelu and norm in one pass if a GPU kernel supports it.

    Args:
        x: (N, inputs).
        linear: layer with W and b.
        norm: layer norm over its outputs.
        mask: (N, outputs), 0 where units are dropped.
        keep: divisor of the other units.

    Returns:
        (N, outputs).

    Example:
        >>> hidden_units(torch.randn(5, 8), nn.Linear(8, 3), nn.LayerNorm(3)).shape
        torch.Size([5, 3])
    """
    units: Tensor
    if x.ndim == 2 and _fused(x, norm):
        rounded = x.is_cuda and x.dtype == torch.bfloat16 and linear.weight.dtype == torch.float32
        units = (RoundedLinear.apply if rounded else F.linear)(x, linear.weight)
        return gelu_norm(units, norm, linear.bias, mask, keep)
    fast = amx.usable(x, linear.weight)
    units = amx.linear(x, linear.weight, linear.bias) if fast else linear(x)
    return gelu_norm(units, norm, None, mask, keep, own=not _watched(linear))


def _watched(module: nn.Module) -> bool:
    """Return whether a hook may have kept the module's output."""
    return bool(module._forward_hooks or nn.modules.module._global_forward_hooks)


def gelu_norm(
    z: Tensor,
    norm: nn.LayerNorm,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    keep: float = 1.0,
    *,
    own: bool = False,
) -> Tensor:
    """Return LN(gelu(z + b)) of z (N, width), with b (width,) if z lacks it: :func:`hidden_units`.

    With ``own`` z may be overwritten, because on a CPU new memory costs more than the gelu.
    """
    if z.ndim == 2 and _fused(z, norm):
        from symmetries.ops.normalise import KernelGeluNorm

        arguments = (bias, norm.weight, norm.bias, norm.eps, _plain, mask, keep)
        fused: Tensor = KernelGeluNorm.apply(z.contiguous(), *arguments)  # type: ignore[no-untyped-call]
        return fused
    if mask is not None:
        return torch.where(mask != 0, gelu_norm(z, norm, bias, own=own) / keep, 0.0)
    if z.ndim == 2 and foldable(z, dtypes=_DTYPES) and norm.weight.numel() <= _MAX_WIDTH:
        z = z if bias is None else z + bias
        plain = _unit_norm(norm.weight.numel(), norm.eps, z.device)
        found: Tensor = fold(lambda rows: gelu_norm(rows, plain), z, axes=(0,))
        return torch.addcmul(norm.bias.to(found.dtype), found, norm.weight.to(found.dtype))
    z = z if bias is None else z + bias
    followed = is_followed(z, *norm.parameters())
    if z.requires_grad and _is_written(z, norm):
        written: Tensor = GeluNorm.apply(z, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
        return written
    own = own and not followed
    units = torch.ops.aten.gelu_(z) if own else F.gelu(z)
    normalised: Tensor = norm(units)
    return normalised


def _is_written(z: Tensor, norm: nn.LayerNorm) -> bool:
    """Return whether :class:`GeluNorm` can be used: a plain layer norm without hooks."""
    if not z.is_cpu or z.dtype not in _WRITTEN or not torch.is_grad_enabled() or is_transformed():
        return False
    if type(norm) is not nn.LayerNorm:  # a subclass may behave differently
        return False
    hooks = norm._forward_pre_hooks or norm._backward_hooks or norm._backward_pre_hooks
    biased = norm.weight is not None and norm.bias is not None
    return biased and not (hooks or _watched(norm) or torch.is_autocast_enabled("cpu"))


class GeluNorm(torch.autograd.Function):
    """LN(gelu(z)) on a CPU, as by autograd, but with one tensor for the gradient through both.

    New memory costs as much as the computation there.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:  # noqa: ANN401
        """Return the units (..., width)."""
        units = F.gelu(z)
        out, mean, scale = torch.native_layer_norm(units, gamma.shape, gamma, beta, epsilon)
        ctx.save_for_backward(z, units, mean, scale, gamma, beta)
        ctx.epsilon = epsilon
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return gradients of z, gamma and beta."""
        z, units, mean, scale, gamma, beta = ctx.saved_tensors
        needs = list(ctx.needs_input_grad[:3])
        if torch.is_grad_enabled():  # a second derivative is needed
            inputs = (z, gamma, beta)
            again = _plain(z, None, gamma, beta, ctx.epsilon)
            wanted = [part for part, need in zip(inputs, needs, strict=True) if need]
            found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
            return *(next(found) if need else None for need in needs), None
        backward = torch.ops.aten.native_layer_norm_backward
        to_z, *others = backward(grad, units, gamma.shape, mean, scale, gamma, beta, needs)
        if needs[0]:
            torch.ops.aten.gelu_backward.grad_input(to_z, z, grad_input=to_z)
        return to_z, *others, None


def is_followed(*tensors: Tensor) -> bool:
    """Return whether a gradient may be needed, or a compiler or torch.func transforms the call."""
    watched = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return watched or is_transformed()


def head(x: Tensor, linear: nn.Linear) -> Tensor:
    """Return W x + b in the weights' precision, for hidden units that may be in bfloat16.

    Args:
        x: (N, inputs).
        linear: layer with W and b and few outputs.

    Returns:
        (N, outputs).

    Example:
        >>> head(torch.randn(5, 8, dtype=torch.bfloat16), nn.Linear(8, 3)).dtype
        torch.float32
    """
    weight, bias = linear.weight, linear.bias
    if bias is not None and usable(weight, bias) and usable(x, dtypes=_DTYPES) and x.ndim == 2:
        from symmetries.ops.heads import KernelHead, suits

        if suits(x, weight):
            made: Tensor = KernelHead.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            return made
    out: Tensor = linear(x.to(weight.dtype))
    return out


@lru_cache(maxsize=64)
def _unit_norm(width: int, epsilon: float, device: torch.device) -> nn.LayerNorm:
    """Return a layer norm with weights 1 and biases 0."""
    norm = nn.LayerNorm(width, epsilon, elementwise_affine=False)
    with torch.inference_mode(False):
        norm.weight = nn.Parameter(torch.ones(width, device=device), requires_grad=False)
        norm.bias = nn.Parameter(torch.zeros(width, device=device), requires_grad=False)
    return norm


def _fused(z: Tensor, norm: nn.LayerNorm) -> bool:
    narrow = norm.weight.numel() <= _MAX_WIDTH
    return narrow and usable(norm.weight) and usable(z, dtypes=_DTYPES)


def _plain(z: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    units = F.gelu(z if bias is None else z + bias)
    return F.layer_norm(units, gamma.shape, gamma, beta, epsilon)
