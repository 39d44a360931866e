"""Units of data: rows that depend on each other, which are split and resampled as a whole."""

import torch
from torch import Tensor

BLOCKS = 30  # of each half of the data


def split_halves(units: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Indices of two halves of the data, drawn at random; rows of a unit stay together.

    Args:
        units: number of the unit (n,) that each row belongs to: itself, or its trajectory.
        seed: of the draw.
    """
    found, number = units.unique(return_inverse=True)
    place = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))[number]
    order = place.argsort(stable=True)
    first = int((place < len(found) // 2).sum())
    return order[:first], order[first:]


def resampled(units: Tensor, rows: Tensor, generator: torch.Generator) -> Tensor:
    """As many units as the rows have, drawn with replacement, as indices of their rows."""
    inside = units[rows]
    order = inside.argsort(stable=True)
    _, counts = inside.unique(return_counts=True)
    starts = counts.cumsum(0) - counts
    drawn = torch.randint(len(counts), (len(counts),), generator=generator)
    if int(counts.max()) == 1:
        return rows[order[drawn]]
    parts = [torch.arange(int(starts[i]), int(starts[i] + counts[i])) for i in drawn]
    return rows[order[torch.cat(parts)]]


def blocks(units: Tensor, half: Tensor) -> list[Tensor]:
    """Rows of at most 30 blocks of whole units, at least two units in each."""
    _, number = units[half].unique_consecutive(return_inverse=True)  # rows of a unit are adjacent
    count = int(number[-1]) + 1 if len(half) else 0
    parts = min(BLOCKS, count // 2)
    return [half[number * parts // count == part] for part in range(parts)]


def by_unit(squares: tuple[Tensor, Tensor], units: Tensor) -> tuple[Tensor, Tensor]:
    """Violations and denominators (n, k), summed over the rows of each unit."""
    found, number = units.unique(return_inverse=True)
    above, below = (s.new_zeros(len(found), s.shape[1]).index_add(0, number, s) for s in squares)
    return above, below
