"""One product for all layers of a flow, as parts of their own."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.ops import amx
from symmetries.ops._dispatch import is_followed, is_transformed

Part = tuple[Tensor, Tensor, bool]


class Projection(torch.autograd.Function):
    """c W_l' for every layer l, in memory of its own that the layer may overwrite.

    Autograd's gradient of a product that was split would put the layers' gradients side by side
    again, a copy of all hidden units; here each is multiplied where it is.
    """

    @staticmethod
    def forward(ctx: Any, context: Tensor, weight: Tensor, hidden: int) -> tuple[Tensor, ...]:
        """Parts (N, hidden) of contexts (N, features) and weights (layers hidden, features)."""
        ctx.save_for_backward(context, weight)
        ctx.hidden = hidden
        return tuple(torch.mm(context, part.T) for part in weight.split(hidden))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Gradients to contexts and weights."""
        context, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
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
    """The context's part of the hidden units of each layer, see :class:`Projection`.

    Example:
        >>> parts = projections(torch.randn(5, 8), torch.randn(6, 8), 3)
        >>> [tuple(part.shape) for part in parts]
        [(5, 3), (5, 3)]
    """
    parts: tuple[Tensor, ...] = Projection.apply(context, weight, hidden)  # type: ignore[no-untyped-call]
    return parts


def projected_parts(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the context's part of each layer's hidden units (N S, hidden), and their bias.

    And whether the first may be overwritten even if a gradient follows. One product serves all
    layers; on a CPU each layer has one of its own, without a gradient all in one place: that stays
    in the cache, and new memory is expensive there.

    Args:
        context: (N, features).
        project: the linear layer of all hidden units (layers hidden, features).
        hidden: units of a layer.
        samples: S, points under each context.
        order: of the layers.
    """
    weight, biases = project.weight, project.bias.split(hidden)
    fast = amx.usable(context, weight)
    if not context.is_cpu or fast or is_transformed():
        product = (amx.linear if fast else F.linear)(context, weight)
        return split_parts(product, project.bias, hidden, samples, order)
    if not is_followed(context, weight):
        return _in_place(context, project, hidden, samples, order)
    if torch.is_autocast_enabled("cpu"):
        product = F.linear(context, weight)
        return split_parts(product, project.bias, hidden, samples, order)
    own = projections(context, weight, hidden)
    return ((_repeated(own[i], samples), biases[i], samples == 1) for i in order)


def split_parts(
    product: Tensor, bias: Tensor, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the same parts from the product of all layers (N, layers hidden)."""
    parts, biases = product.split(hidden, -1), bias.split(hidden)
    return ((_repeated(parts[i], samples), biases[i], False) for i in order)


def _in_place(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    weights, biases = project.weight.detach().split(hidden), project.bias.split(hidden)
    part = context.new_empty(len(context), hidden)
    rows = part if samples == 1 else context.new_empty(len(context), samples, hidden)
    for i in order:
        torch.mm(context, weights[i].T, out=part)
        if samples > 1:
            rows.copy_(part[:, None])
        yield rows.flatten(0, -2), biases[i], False


def _repeated(part: Tensor, samples: int) -> Tensor:
    """Return rows (N, ...) as often as there are points under each context (N S, ...)."""
    return part if samples == 1 else part[:, None].expand(-1, samples, -1).flatten(0, 1)
