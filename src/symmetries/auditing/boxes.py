"""Boxes of detectors: mapped back by a group of the plane, and matched."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.base import Action
from symmetries.actions.points import PointAction

SAME = 0.5  # intersection over union from which on two boxes are the same


def read_boxes(output: Any, count: int) -> list[Tensor]:  # noqa: ANN401 - what a detector gives
    """Boxes (K, >= 4) of each example as x1, y1, x2, y2 in pixels, y down.

    Args:
        output: a list of mappings with "boxes", as of torchvision; a list of arrays; or one tensor
            (N, K, >= 4), whose rows of zeros do not count.
        count: number of examples N.
    """
    remedy = "give boxes (x1, y1, x2, y2) in pixels: a list of N arrays (K, 4), or (N, K, 4)"
    if not isinstance(output, list | tuple | Tensor) or len(output) != count:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise invalid("model", f"boxes of {count} examples", got, remedy)
    found = []
    for one in output:
        boxes = one["boxes"] if isinstance(one, dict) and "boxes" in one else one
        boxes = torch.as_tensor(boxes).detach().double().cpu()
        if boxes.ndim != 2 or boxes.shape[1] < 4:
            raise invalid("model", "boxes (K, 4)", f"shape {tuple(boxes.shape)}", remedy)
        found.append(boxes[boxes[:, :4].abs().sum(1) > 0][:, :4])
    return found


def to_plane(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Points (..., 2) in pixels, y down, in the coordinates of images of (height, width)."""
    height, width = size
    half = max(size) / 2
    return torch.stack(
        ((points[..., 0] - width / 2) / half, (height / 2 - points[..., 1]) / half), -1
    )


def from_plane(points: Tensor, size: tuple[int, int]) -> Tensor:
    """The inverse of :func:`to_plane`."""
    height, width = size
    half = max(size) / 2
    return torch.stack((points[..., 0] * half + width / 2, height / 2 - points[..., 1] * half), -1)


def map_boxes(action: Action, element: Any, boxes: Tensor, size: tuple[int, int]) -> Tensor:  # noqa: ANN401
    """Boxes (K, 4) moved by one element: the boxes around their moved corners.

    Exact for quarter turns, flips, shifts and scalings; by other angles boxes become larger.
    """
    if len(boxes) == 0:
        return boxes
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(1, -1, 2)
    moved = PointAction(action.group)(element, to_plane(corners, size))
    corners = from_plane(moved, size).reshape(-1, 4, 2)
    return torch.cat((corners.amin(1), corners.amax(1)), 1)


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union (A, B) of boxes (A, 4) and (B, 4).

    Example:
        >>> overlaps(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2]])).tolist()
        [[0.3333333432674408]]
    """
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = (high - low).clamp_min(0).prod(-1)
    area_a, area_b = ((box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b))
    return inner / (area_a[:, None] + area_b[None] - inner).clamp_min(1e-12)


def match_boxes(a: Tensor, b: Tensor) -> tuple[float, float]:
    """Share of boxes that have a partner, and mean overlap of the pairs; each box is used once.

    The share is 2 pairs / (A + B), 1 if there are no boxes at all; pairs are made from the largest
    overlap on, down to 0.5. The overlap without any pair is 0, or 1 if there are no boxes.
    """
    if len(a) + len(b) == 0:
        return 1.0, 1.0
    if len(a) == 0 or len(b) == 0:
        return 0.0, 0.0
    left = overlaps(a, b)
    pairs = []
    while True:
        best = int(left.argmax())
        row, column = divmod(best, left.shape[1])
        value = float(left[row, column])
        if value < SAME:
            break
        pairs.append(value)
        left[row], left[:, column] = -1.0, -1.0
    mean = sum(pairs) / len(pairs) if pairs else 0.0
    return 2 * len(pairs) / (len(a) + len(b)), mean


def kept_in_frame(boxes: Tensor, action: Action, element: Any, size: tuple[int, int]) -> Tensor:  # noqa: ANN401
    """The boxes whose whole stays inside of the frame when it is moved."""
    if len(boxes) == 0:
        return boxes
    moved = map_boxes(action, element, boxes, size)
    inside = (moved[:, :2] >= -0.5).all(1)
    inside &= (moved[:, 2] <= size[1] + 0.5) & (moved[:, 3] <= size[0] + 0.5)
    return boxes[inside]
