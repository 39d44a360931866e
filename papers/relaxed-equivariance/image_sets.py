"""The data of the runs: standardised images on the device, and the paper's augmentation."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.data import digits, load, mnist, upside_down_sixes
from symmetries.training import Step

Pair = tuple[Tensor, Tensor]


@lru_cache(maxsize=4)
def images_of(
    name: str, folder: str | None, validation: bool, device: str = "cpu"
) -> tuple[Pair, Pair]:
    """Training and evaluation images with their labels, standardised by channel.

    Args:
        name: of the set.
        folder: of the data files.
        validation: evaluate on the last tenth of the training images, and train on the others.
        device: where they stay for all runs.
    """
    (images, labels), test = (_split(name, split, folder) for split in ("train", "test"))
    if validation:
        cut = len(images) * 9 // 10
        test = (images[cut:], labels[cut:])
        images, labels = images[:cut], labels[:cut]
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)

    def ready(images: Tensor, labels: Tensor) -> Pair:
        return ((images - mean) / deviation).to(device), labels.to(device)

    return ready(images, labels), ready(*test)


def _split(name: str, split: str, folder: str | None) -> Pair:
    if name == "mnist6-180":
        data = upside_down_sixes(mnist(split, folder), split)
    elif name == "digits6-180":
        data = upside_down_sixes(digits(split), split, pairs=True)
    elif name in ("digit", "turn"):
        return _turned_digits(split, name)
    else:
        data = load(name, split, folder)
    if data.labels is None:
        raise SystemExit(f"{name} has no labels")
    if name == "sprites":  # small and few; is the sprite a large one?
        images = F.avg_pool2d(data.images[:800], 2)
        area = images.mean((1, 2, 3))
        return images, (area > area.median()).long()
    return data.images, data.labels


def _turned_digits(split: str, task: str) -> Pair:
    """Zeros to threes, turned by quarter turns: which digit (symmetric), or which turn (not)."""
    data = digits(split)
    if data.labels is None:
        raise SystemExit("digits have no labels")
    keep = data.labels < 4
    images, labels = data.images[keep], data.labels[keep]
    generator = torch.Generator().manual_seed(int(split == "test"))
    turns = torch.randint(4, (len(images),), generator=generator)
    pairs = zip(images, turns.tolist(), strict=True)
    turned = torch.stack([image.rot90(turn, (1, 2)) for image, turn in pairs])
    return turned, labels if task == "digit" else turns


def flip_and_crop(images: Tensor, step: Step) -> Tensor:
    """Left and right swapped in half of the images; each moved by up to four pixels."""
    n, _, height, width = images.shape
    draws = step.rand(n, 3)
    images = torch.where(draws[:, 0, None, None, None] < 0.5, images.flip(-1), images)
    start = (draws[:, 1:] * 9).long()
    rows = start[:, 0, None] + torch.arange(height, device=images.device)
    columns = start[:, 1, None] + torch.arange(width, device=images.device)
    sample = torch.arange(n, device=images.device)[:, None, None]
    cropped = F.pad(images, (4, 4, 4, 4))[sample, :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)
