"""Small networks trained with and without an augmentation: what it brings on held-out pictures."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.nn.named_networks import named_network
from symmetries.training.step import mix, seeded

LARGEST = 32  # side to which larger pictures are shrunk


@dataclass(frozen=True)
class Size:
    """How long the small networks train, and how often.

    Args:
        steps: of each training.
        batch: pictures of a step.
        folds: held-out parts, each with its own training.
        network: its name.
    """

    steps: int
    batch: int
    folds: int
    network: str = "cnn"


SIZES = {"quick": Size(800, 64, 3), "default": Size(800, 128, 3, "resnet")}


def prepared(images: Tensor) -> Tensor:
    """Pictures that are small enough."""
    if max(images.shape[-2:]) <= LARGEST:
        return images
    size = [max(8, round(side * LARGEST / max(images.shape[-2:]))) for side in images.shape[-2:]]
    return F.interpolate(images, size, mode="bilinear", antialias=True)


def train(
    images: Tensor, labels: Tensor, classes: int, laws: list[Law], fill: float | None, size: Size,
    seed: int,
) -> torch.nn.Module:  # fmt: skip
    """A network trained on pictures (N, C, H, W) that are moved by the law of their class.

    With the same seed networks see the same pictures in the same order, whatever the laws.
    """
    generator = torch.Generator().manual_seed(mix(seed, 81) % 2**31)
    _, channels, height, width = images.shape
    with seeded(mix(seed, 82) % 2**31):
        net = named_network(size.network, (channels, height, width), classes).to(images.device)
    net.train()
    optimiser = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 4e-3, total_steps=size.steps, pct_start=0.2
    )
    still = all(not law.moves() for law in laws)
    for _ in range(size.steps):
        rows = torch.randint(len(images), (size.batch,), generator=generator)
        drawn = draw(laws, labels[rows], generator)
        x, y = images[rows.to(images.device)], labels[rows].to(images.device)
        loss = F.cross_entropy(net(x if still else moved(x, drawn, fill)), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return net.eval()


@torch.no_grad()
def right(net: torch.nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Whether each picture (N,) is answered right."""
    parts = [net(part).argmax(1) for part in images.split(512)]
    return (torch.cat(parts).cpu() == labels).double()


def held_out_scores(
    images: Tensor, labels: Tensor, classes: int, laws: list[Law], fill: float | None, size: Size,
    seed: int, test: list[Law],
) -> Tensor:  # fmt: skip
    """Scores (2, N) of all pictures, as they are and moved, each by a network that has not seen it.

    Args:
        images: (N, C, H, W), on the device to train on.
        labels: (N,) on the CPU.
        classes: their number.
        laws: one for each class.
        fill: value around moved pictures; None reflects them.
        size: of the trainings.
        seed: of folds, weights and draws.
        test: laws by which held-out pictures are moved.
    """
    scores = torch.zeros(2, len(images), dtype=torch.float64)
    for k, held in enumerate(folds(len(images), size.folds, seed)):
        inside, here = ~held, images.device
        net = train(
            images[inside.to(here)], labels[inside], classes, laws, fill, size, mix(seed, k)
        )
        x = images[held.to(here)]
        generator = torch.Generator().manual_seed(mix(seed, 84, k) % 2**31)
        away = moved(x, draw(test, labels[held], generator), fill)
        scores[:, held] = torch.stack([right(net, part, labels[held]) for part in (x, away)])
    return scores


def folds(count: int, number: int, seed: int) -> list[Tensor]:
    """Which of so many pictures (N,) belong to each held-out part."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, 83)))
    fold = torch.empty(count, dtype=torch.int64)
    fold[order] = torch.arange(count) % number
    return [fold == k for k in range(number)]


def unmoved_networks(
    images: Tensor, labels: Tensor, classes: int, size: Size, seed: int
) -> tuple[list[torch.nn.Module], list[Tensor], list[Tensor]]:
    """Networks trained without augmentation, and pictures and labels that each has not seen."""
    networks, pictures, truths = [], [], []
    for k, held in enumerate(folds(len(images), size.folds, seed)):
        here, laws = images.device, [Law()] * classes
        part = (images[(~held).to(here)], labels[~held], classes, laws, 0.0, size, mix(seed, k))
        networks.append(train(*part))
        pictures.append(images[held.to(here)])
        truths.append(labels[held])
    return networks, pictures, truths
