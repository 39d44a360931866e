"""One matrix product for all layers of a flow, returned as separate parts."""

from typing import Any

import torch
from torch import Tensor


class Projection(torch.autograd.Function):
    """Autograd function of c W_l' for every layer l, in separate memory that layers may overwrite.

    Autograd's gradient of a split product would concatenate the layers' gradients, which copies all
    hidden units; here each is multiplied in place.
    """

    @staticmethod
    def forward(ctx: Any, context: Tensor, weight: Tensor, hidden: int) -> tuple[Tensor, ...]:  # noqa: ANN401
        """Return parts (N, hidden); contexts (N, features), weights (layers hidden, features)."""
        ctx.save_for_backward(context, weight)
        ctx.hidden = hidden
        return tuple(torch.mm(context, part.T) for part in weight.split(hidden))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:  # noqa: ANN401
        """Return gradients with respect to contexts and weights."""
        context, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is needed
            together = torch.cat(grads, 1)
            return together @ weight, together.T @ context, None
        to_context = to_weight = None
        if ctx.needs_input_grad[0]:
            to_context = torch.zeros_like(context)
            for grad, part in zip(grads, weight.split(ctx.hidden), strict=True):
                to_context.addmm_(grad, part)
        if ctx.needs_input_grad[1]:
            to_weight = torch.empty_like(weight)
            for grad, part in zip(grads, to_weight.split(ctx.hidden), strict=True):
                torch.mm(grad.T, context, out=part)
        return to_context, to_weight, None


def projections(context: Tensor, weight: Tensor, hidden: int) -> tuple[Tensor, ...]:
    """Return the context's part of the hidden units of each layer, see :class:`Projection`.

    Example:
        >>> parts = projections(torch.randn(5, 8), torch.randn(6, 8), 3)
        >>> [tuple(part.shape) for part in parts]
        [(5, 3), (5, 3)]
    """
    parts: tuple[Tensor, ...] = Projection.apply(context, weight, hidden)  # type: ignore[no-untyped-call]
    return parts
