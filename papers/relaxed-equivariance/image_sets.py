"""The data of the runs: standardised images on the device, and the paper's augmentation."""

import io
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from symmetries.data import digits, load, mnist, upside_down_sixes
from symmetries.training import Step

Pair = tuple[Tensor, Tensor]
PACKED = "-packed"  # of the name of a set: a second loss as large as that of the JPEG sheets
STEPS = ([6] * 64, [8] * 64)  # in which the sheets have brightness and colours


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
    if name.endswith(PACKED):
        images, labels = _split(name.removesuffix(PACKED), split, folder)
        return packed_again(images), labels
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


def packed_again(images: Tensor) -> Tensor:
    """Images (N, 3, H, W) through JPEG once more, with the steps of the sheets they came from.

    The blocks are moved by half of one, else it would lose next to nothing. What it costs in
    accuracy is an estimate of what the sheets have cost, which cannot be measured without the
    original files.
    """
    moved = torch.roll(images, (4, 4), (2, 3))
    count, _, height, width = images.shape
    strip = (255 * moved).round().byte().permute(0, 2, 3, 1).reshape(count * height, width, 3)
    parts = []
    for piece in strip.split(60_000 // height * height):  # JPEG has at most 65,500 rows
        file = io.BytesIO()
        settings = {"qtables": STEPS, "subsampling": 0}
        Image.fromarray(piece.numpy()).save(file, "JPEG", **settings)
        parts.append(torch.from_numpy(np.array(Image.open(file).convert("RGB"))))
    again = torch.cat(parts).reshape(count, height, width, 3).permute(0, 3, 1, 2)
    return torch.roll(again.to(images.dtype) / 255, (-4, -4), (2, 3))


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
