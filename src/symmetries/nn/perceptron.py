"""Hidden layers of the library's networks: linear, gelu, layer norm."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.ops import amx
from symmetries.ops.available import is_transformed, usable
from symmetries.ops.rounded import RoundedLinear
from symmetries.ops.vmap_rules import fold, foldable

_DTYPES = (torch.float32, torch.bfloat16)
_WRITTEN = (torch.float32, torch.float64)
_MAX_WIDTH = 4096
_MOST = 2**24  # bytes of hidden units at a time on a CPU: more would be new memory every time


class MLP(nn.Sequential):
    """Hidden layers of the form linear, gelu, layer norm, dropout; no output layer.

    Args:
        inputs: number of inputs.
        widths: of the hidden layers, at least one.
        dropout: after each.

    Example:
        >>> MLP(784, (256, 64))(torch.zeros(5, 784)).shape
        torch.Size([5, 64])
    """

    def __init__(self, inputs: int, widths: Sequence[int], dropout: float = 0.0) -> None:
        if not widths or min(widths) < 1:
            remedy = "name the width of each hidden layer"
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
        """Hidden units (N, widths[-1]) of inputs (N, inputs)."""
        traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
        if x.device.type == "cpu" and x.ndim == 2 and not (self._drops or traced):
            parts = len(x) * x.element_size() * self._widest // _MOST
            if parts > 1 and not any(map(_watched, self)):
                return torch.cat([self._hidden(part) for part in x.chunk(parts)])
        return self._hidden(x)

    def _hidden(self, x: Tensor) -> Tensor:
        for layer in self:
            if isinstance(layer, nn.Linear):
                linear = layer
            elif isinstance(layer, nn.LayerNorm):  # and the gelu before it
                x = hidden_units(x, linear, layer)
            elif isinstance(layer, nn.Dropout):
                x = layer(x)
        return x


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
    if x.ndim == 2 and _fused(x, norm):
        rounded = x.is_cuda and x.dtype == torch.bfloat16 and linear.weight.dtype == torch.float32
        units = (RoundedLinear.apply if rounded else F.linear)(x, linear.weight)
        return gelu_norm(units, norm, linear.bias)
    fast = amx.usable(x, linear.weight)
    units = amx.linear(x, linear.weight, linear.bias) if fast else linear(x)
    return gelu_norm(units, norm, own=not _watched(linear))


def _watched(module: nn.Module) -> bool:
    """Whether somebody may have kept what the module gave."""
    return bool(module._forward_hooks or nn.modules.module._global_forward_hooks)


def gelu_norm(
    z: Tensor,
    norm: nn.LayerNorm,
    bias: Tensor | None = None,
    *,
    own: bool = False,
) -> Tensor:
    """LN(gelu(z + b)) of z (N, width), with b (width,) if z lacks it; see :func:`hidden_units`.

    ``own`` says that z may be overwritten: on a CPU new memory costs more than the gelu.
    """
    if z.ndim == 2 and _fused(z, norm):
        from symmetries.ops.normalise import KernelGeluNorm

        arguments = (bias, norm.weight, norm.bias, norm.eps, _plain)
        fused: Tensor = KernelGeluNorm.apply(z.contiguous(), *arguments)  # type: ignore[no-untyped-call]
        return fused
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
    """Whether :class:`GeluNorm` may be used: nobody looks at the norm, and nothing changes it."""
    if not z.is_cpu or z.dtype not in _WRITTEN or not torch.is_grad_enabled() or is_transformed():
        return False
    if type(norm) is not nn.LayerNorm:  # a subclass may do something else
        return False
    hooks = norm._forward_pre_hooks or norm._backward_hooks or norm._backward_pre_hooks
    biased = norm.weight is not None and norm.bias is not None
    return biased and not (hooks or _watched(norm) or torch.is_autocast_enabled("cpu"))


class GeluNorm(torch.autograd.Function):
    """LN(gelu(z)) on a CPU: as autograd would, but the gradient through both is one tensor.

    There new memory costs as much as what is computed in it.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:  # noqa: ANN401
        """The units (..., width)."""
        units = F.gelu(z)
        out, mean, scale = torch.native_layer_norm(units, gamma.shape, gamma, beta, epsilon)
        ctx.save_for_backward(z, units, mean, scale, gamma, beta)
        ctx.epsilon = epsilon
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Gradients to z, gamma and beta."""
        z, units, mean, scale, gamma, beta = ctx.saved_tensors
        needs = list(ctx.needs_input_grad[:3])
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
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
    """Whether a gradient may follow, or torch's compiler or functions transform what is done."""
    watched = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return watched or is_transformed()


def head(x: Tensor, linear: nn.Linear) -> Tensor:
    """W x + b in the weights' precision, of hidden units that may be rounded to bfloat16.

    Args:
        x: (N, inputs).
        linear: W and b, of a few outputs.

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
    """A layer norm with weights 1 and biases 0: what models have in common."""
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
