"""One product for all layers of a flow, as parts of their own."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.ops import amx
from symmetries.ops._dispatch import is_followed

Part = tuple[Tensor, Tensor]


def projected_parts(
    context: Tensor, project: nn.Linear, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the context's part of each layer's hidden units (N S, hidden), and their bias.

    One product serves all layers. Without a gradient, on a CPU, each layer has one of its own, all
    of them in the same memory: that stays in the cache, and new memory is expensive there.

    Args:
        context: (N, features).
        project: the linear layer of all hidden units (layers hidden, features).
        hidden: units of a layer.
        samples: S, points under each context.
        order: of the layers.
    """
    weight = project.weight
    fast = amx.usable(context, weight)
    if context.is_cpu and not fast and not is_followed(context, weight):
        return _in_place(context, project, hidden, samples, order)
    product = (amx.linear if fast else F.linear)(context, weight)
    return split_parts(product, project.bias, hidden, samples, order)


def split_parts(
    product: Tensor, bias: Tensor, hidden: int, samples: int, order: Sequence[int]
) -> Iterator[Part]:
    """Yield the same parts from the product of all layers (N, layers hidden)."""
    parts, biases = product.split(hidden, -1), bias.split(hidden)
    return ((_repeated(parts[i], samples), biases[i]) for i in order)


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
        yield rows.flatten(0, -2), biases[i]


def _repeated(part: Tensor, samples: int) -> Tensor:
    """Return rows (N, ...) as often as there are points under each context (N S, ...)."""
    return part if samples == 1 else part[:, None].expand(-1, samples, -1).flatten(0, 1)
