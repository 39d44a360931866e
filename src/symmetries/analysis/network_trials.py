"""One training of a small network: its pictures, how these are moved, and all random numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.nn.named_networks import named_network
from symmetries.training.step import mix

LOOKED_AT = (512, 8192)  # pictures at once, on a processor and on a GPU
# How often a training sees each picture: where that is seldom, moves that help seem to hurt.
SEEN = 60
LONGER = 4  # times the usual steps, at most


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

    def long_enough(self, count: int) -> "Size":
        """The same with more steps, where so many pictures would be seen too seldom."""
        needed = math.ceil(SEEN * self.trained_on(count) / self.batch)
        return replace(self, steps=min(max(self.steps, needed), LONGER * self.steps))

    def seen(self, count: int) -> float:
        """How often a training sees each of its share of so many pictures."""
        return self.steps * self.batch / self.trained_on(count)

    def trained_on(self, count: int) -> float:
        """How many of so many pictures are left where a fold is held out."""
        return count * (self.folds - 1) / self.folds


@dataclass(frozen=True)
class Change:
    """How pictures are moved.

    Args:
        draw: parameters (N, P) for N pictures, by a generator on the CPU.
        move: pictures (N, C, H, W) by parameters (N, P).
    """

    draw: Callable[[int, torch.Generator], Tensor]
    move: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Trial:
    """One network to train.

    Args:
        images: (N, C, H, W), on the device to train on.
        labels: (N,) on the CPU.
        laws: by which pictures of each class are moved.
        fill: value around moved pictures; None reflects them.
        size: how long.
        seed: of weights, order and draws: with the same seed networks see the same pictures in the
            same order, whatever the laws.
        change: how pictures are moved instead; None is by the laws.
    """

    images: Tensor
    labels: Tensor
    laws: list[Law]
    fill: float | None
    size: Size
    seed: int
    change: Change | None = None

    @property
    def still(self) -> bool:
        """Whether no picture is moved."""
        return self.change is None and all(not law.moves() for law in self.laws)

    def order(self) -> tuple[Tensor, Tensor]:
        """Draw pictures (steps, batch) of all steps, and parameters (steps, batch, P) of moves."""
        generator = torch.Generator().manual_seed(mix(self.seed, 81) % 2**31)
        shape = (self.size.steps, self.size.batch)
        rows = torch.randint(len(self.images), shape, generator=generator)
        if self.change is None:
            drawn = draw(self.laws, self.labels[rows.flatten()], generator)
        else:
            drawn = self.change.draw(rows.numel(), generator)
        return rows, drawn.unflatten(0, shape)

    def moved(self, x: Tensor, parameters: Tensor) -> Tensor:
        """Move pictures (N, C, H, W) by parameters (N, P)."""
        if self.change is None:
            return moved(x, parameters, self.fill)
        return self.change.move(x, parameters)

    def network(self) -> torch.nn.Module:
        """The network with its first weights, on the device."""
        shape = (self.images.shape[1], self.images.shape[2], self.images.shape[3])
        seed = mix(self.seed, 82) % 2**31
        net = named_network(self.size.network, shape, len(self.laws), seed)
        return net.to(self.images.device).train()


def one_cycle(steps: int, most: float = 4e-3) -> list[float]:
    """Learning rates that rise for a fifth of the steps and fall to nothing, by half cosines."""
    top = max(1, steps // 5)
    up = [0.04 + 0.96 * (1 - math.cos(math.pi * t / top)) / 2 for t in range(top)]
    down = [(1 + math.cos(math.pi * t / (steps - top))) / 2 for t in range(steps - top)]
    return [most * rate for rate in up + down]
