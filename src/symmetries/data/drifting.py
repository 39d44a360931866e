"""Transforming-MNIST and Transforming-FMNIST, and the drift from one set to another.

Reference: Moskalev, Sepliarskaia, Bekkers, Smeulders 2023, "On genuine invariance learning without
weight-tying", section 4.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from symmetries._validation.checks import check_choice, check_number, invalid
from symmetries.actions.images import ImageAction
from symmetries.data.base import ImageSet, image_set
from symmetries.data.derived import Draws
from symmetries.data.idx import idx_set
from symmetries.groups.finite import Cyclic, CyclicShift, FiniteGroup

if TYPE_CHECKING:
    from symmetries.data.convert import Images

GROUPS: dict[str, FiniteGroup] = {"r4": Cyclic(4), "t3": CyclicShift("x", 3)}
COUNTS = {"train": 10_000, "test": 50_000, "validation": 2_000}
SIDE = 36
LEFT_OUT = 9
_CHUNK = 4096


def transforming(
    name: str, group: str, split: str = "train", folder: str | Path | None = None, seed: int = 0
) -> ImageSet:
    """Build Transforming-MNIST or -FMNIST: padded images, each moved by a fixed random element.

    Both published splits are pooled without the last class (the nine, which resembles a rotated
    six; the boots of Fashion-MNIST), and 62,000 images are divided into new splits. Elements act
    exactly, without interpolation. Pixels stay in [0, 1]; :func:`symmetries.data.standardise` gives
    the paper's zero mean and unit standard deviation.

    Args:
        name: "mnist" or "fashion-mnist".
        group: "r4", rotations by multiples of 90 degrees, or "t3", cyclic shifts along x by thirds.
        split: "train" (10,000), "test" (50,000) or "validation" (2,000).
        folder: as for :func:`symmetries.data.mnist`.
        seed: fixes the split and the elements.
    """
    check_choice(group, GROUPS, "group")
    check_choice(split, COUNTS, "split")
    parts = [idx_set(name, published, folder) for published in ("train", "test")]
    return transform_pool(parts, group, split, COUNTS, seed)


def transform_pool(
    parts: list[ImageSet], group: str, split: str, counts: dict[str, int], seed: int = 0
) -> ImageSet:
    """Pool, split, pad and transform images: see :func:`transforming`.

    Args:
        parts: labelled sets to pool; classes from 9 on are left out.
        group: "r4" or "t3".
        split: which of ``counts`` to return.
        counts: number of images in each split, in order.
        seed: fixes the split and the elements.
    """
    pool = [(part.images, part.labels) for part in parts if part.labels is not None]
    images = torch.cat([image[label < LEFT_OUT] for image, label in pool])
    labels = torch.cat([label[label < LEFT_OUT] for _, label in pool])
    total = sum(counts.values())
    if len(images) < total:
        got = f"{len(images)} images"
        raise invalid("parts", f"{total} images outside class {LEFT_OUT}", got, "use the full set")
    name = f"transforming-{parts[0].name}-{group}"
    order = Draws(seed, f"{parts[0].name}/transforming/split").permutation(len(images))
    before = list(counts)[: list(counts).index(split)]
    start = sum(counts[other] for other in before)
    chosen = torch.from_numpy(order[start : start + counts[split]])
    elements = Draws(seed, f"{name}/{split}").integers(len(chosen), GROUPS[group].order)
    moved = _transform(_padded(images[chosen]), GROUPS[group], torch.from_numpy(elements))
    names = parts[0].class_names
    return ImageSet(moved, labels[chosen], name, None if names is None else names[:LEFT_OUT])


def _padded(images: Tensor) -> Tensor:
    """Pad images with zeros to 36 x 36."""
    height, width = images.shape[-2:]
    if height > SIDE or width > SIDE:
        got = f"{height} x {width}"
        raise invalid("images", f"at most {SIDE} x {SIDE} pixels", got, "resize them")
    left, top = (SIDE - width) // 2, (SIDE - height) // 2
    return pad(images, (left, SIDE - width - left, top, SIDE - height - top))


def _transform(images: Tensor, group: FiniteGroup, elements: Tensor) -> Tensor:
    act = ImageAction(group)
    chunks = zip(elements.split(_CHUNK), images.split(_CHUNK), strict=True)
    return torch.cat([act(element, image) for element, image in chunks])


def pair_by_label(first: Tensor, second: Tensor) -> Tensor:
    """Return, for each label of ``first``, the position of an equal label in ``second``.

    The i-th occurrence of a label is paired with its i-th occurrence in ``second``, cyclically.

    Args:
        first: (N,) labels.
        second: (M,) labels.

    Returns:
        (N,) positions in ``second``.

    Example:
        >>> import torch
        >>> pair_by_label(torch.tensor([1, 0, 1, 1]), torch.tensor([0, 1, 1])).tolist()
        [1, 0, 2, 1]
    """
    places = torch.empty_like(first)
    for label in first.unique():
        there = (second == label).nonzero()[:, 0]
        if len(there) == 0:
            remedy = "both sets need the same classes"
            raise invalid("second", f"images labelled {int(label)}", "none", remedy)
        here = (first == label).nonzero()[:, 0]
        places[here] = there[torch.arange(len(here)) % len(there)]
    return places


def drift(first: "Images", second: "Images", beta: float) -> ImageSet:
    """Mix two sets: D(beta) = (1 - beta) D1 + beta D2, with images paired by label.

    All images of D1 are used in order, so D(0) is D1. Images of D1 share a partner if their label
    is more frequent in D1 than in D2.

    Args:
        first: D1, with labels.
        second: D2, with labels and images of the same shape.
        beta: degree of drift, 0 to 1.
    """
    first, second = image_set(first), image_set(second)
    check_number(beta, "beta", 0, 1)
    if not 0 <= beta <= 1:
        raise invalid("beta", "a number from 0 to 1", beta, "0 gives the first set, 1 the second")
    if first.labels is None or second.labels is None:
        remedy = "use labelled sets: images are paired by label"
        raise invalid("labels", "labels in both sets", "none", remedy)
    if first.images.shape[1:] != second.images.shape[1:]:
        shapes = [tuple(data.images.shape[1:]) for data in (first, second)]
        raise invalid("second", f"images of shape {shapes[0]}", shapes[1], "pad or resize them")
    partners = second.images[pair_by_label(first.labels, second.labels)]
    images = torch.lerp(first.images, partners, np.float32(beta).item()).clamp_(0, 1)
    return ImageSet(images, first.labels, f"drift-{beta:g}", first.class_names)
