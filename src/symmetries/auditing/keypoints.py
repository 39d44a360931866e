"""Positions that a model gives: keypoints in images, in pixels, and points of space."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.auditing.boxes import from_plane, to_plane
from symmetries.auditing.elements import Moves, positions_only

Errors = dict[str, Tensor]


def point_errors(moves: Moves, element: Any, still: Tensor, moved: Tensor, x: Tensor) -> Errors:  # noqa: ANN401
    """Distances (N,) of positions from where they should have moved: mean, largest, relative.

    Keypoints of images are (x, y) in pixels, y down, and (0, 0) is the centre of the first pixel.
    Those that leave the frame do not count, unless all of an example do; "error_of_side" is the
    share of the longer side. Other points are compared as they are, relative to their distance from
    their mean.

    Args:
        moves: the elements.
        element: one of them.
        still: positions (N, ..., D) for inputs as they are.
        moved: the same for moved inputs.
        x: the inputs.
    """
    return _distances(moved_points(moves, element, still, x), moved, moves, x)


def points_alone(moves: Moves, _: Any, still: Tensor, again: Tensor, x: Tensor) -> Errors:  # noqa: ANN401
    """Return the distances (N,) of positions from those of inputs moved there and back."""
    return _distances(still, again, moves, x)


def moved_points(moves: Moves, element: Any, points: Tensor, x: Tensor) -> Tensor:  # noqa: ANN401
    """Where positions (N, ..., D) go when the inputs are moved."""
    action, part = positions_only(moves.action, element)
    if action is None:  # colours change, positions stay
        return points
    group = action.group
    if group.coordinates is None or points.shape[-1] != group.coordinates:
        got = f"shape {tuple(points.shape)} under {moves.action.group!r}"
        remedy = "give a function act(element, output) that says how they move"
        raise invalid("output", f"points (N, ..., {group.coordinates or 'D'})", got, remedy)
    rows = points.reshape(len(points), -1, points.shape[-1])
    if isinstance(moves.action, ImageAction):
        size = (x.shape[-2], x.shape[-1])
        there = from_plane(PointAction(group)(part, to_plane(rows + 0.5, size)), size) - 0.5
    else:
        there = PointAction(group)(part, rows)
    return there.reshape(points.shape)


def _distances(expected: Tensor, found: Tensor, moves: Moves, x: Tensor) -> Errors:
    a, b = (v.double().reshape(len(v), -1, v.shape[-1]) for v in (expected, found))
    length = torch.linalg.vector_norm(a - b, dim=-1)
    if isinstance(moves.action, ImageAction):
        ends = torch.tensor([x.shape[-1], x.shape[-2]], dtype=a.dtype, device=a.device) - 0.5
        inside = ((a >= -0.5) & (a <= ends)).all(-1)
        inside |= ~inside.any(1, keepdim=True)
        mean = (length * inside).sum(1) / inside.sum(1)
        of_side = mean / max(x.shape[-2:])
        largest = (length * inside).amax(1)
        return {"absolute_error": mean, "largest_error": largest, "error_of_side": of_side}
    mean, largest = length.mean(1), length.amax(1)
    away = torch.linalg.vector_norm(a - a.mean(1, keepdim=True), dim=-1).mean(1)
    size = torch.where(away > 0, away, torch.linalg.vector_norm(a, dim=-1).mean(1))
    relative = mean / size.clamp_min(torch.finfo(a.dtype).tiny)
    return {"absolute_error": mean, "largest_error": largest, "relative_error": relative}
