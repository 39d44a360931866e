"""The action of a learner on images: as given, or made from a group or its name."""

from typing import Any

from symmetries._validation.checks import invalid
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.groups.base import Group
from symmetries.groups.names import as_group
from symmetries.ops.warp import Interpolation


def as_image_action(
    action: Action | Group[Any] | str,
    *,
    interpolation: Interpolation = "bilinear",
    fill: float | None = None,
) -> ImageAction:
    """Return the action on images, made from a group or its name if no action is given.

    Args:
        action: an :class:`ImageAction`, a group that acts on images, or its name.
        interpolation: of the action that is made; an action that is given has its own.
        fill: value of the background, likewise; None is 0.

    Example:
        >>> as_image_action("rotation", fill=0.5).fill
        0.5
        >>> as_image_action(as_image_action("c4")).group
        Cyclic(n=4)
    """
    if not isinstance(action, Action):
        group = as_group(action)
        return ImageAction(group, interpolation=interpolation, fill=0.0 if fill is None else fill)
    if not isinstance(action, ImageAction):
        remedy = "networks of this learner read images: give ImageAction(group), or a group"
        raise invalid("action", "an action on images", type(action).__name__, remedy)
    if fill is not None and fill != action.fill:
        remedy = "leave it out, or give the group instead of the action"
        raise invalid("fill", f"{action.fill}, as in the action", fill, remedy)
    return action
