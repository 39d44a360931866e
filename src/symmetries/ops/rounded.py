"""Products in bfloat16 whose gradients to the weights come out in float32."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.ops._dispatch import is_transformed

# Whether products of bfloat16 may come out as float32.
MIXED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


class RoundedLinear(torch.autograd.Function):
    """x W^T with both rounded to bfloat16, and a gradient to W that is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """The products (N, outputs) of x (N, inputs) and W (outputs, inputs)."""
        rounded = weight.to(x.dtype)
        ctx.save_for_backward(x, rounded)
        return x @ rounded.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Gradients to both."""
        x, rounded = ctx.saved_tensors
        grad = grad.to(x.dtype)
        if torch.is_grad_enabled() or not MIXED:  # the gradient of the gradient is wanted
            to_x = grad @ rounded if ctx.needs_input_grad[0] else None
            return to_x, (grad.T @ x).float()
        to_weight = None
        if ctx.needs_input_grad[1]:
            to_weight = torch.mm(grad.T, x, out_dtype=torch.float32)
        return grad @ rounded if ctx.needs_input_grad[0] else None, to_weight


def call_rounded(network: nn.Module, x: Tensor) -> Tensor:
    """The network of x, on a GPU with its products rounded to bfloat16 as autocast would do."""
    found: Tensor
    if x.is_cuda and x.dtype == torch.float32 and not is_transformed():
        weights = rounded_parameters(network)
        found = torch.func.functional_call(network, weights, (x.to(torch.bfloat16),))
    else:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            found = network(x)
    return found


def products_may_round(x: Tensor) -> bool:
    """Whether products with x may be in bfloat16: on CUDA, if torch's settings allow it.

    The setting "medium" of ``torch.set_float32_matmul_precision`` allows it; torch itself uses TF32
    for that, at half the speed.
    """
    return x.is_cuda and torch.get_float32_matmul_precision() == "medium"


def rounded_products(x: Tensor, wanted: bool) -> AbstractContextManager[Any]:
    """Compute products in bfloat16 inside the block, if that is wanted and x is on CUDA."""
    if not (wanted and x.is_cuda):
        return nullcontext()
    # Without the cache of rounded weights, because a CUDA graph would keep those of its first step.
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


class _RoundedTogether(torch.autograd.Function):
    """Several float32 tensors rounded by one kernel, and their gradients by another one."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same tensors in bfloat16, in their layouts."""
        rounded = [torch.empty_like(tensor, dtype=torch.bfloat16) for tensor in tensors]
        torch._foreach_copy_(rounded, list(tensors))
        return tuple(rounded)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """The gradients in float32."""
        whole = [torch.empty_like(grad, dtype=torch.float32) for grad in grads]
        torch._foreach_copy_(whole, list(grads))
        return tuple(whole)


def rounded_parameters(network: nn.Module) -> dict[str, Tensor]:
    """Weights and biases of all convolutions and linear layers in bfloat16, by their names.

    For :func:`torch.func.functional_call`: autocast rounds each of them with a kernel of its own.

    Example:
        >>> sorted(rounded_parameters(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))))
        ['0.bias', '0.weight']
    """
    named = [
        (f"{name}.{own}", parameter)
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
        for own, parameter in layer.named_parameters(recurse=False)
    ]
    rounded = _RoundedTogether.apply(*[parameter for _, parameter in named])  # type: ignore[no-untyped-call]
    return dict(zip([name for name, _ in named], rounded, strict=True))
