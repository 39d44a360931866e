"""How a group may act on the output of a layer: maps, poses, vectors, points, tensors, items."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from symmetries._validation.placement import exact_products
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.items import PermutationAction
from symmetries.actions.nodes import NodeAction, linear_part
from symmetries.actions.points import PointAction
from symmetries.actions.volumes import VolumeAction
from symmetries.auditing.elements import Moves
from symmetries.groups.colour import Colour
from symmetries.groups.finite import FiniteGroup

Act = Callable[[Any, Tensor], Tensor]

CLEARLY = 0.8  # another law than the first is chosen if its error is smaller by this factor


def layer_laws(moves: Moves, output: Tensor) -> dict[str, Act | None]:
    """Return how the group may act on an output, by law, the default first; None if it cannot.

    - Images and volumes: feature maps (N, C, H, W) and (N, C, D, H, W) move like them, vectors stay
      ("invariance"), and channels that stand for the elements of a finite group change places
      ("regular").
    - Points: outputs stay, or turn along their last axis ("vector"), move with the points
      ("point"), or turn from both sides ("tensor"), where their shape permits it.
    - Permuted items: outputs stay, or change places with the items ("permuted").
    """
    action = moves.action
    if isinstance(action, PointAction | NodeAction):
        return _point_laws(action, output)
    if isinstance(action, PermutationAction):
        return _item_laws(action, output)
    spatial = isinstance(action, ImageAction)
    order = action.group.order if isinstance(action.group, FiniteGroup) else 0
    if output.ndim in (3, 5) and spatial and output.shape[2] == order:
        return {"regular": partial(_regular, moves)}
    laws: dict[str, Act | None] = {"equivariance": None}
    if output.ndim == 2 or (output.ndim == 4 and isinstance(action.group, Colour)):
        laws = {"invariance": stays}
    elif (output.ndim == 4 and spatial) or (output.ndim == 5 and isinstance(action, VolumeAction)):
        laws = {"equivariance": moves.place}
    if spatial and order > 1 and output.ndim in (2, 4) and output.shape[1] % order == 0:
        laws["regular"] = partial(_regular, moves)
    return laws


def chosen_law(errors: Mapping[str, float]) -> str:
    """The first law, or the one with the smallest error if that is clearly smaller.

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
    """How the inverse of an element acts by a law."""
    if act == moves.place:
        return moves.back
    return lambda element, h: act(moves.inverse(element), h)


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
    laws["vector"] = partial(_turned, points)
    laws["point"] = partial(_shifted, points)
    if h.ndim >= 3 and h.shape[-2] == d:
        laws["tensor"] = partial(_turned_twice, points)
    return laws


def _turned(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Vectors along the last axis of (N, ..., D), turned."""
    rows = h.reshape(len(h), -1, h.shape[-1])
    with exact_products(rows):
        turned = rows @ linear_part(points, element, rows).mT
    return turned.reshape(h.shape)


def _shifted(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Points along the last axis of (N, ..., D), moved."""
    return points(element, h.reshape(len(h), -1, h.shape[-1])).reshape(h.shape)


def _turned_twice(points: PointAction, element: Any, h: Tensor) -> Tensor:  # noqa: ANN401
    """Matrices along the last two axes of (N, ..., D, D), A M A'."""
    turned = _turned(points, element, h)
    return _turned(points, element, turned.transpose(-1, -2)).transpose(-1, -2)


def _item_laws(action: PermutationAction, h: Tensor) -> dict[str, Act | None]:
    laws: dict[str, Act | None] = {"invariance": stays}
    n = action.group.n
    if h.ndim >= 2 and h.shape[1] == n:
        laws["permuted"] = PermutationAction(action.group, (1,))
    if h.ndim >= 3 and h.shape[1] == h.shape[2] == n:
        laws["permuted twice"] = PermutationAction(action.group, (1, 2))
    return laws
