"""Examples shown on pages: choice, size and names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from symmetries.data import ImageSet
from symmetries.groups import Cyclic, Dihedral, Flip, Group


def spread_indices(count: int, most: int) -> list[int]:
    """Return at most ``most`` positions spread evenly over ``count``.

    Example:
        >>> spread_indices(10, 4), spread_indices(3, 4)
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return [i * count // min(count, most) for i in range(min(count, most))]


def example_indices(images: ImageSet, count: int) -> list[int]:
    """The first images of ``count`` classes, several of each where there are fewer classes."""
    if images.labels is None:
        return list(range(min(count, len(images))))
    labels = images.labels.tolist()
    # From the end of the classes: for digits the last ones are less symmetric than 0 and 1.
    classes = sorted(set(labels))[-count:]
    each = max(1, count // len(classes))
    return [
        index
        for label in classes
        for index in [i for i, other in enumerate(labels) if other == label][:each]
    ]


def example_labels(images: ImageSet, indices: list[int]) -> list[str]:
    """Return a name for each example: its class, or its position in the set."""
    if images.labels is None:
        return [f"image {index}" for index in indices]
    labels = [int(images.labels[index]) for index in indices]
    if images.class_names is None:
        return [f"class {label}" for label in labels]
    return [images.class_names[label] for label in labels]


def element_labels(group: Group[Any]) -> list[str]:
    """Return names of the elements of a finite group: angles for rotations, flips, else numbers.

    Example:
        >>> element_labels(Cyclic(4)), element_labels(Dihedral(2))
        (['0°', '90°', '180°', '270°'], ['0°', '180°', 'flip', 'flip, 180°'])
    """
    if isinstance(group, Flip):
        return ["as it is", "flip"]
    if not isinstance(group, Cyclic | Dihedral):
        return [str(i) for i in range(group.order)] if group.finite else []
    angles = [f"{360 * i / group.n:g}°" for i in range(group.n)]
    if isinstance(group, Cyclic):
        return angles
    return [*angles, "flip", *(f"flip, {angle}" for angle in angles[1:])]


def for_display(images: Tensor, side: int = 48) -> Tensor:
    """Images (N, C, H, W) with ``side`` pixels on the longer side, in the first 3 channels or 1.

    An orbit is drawn at this resolution, so that small images look smooth and large ones do not
    make a heavy page. The numbers are computed on the images as they are.
    """
    factor = side / max(images.shape[-2:])
    size = [max(1, round(factor * length)) for length in images.shape[-2:]]
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1]
    return interpolate(images, size, mode="bicubic", antialias=factor < 1).clamp(0, 1)


def to_bytes(frames: Tensor) -> NDArray[np.uint8]:
    """Return pictures (..., C, H, W) in [0, 1] as bytes (..., H, W, C)."""
    return (frames.clamp(0, 1) * 255).round().byte().movedim(-3, -1).cpu().numpy()
