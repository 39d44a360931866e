"""How many new images look like digits: those that a classifier of digits is sure of."""

import functools
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import sets
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import ImageSet
from symmetries.training import Step, TrainConfig, train

SURE = 0.9  # probability of a class
STEPS = 700
UPRIGHT = 45.0  # beyond it a 6 is a 9


def row_of(file: Path, arguments: Namespace) -> dict[str, Any]:
    """Shares of the new images of a file, and of test images, that a classifier is sure of.

    The classifier has learned from the training images of the same planted range. Nothing is said
    of ranges where a digit's name depends on how it is turned.
    """
    words = file.stem.split("-")
    joint = words[0] not in ("figure9", "samples")
    added = float(words[-1] if joint else words[3])
    arrays = np.load(file)
    if added > UPRIGHT or "new" not in arrays.files:
        return {}
    where = (added, arguments.data, arguments.source)
    model, test = classifier(*where, arguments.images, arguments.device)
    new = torch.from_numpy(arrays["new"])
    return {
        "kind": "joint" if joint else words[1],
        "of": words[0],
        "added": added,
        "new": len(new),
        "sure_of_new": sure(model, new),
        "sure_of_test": sure(model, test.images),
        "accuracy": accuracy(model, test),
    }


@functools.cache
def classifier(
    added: float, folder: str | None, source: str, images: int, device: str
) -> tuple[nn.Module, ImageSet]:
    """Two convolutions and two layers, trained on digits of a planted range; and test digits."""
    data = sets.load("train", added, folder, source, images)
    side = data.images.shape[-1]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (-(-side // 4)) ** 2, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    config = TrainConfig(
        steps=STEPS, batch_size=min(256, len(data)), lr=3e-3, device=device, progress=False
    )
    train(model, cross_entropy, (data.images, data.labels), config)
    return model.eval(), sets.load("test", added, folder, source, min(images, 3000))


def cross_entropy(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
    """Of labels."""
    del step
    return {"loss": F.cross_entropy(model(batch[0]), batch[1])}


@torch.no_grad()
def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """Logits (N, 10), on the CPU."""
    device = next(model.parameters()).device
    return torch.cat([model(part.to(device)).cpu() for part in images.split(1000)])


def sure(model: nn.Module, images: Tensor) -> float:
    """Share of images with a class of at least so much probability."""
    return float((outputs(model, images).softmax(1).amax(1) >= SURE).float().mean())


def accuracy(model: nn.Module, data: ImageSet) -> float:
    """Share of images whose class is found."""
    return float((outputs(model, data.images).argmax(1) == data.labels).float().mean())
