"""How a group may act on the output of a layer: maps, poses, vectors, points, tensors, items."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.placement import exact_products
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.nodes import NodeAction, linear_part
from symmetries.actions.permute import PermutationAction, SequenceAction
from symmetries.actions.points import PointAction
from symmetries.actions.signals import SignalAction
from symmetries.actions.volumes import VolumeAction
from symmetries.auditing.elements import Moves
from symmetries.groups.colour import Colour

Act = Callable[[Any, Tensor], Tensor]

OTHER_TOKENS = (0, 1, 2, 5)  # of a class, of distillation, and four registers
CLEARLY = 0.8  # another law than the first is chosen if its error is smaller by this factor


def layer_laws(moves: Moves, output: Tensor) -> dict[str, Act | None]:
    """Return how the group may act on an output, by law, the default first; None if it cannot.

    - Images and volumes: feature maps (N, C, H, W) and (N, C, D, H, W) move like them, vectors stay
      ("invariance"), and channels that stand for the elements of a finite group change places
      ("regular"). Tokens (N, T, C) of a square of patches move like images of its size.
    - Signals and sequences: outputs with an axis of time move along it, others stay.
    - Points: outputs stay, or turn along their last axis ("vector"), move with the points
      ("point"), or turn from both sides ("tensor"), where their shape permits it.
    - Permuted items: outputs stay, or change places with the items ("permuted").
    """
    action = moves.action
    if isinstance(action, PointAction | NodeAction):
        return _point_laws(action, output)
    if isinstance(action, PermutationAction):
        return _item_laws(action, output)
    if isinstance(action, SequenceAction | SignalAction):
        time = 1 if isinstance(action, SequenceAction) else 2
        along = output.ndim > 2 and output.shape[time] > 1 and (time == 1 or output.ndim == 3)
        known = isinstance(action, SequenceAction) or not action.group.changes_values
        return {"equivariance": moves.place if known else None} if along else {"invariance": stays}
    spatial = isinstance(action, ImageAction)
    order = action.group.order if action.group.finite else 0
    if output.ndim in (3, 5) and spatial and output.shape[2] == order:
        return {"regular": partial(_regular, moves)}
    laws: dict[str, Act | None] = {"equivariance": None}
    if output.ndim == 2 or (output.ndim == 4 and isinstance(action.group, Colour)):
        laws = {"invariance": stays}
    elif output.ndim == 3 and spatial and grid_of_tokens(output) is not None:
        laws = {"equivariance": _Tokens(moves.place)}
    elif (output.ndim == 4 and spatial) or (output.ndim == 5 and isinstance(action, VolumeAction)):
        laws = {"equivariance": moves.place}
    if spatial and order > 1 and output.ndim in (2, 4) and output.shape[1] % order == 0:
        laws["regular"] = partial(_regular, moves)
    return laws


def chosen_law(errors: Mapping[str, float]) -> str:
    """Return the first law, or the one with the smallest error if that is clearly smaller.

    Args:
        errors: squared errors by law, the default first; NaN where the group could not act.

    Example:
        >>> chosen_law({"invariance": 1.0, "vector": 0.9}), chosen_law({"a": 1.0, "b": 0.1})
        ('invariance', 'b')
    """
    first = next(iter(errors))
    best = min(errors, key=lambda law: errors[law] if errors[law] == errors[law] else float("inf"))
    clear = not errors[best] >= CLEARLY**2 * errors[first]
    return best if clear and best != first else first


def stays(_element: Any, h: Tensor) -> Tensor:  # noqa: ANN401 - elements differ by group
    """Return h: the law of an invariant output."""
    return h


def undo(act: Act, moves: Moves) -> Act:
    """Return the action of the inverse of an element under a law."""
    if act == moves.place:
        return moves.back
    if isinstance(act, _Tokens):
        return _Tokens(moves.back)
    return lambda element, h: act(moves.inverse(element), h)


def main_tensor(output: Any) -> Any:  # noqa: ANN401 - whatever a layer gives
    """Return the measured tensor of a layer's output: itself, or the first of a tuple (LSTM).

    Example:
        >>> main_tensor((torch.zeros(2, 3), (None, None))).shape
        torch.Size([2, 3])
    """
    return main_tensor(output[0]) if isinstance(output, tuple) and output else output


def with_main(output: Any, tensor: Tensor) -> Any:  # noqa: ANN401
    """Return the output of a layer with another main tensor."""
    if not isinstance(output, tuple):
        return tensor
    parts = (with_main(output[0], tensor), *output[1:])
    return type(output)(*parts) if hasattr(output, "_fields") else parts


def grid_of_tokens(tokens: Tensor) -> tuple[int, int] | None:
    """Side of the square of patches, and number of tokens in front of it; None if there is none.

    Example:
        >>> import torch
        >>> grid_of_tokens(torch.zeros(2, 197, 8)), grid_of_tokens(torch.zeros(2, 12, 8))
        ((14, 1), None)
    """
    for others in OTHER_TOKENS:
        side = math.isqrt(max(0, tokens.shape[1] - others))
        if side > 1 and side**2 + others == tokens.shape[1]:
            return side, others
    return None


@dataclass(frozen=True)
class _Tokens:
    """How the tokens (N, T, C) of square patches of images move; those in front of them stay."""

    move: Act

    def __call__(self, element: Any, tokens: Tensor) -> Tensor:  # noqa: ANN401
        side, others = grid_of_tokens(tokens) or (0, 0)
        maps = tokens[:, others:].mT.unflatten(2, (side, side))
        return torch.cat((tokens[:, :others], self.move(element, maps).flatten(2).mT), 1)


def _regular(moves: Moves, element: Tensor, h: Tensor) -> Tensor:
    """Return (g h)(p, k) = h(g^-1 p, g^-1 k) for channels (F, |G|) or F |G|, at pixels p if any."""
    group: Any = moves.action.group
    source = group.compose(group.inverse(element), group.elements(h.device))
    fields = h if h.ndim in (3, 5) else h.unflatten(1, (-1, group.order))
    turned: Tensor = fields[:, :, source].flatten(1, 2)
    turned = turned if h.ndim in (2, 3) else moves.place(element, turned)
    return turned.reshape(h.shape)


def _point_laws(action: Action, h: Tensor) -> dict[str, Act | None]:
    points = PointAction(action.group)
    d = action.group.coordinates
    laws: dict[str, Act | None] = {"invariance": stays}
    if d is None or h.ndim < 2 or h.shape[-1] != d:
        return laws
    laws["vector"] = partial(turned_vectors, points)
    laws["point"] = partial(_shifted, points)
    if h.ndim >= 3 and h.shape[-2] == d:
        laws["tensor"] = partial(_turned_twice, points)
    return laws


def turned_vectors(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Return vectors along the last axis of (N, ..., D), turned by the linear part of the group."""
    rows = h.reshape(len(h), -1, h.shape[-1])
    with exact_products(rows):
        turned = rows @ linear_part(points, element, rows).mT
    return turned.reshape(h.shape)


def _shifted(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Return points along the last axis of (N, ..., D), moved."""
    return points(element, h.reshape(len(h), -1, h.shape[-1])).reshape(h.shape)


def _turned_twice(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Return matrices along the last two axes of (N, ..., D, D), A M A'."""
    turned = turned_vectors(points, element, h)
    return turned_vectors(points, element, turned.transpose(-1, -2)).transpose(-1, -2)


def _item_laws(action: PermutationAction, h: Tensor) -> dict[str, Act | None]:
    laws: dict[str, Act | None] = {"invariance": stays}
    n = action.group.n
    if h.ndim >= 2 and h.shape[1] == n:
        laws["permuted"] = PermutationAction(action.group, (1,))
    if h.ndim >= 3 and h.shape[1] == h.shape[2] == n:
        laws["permuted twice"] = PermutationAction(action.group, (1, 2))
    return laws
