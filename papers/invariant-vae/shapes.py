"""Pictures of an L or a T, drawn at planted angles: small enough to learn from on a CPU."""

from collections.abc import Callable

import torch
from torch import Tensor

from symmetries.data import ImageSet

SIDE = 12
NAMES = ("L", "T")
Plant = Callable[[Tensor, torch.Generator], Tensor]


def shapes(count: int, plant: Plant, split: str) -> ImageSet:
    """As many of each, of varying length, with smooth edges.

    Args:
        count: how many.
        plant: kinds (N,) and a generator to angles (N,) in degrees.
        split: "train" or "test": which numbers are drawn.
    """
    generator = torch.Generator().manual_seed(0 if split == "train" else 1)
    kinds = torch.arange(count) % 2
    turn = torch.deg2rad(plant(kinds, generator))[:, None, None]
    length = 0.5 + 0.15 * torch.rand(count, 1, 1, generator=generator)
    axis = (torch.arange(SIDE) + 0.5) * 2 / SIDE - 1
    y, x = -axis[:, None], axis[None]
    u = torch.cos(turn) * x + torch.sin(turn) * y
    v = torch.cos(turn) * y - torch.sin(turn) * x
    stem = bar(u, v, 0.15, length)
    foot = bar(u - 0.25, v + length - 0.15, 0.4, 0.15)
    roof = bar(u, v - length + 0.15, 0.55, 0.15)
    is_t = (kinds == 1)[:, None, None]
    pictures = torch.maximum(stem, torch.where(is_t, roof, foot))
    return ImageSet(pictures[:, None], kinds, "shapes", NAMES)


def bar(a: Tensor, b: Tensor, half_a: float, half_b: Tensor | float) -> Tensor:
    """A rectangle with soft edges."""
    return torch.sigmoid(20 * (half_a - a.abs())) * torch.sigmoid(20 * (half_b - b.abs()))


def uniform(most: float) -> Plant:
    """Angles within +-most degrees."""
    return lambda kinds, generator: most * (2 * torch.rand(len(kinds), generator=generator) - 1)


def two_modes(kinds: Tensor, generator: torch.Generator) -> Tensor:
    """-60 or 60 degrees, give or take 10."""
    side = torch.rand(len(kinds), generator=generator) < 0.5
    return torch.where(side, -60.0, 60.0) + uniform(10.0)(kinds, generator)


def by_kind(kinds: Tensor, generator: torch.Generator) -> Tensor:
    """The L within +-10 degrees, the T within +-120."""
    return torch.where(kinds == 1, 12.0, 1.0) * uniform(10.0)(kinds, generator)
