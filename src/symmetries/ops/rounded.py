"""A product in bfloat16 whose gradient to the weights comes out in float32."""

from typing import Any

import torch
from torch import Tensor

from symmetries.ops.side_streams import current_branches, later_if_alone

# Whether products of bfloat16 may come out as float32.
MIXED = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


class RoundedLinear(torch.autograd.Function):
    """x W^T with both rounded to bfloat16, and a gradient to W that is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """The products (N, outputs) of x (N, inputs) and W (outputs, inputs)."""
        made = current_branches()
        rounded = None if made is None else made.rounded(weight)
        rounded = weight.to(x.dtype) if rounded is None else rounded
        ctx.save_for_backward(x, rounded, weight)
        ctx.branches = made
        return x @ rounded.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Gradients to both."""
        x, rounded, weight = ctx.saved_tensors
        grad = grad.to(x.dtype)
        if torch.is_grad_enabled() or not MIXED:  # the gradient of the gradient is wanted
            to_x = grad @ rounded if ctx.needs_input_grad[0] else None
            return to_x, (grad.T @ x).float()

        def to_weight() -> Tensor:
            return torch.mm(grad.T, x, out_dtype=torch.float32)

        wanted = ctx.needs_input_grad
        found = later_if_alone(ctx.branches, [weight], to_weight, grad, x) if wanted[1] else None
        return grad @ rounded if wanted[0] else None, found
