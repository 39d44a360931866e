"""A product in bfloat16 whose gradient to the weights comes out in float32."""

from typing import Any

import torch
from torch import Tensor

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
