"""Positions that a model gives: boxes of detectors, keypoints in images, points of space.

Boxes are mapped back by a group of the plane and matched; the distances of points are measured.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.auditing.elements import Moves, positions_only

SAME = 0.5  # intersection over union from which on two boxes are the same
Errors = dict[str, Tensor]


def read_boxes(output: Any, count: int) -> list[Tensor]:  # noqa: ANN401 - what a detector gives
    """Boxes (K, 4) of each example as x1, y1, x2, y2 in pixels, y down; (K, 5) with class numbers.

    Args:
        output: a list of mappings with "boxes" and, if classes count, "labels", as of torchvision;
            a list of arrays (K, >= 4); or one tensor (N, K, >= 4), whose rows of zeros do not
            count. Further columns of arrays are not read.
        count: number of examples N.
    """
    remedy = "give boxes (x1, y1, x2, y2) in pixels: a list of N arrays (K, 4), or (N, K, 4)"
    if not isinstance(output, list | tuple | Tensor) or len(output) != count:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise invalid("model", f"boxes of {count} examples", got, remedy)
    found = []
    for one in output:
        known = one if isinstance(one, Mapping) and "boxes" in one else {"boxes": one}
        boxes = torch.as_tensor(known["boxes"]).detach().double().cpu()
        if boxes.ndim != 2 or boxes.shape[1] < 4:
            raise invalid("model", "boxes (K, 4)", f"shape {tuple(boxes.shape)}", remedy)
        boxes = boxes[:, :4]
        if "labels" in known:
            labels = torch.as_tensor(known["labels"]).detach().double().cpu()
            if labels.shape != boxes.shape[:1]:
                got = f"labels of shape {tuple(labels.shape)} for {len(boxes)} boxes"
                raise invalid("model", "one label for each box", got, "add the others")
            boxes = torch.cat((boxes, labels[:, None]), 1)
        found.append(boxes[boxes[:, :4].abs().sum(1) > 0])
    if len({boxes.shape[1] for boxes in found}) > 1:
        got = "labels for some examples only"
        raise invalid("model", "labels for all examples, or for none", got, "add the others")
    return found


def to_plane(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Return points (..., 2) in pixels, y down, in the coordinates of images of (height, width)."""
    height, width = size
    half = max(size) / 2
    return torch.stack(
        ((points[..., 0] - width / 2) / half, (height / 2 - points[..., 1]) / half), -1
    )


def from_plane(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the inverse of :func:`to_plane`."""
    height, width = size
    half = max(size) / 2
    return torch.stack((points[..., 0] * half + width / 2, height / 2 - points[..., 1] * half), -1)


def map_boxes(action: Action, element: Any, boxes: Tensor, size: tuple[int, int]) -> Tensor:  # noqa: ANN401
    """Return boxes (K, >= 4) moved by one element: the boxes around their moved corners.

    Exact for quarter turns, flips, shifts and scalings; by other angles boxes become larger.
    """
    if len(boxes) == 0:
        return boxes
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(1, -1, 2)
    moved = PointAction(action.group)(element, to_plane(corners, size))
    corners = from_plane(moved, size).reshape(-1, 4, 2)
    return torch.cat((corners.amin(1), corners.amax(1), boxes[:, 4:]), 1)


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union (A, B) of boxes (A, 4) and (B, 4).

    Example:
        >>> overlaps(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2]])).tolist()
        [[0.3333333432674408]]
    """
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = (high - low).clamp_min(0).prod(-1)
    area_a, area_b = ((box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b))
    return inner / (area_a[:, None] + area_b[None] - inner).clamp_min(1e-12)


def match_boxes(a: Tensor, b: Tensor) -> dict[str, float]:
    """Return how well boxes (A, 4) or (A, 5) with labels fit others; each box is used once.

    Pairs overlap by at least 0.5 and are made from the largest overlap on, those with the same
    label first. "matched" is 2 pairs / (A + B), "overlap" the mean of the pairs, and "agreement",
    if there are labels, counts the pairs with the same label only. Without any pair they are 0, or
    1 if there are no boxes.
    """
    names = ("matched", "overlap") + ("agreement",) * (a.shape[1] > 4)
    if len(a) == 0 or len(b) == 0:
        return dict.fromkeys(names, float(len(a) + len(b) == 0))
    overlap = overlaps(a[:, :4], b[:, :4])
    same = (a[:, None, 4:] == b[None, :, 4:]).all(-1)
    left = torch.where(overlap >= SAME, overlap + same, -1.0)
    pairs = []
    while float(left.max()) > 0:
        row, column = divmod(int(left.argmax()), left.shape[1])
        pairs.append((float(overlap[row, column]), bool(same[row, column])))
        left[row], left[:, column] = -1.0, -1.0
    both = (len(a) + len(b)) / 2
    mean = sum(value for value, _ in pairs) / max(1, len(pairs))
    values = (len(pairs) / both, mean, sum(equal for _, equal in pairs) / both)
    return dict(zip(names, values, strict=False))


def kept_in_frame(boxes: Tensor, action: Action, element: Any, size: tuple[int, int]) -> Tensor:  # noqa: ANN401
    """Return the boxes whose whole stays inside of the frame when it is moved."""
    if len(boxes) == 0:
        return boxes
    moved = map_boxes(action, element, boxes, size)
    inside = (moved[:, :2] >= -0.5).all(1)
    inside &= (moved[:, 2] <= size[1] + 0.5) & (moved[:, 3] <= size[0] + 0.5)
    return boxes[inside]


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
    """Return where positions (N, ..., D) go when the inputs are moved."""
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
