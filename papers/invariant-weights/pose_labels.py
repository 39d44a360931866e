"""Tasks whose labels say how invariant a classifier may be: sectors of turns, and six or nine."""

import math

import torch

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
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
    """
    upright = data.images[data.labels == POINTER].repeat(copies, 1, 1, 1)
    turns = torch.rand(len(upright), 1, generator=torch.Generator().manual_seed(0))
    group = Affine2("rotation")
    turned = ImageAction(group, fill=0.0)(group.exp(2 * math.pi * turns), upright)
    labels = (sectors * turns[:, 0]).long().clamp(0, sectors - 1)
    names = tuple(f"sector {i}" for i in range(sectors))
    return ImageSet(turned, labels, f"{data.name}-{sectors}-sectors", names)


def six_or_nine(data: ImageSet) -> ImageSet:
    """Upright sixes and nines, which half a turn exchanges; the label is which."""
    kept = (data.labels == 6) | (data.labels == 9)
    labels = (data.labels[kept] == 9).long()
    return ImageSet(data.images[kept], labels, f"{data.name}-6-9", ("6", "9"))
