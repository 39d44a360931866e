"""The images of all experiments: digits and shapes with planted angles, smoothed alike.

Turning an image resamples it, which smooths it, and a Gaussian likelihood rewards smooth images.
So every digit is turned twice, whatever is planted: by an angle from the whole circle, and by the
planted angle less that one, both times by cubic B-splines. Sets that differ in their planted range
then differ in nothing else.
"""

import functools
import math
from collections.abc import Callable

import shapes
import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet, digits, mnist
from symmetries.groups.affine import Affine2

Plant = Callable[[Tensor, torch.Generator], Tensor]
ROTATION = Affine2("rotation")
CHUNK = 5000


@functools.cache
def load(
    split: str, added: float | Plant, folder: str | None, source: str, images: int, seed: int = 0
) -> ImageSet:
    """The first so many images, each turned by its own fixed angle.

    Args:
        split: "train" or "test".
        added: angles are uniform within +-added degrees; or labels (N,) and a generator to angles.
        folder: of the data sets.
        source: "mnist"; "mnist-14", at half the resolution; "digits"; "shapes"; "mnist-once",
            turned once, and not at all without added rotation; or "mnist-alike", where every image
            is also shifted by up to half a pixel, in the second resampling. (If an image comes
            back to where it was, so does something of what the first turn has smoothed.)
        images: how many.
        seed: fixes the angles.
    """
    plant = added if callable(added) else shapes.uniform(added)
    if source == "shapes":
        return shapes.shapes(images, plant, split)
    data = digits(split) if source == "digits" else mnist(split, folder)
    data = data.subset(torch.arange(min(images, len(data))))
    generator = torch.Generator().manual_seed(2 * seed + (split == "test"))
    angles = torch.deg2rad(plant(data.labels, generator))
    if source == "mnist-once":
        moved = turned(data.images, angles) if added else data.images
    else:
        first = math.pi * (2 * torch.rand(len(data), generator=generator) - 1)
        shifts = between_pixels(data.images, generator) if source == "mnist-alike" else None
        moved = turned(turned(data.images, first), angles - first, shifts)
    if source == "mnist-14":
        moved = torch.nn.functional.avg_pool2d(moved, 2)
    return ImageSet(moved, data.labels, data.name, data.class_names)


def between_pixels(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shifts (N, 2) by up to half a pixel each way, in half-image units."""
    return (torch.rand(len(images), 2, generator=generator) - 0.5) * (2 / images.shape[-1])


def turned(images: Tensor, angles: Tensor, shifts: Tensor | None = None) -> Tensor:
    """Images turned by angles (N,) in radians, by cubic B-splines, in [0, 1].

    Then shifted, in the same resampling, by (N, 2) in half-image units.
    """
    act = ImageAction(ROTATION, interpolation="bspline")
    device = "cuda" if torch.cuda.is_available() else images.device
    elements = ROTATION.exp(angles[:, None])
    if shifts is not None:
        elements = elements + F.pad(shifts[..., None], (2, 0, 0, 1))
    parts = zip(images.split(CHUNK), elements.split(CHUNK), strict=True)
    moved = [act(element.to(device), x.to(device)) for x, element in parts]
    return torch.cat(moved).clamp(0, 1).cpu()


def roughness(images: Tensor) -> float:
    """Mean square difference of neighbouring pixels."""
    across = (images[..., 1:] - images[..., :-1]).square().mean()
    down = (images[..., 1:, :] - images[..., :-1, :]).square().mean()
    return float(across + down) / 2


def two_modes(labels: Tensor, generator: torch.Generator) -> Tensor:
    """-60 or 60 degrees, give or take 10, whatever the label."""
    return shapes.two_modes(labels, generator)


def by_label(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Digits 0 to 4 within +-10 degrees, 5 to 9 within +-120."""
    return torch.where(labels > 4, 12.0, 1.0) * shapes.uniform(10.0)(labels, generator)
