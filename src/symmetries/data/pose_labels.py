"""Digits whose labels tell how far a classifier may be averaged over rotations."""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_whole, invalid
from symmetries.actions.images import ImageAction
from symmetries.data.base import ImageSet, check_set
from symmetries.groups.affine import Affine2

POINTER = 7  # a digit that looks like no turned copy of itself


def pose_sectors(data: ImageSet, sectors: int, copies: int = 1) -> ImageSet:
    """Sevens, each turned by any angle; the label is which of n equal sectors it points to.

    A classifier may be averaged over at most half a sector or so, 180 / n degrees, before it
    mistakes one for the next.

    Args:
        data: labelled digits.
        sectors: n.
        copies: how many times each image occurs, at an angle of its own.

    Example:
        >>> from symmetries.data.bundled import digits
        >>> pose_sectors(digits("train"), 3).labels.unique().tolist()
        [0, 1, 2]
    """
    check_set(data)
    check_whole(sectors, "sectors")
    check_whole(copies, "copies")
    upright = data.images[_labels(data) == POINTER].repeat(copies, 1, 1, 1)
    turns = torch.rand(len(upright), 1, generator=torch.Generator().manual_seed(0))
    group = Affine2("rotation")
    turned = ImageAction(group, fill=0.0)(group.exp(2 * math.pi * turns), upright)
    labels = (sectors * turns[:, 0]).long().clamp(0, sectors - 1)
    names = tuple(f"sector {i}" for i in range(sectors))
    return ImageSet(turned, labels, f"{data.name}-{sectors}-sectors", names)


def six_or_nine(data: ImageSet) -> ImageSet:
    """Upright sixes and nines, which half a turn exchanges; the label is which."""
    check_set(data)
    labels = _labels(data)
    kept = (labels == 6) | (labels == 9)
    return ImageSet(data.images[kept], (labels[kept] == 9).long(), f"{data.name}-6-9", ("6", "9"))


def _labels(data: ImageSet) -> Tensor:
    if data.labels is None or not bool((data.labels == POINTER).any()):
        raise invalid("data", "digits with labels", data.name, "use MNIST or digits")
    return data.labels
