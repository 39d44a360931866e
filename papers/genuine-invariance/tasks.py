"""The data: Transforming-MNIST with the drift to Transforming-FMNIST, and a small stand-in."""

from collections.abc import Callable
from pathlib import Path

import torch
from fitting import Task
from torch import Tensor
from torch.nn import functional as F

from symmetries.data import digits, standardise, transforming
from symmetries.data.base import ImageSet
from symmetries.data.drifting import GROUPS, pair_by_label
from symmetries.learners.penalties import augment
from symmetries.nn.tied import pixel_permutations

SMALL = {"train": 800, "test": 500, "validation": 200}


def paper_task(
    group: str, folder: Path | None, device: torch.device, drifting: bool = True
) -> Task:
    """10,000 / 50,000 / 2,000 images of 36 x 36 pixels, nine classes.

    Without ``drifting`` the images drift to themselves, and MNIST alone is read.
    """

    def load(split: str) -> ImageSet:
        return transforming("mnist", group, split, folder)

    if not drifting:
        return _task(group, load, load("test").images, device)
    clothes = transforming("fashion-mnist", group, "test", folder)
    partners = pair_by_label(_labels(load("test")), _labels(clothes))
    return _task(group, load, clothes.images[partners], device)


def quick_task(group: str, device: torch.device) -> Task:
    """Digits of 8 x 8 pixels, padded to 12 x 12; they drift to their own negatives."""
    pool = [digits("train"), digits("test")]
    pool = [
        ImageSet(F.pad(part.images, (2, 2, 2, 2)), part.labels, part.name, part.class_names)
        for part in pool
    ]
    images = torch.cat([part.images for part in pool])
    labels = torch.cat([_labels(part) for part in pool])
    keep = labels < 9
    images, labels = images[keep], labels[keep]
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    starts = {"train": 0, "test": 800, "validation": 1300}

    def load(split: str) -> ImageSet:
        chosen = order[starts[split] : starts[split] + SMALL[split]]
        generator = torch.Generator().manual_seed(starts[split])
        moved = augment(images[chosen], GROUPS[group], generator=generator)
        return ImageSet(moved, labels[chosen], "digits")

    return _task(group, load, 1 - load("test").images, device)


def _task(group: str, load: Callable[[str], ImageSet], other: Tensor, device: torch.device) -> Task:
    train, validation, test = (load(split) for split in ("train", "validation", "test"))

    def ready(part: ImageSet) -> tuple[Tensor, Tensor]:
        return standardise(part.images, train.images).to(device), _labels(part).to(device)

    return Task(
        group=GROUPS[group],
        table=pixel_permutations(GROUPS[group], train.images.shape[1:]).to(device),
        train=ready(train),
        validation=ready(validation),
        test=ready(test),
        other=standardise(other, train.images).to(device),
        classes=9,
    )


def _labels(part: ImageSet) -> Tensor:
    if part.labels is None:
        raise ValueError(f"{part.name} has no labels")
    return part.labels
