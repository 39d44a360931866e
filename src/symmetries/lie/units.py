"""Units of data: rows that depend on each other, which are split and resampled as a whole.

And other points where violations of a symmetry are looked for: around the data, and farther out.
"""

import torch
from torch import Tensor

from symmetries.lie.pictures import Equations

PointSets = tuple[tuple[Tensor, Tensor], ...]
FARTHER = 1.1  # times as far from the centre
BLUR = 0.4  # standard deviations of the data that copies of it are moved by, at random
COPIES = 5  # of all data, and more of few rows:
DRAWN = 2000  # rows of copies, at least
LOOKED_AT = 20_000  # rows of data, and of copies, at most
BLOCKS = 30  # of each half of the data


def split_halves(units: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return indices of two halves of the data, drawn at random; rows of a unit stay together.

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
    """Return as many units as the rows have, drawn with replacement, as indices of their rows."""
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
    """Return rows of at most 30 blocks of whole units, at least two units in each."""
    _, number = units[half].unique_consecutive(return_inverse=True)  # rows of a unit are adjacent
    count = int(number[-1]) + 1 if len(half) else 0
    parts = min(BLOCKS, count // 2)
    return [half[number * parts // count == part] for part in range(parts)]


def by_unit(squares: tuple[Tensor, Tensor], units: Tensor) -> tuple[Tensor, Tensor]:
    """Return violations and denominators (n, k), summed over the rows of each unit."""
    found, number = units.unique(return_inverse=True)
    above, below = (s.new_zeros(len(found), s.shape[1]).index_add(0, number, s) for s in squares)
    return above, below


def around(points: Tensor, units: Tensor) -> PointSets:
    """Return sets of points around the data and farther out, and the units that they belong to.

    A sample has few points in the tails of its distribution, and a violation that grows there may
    have reached none. A function that is given can be asked about other points: the data, the data
    a tenth farther out, and copies of the data whose points are moved at random, and then towards
    the mean, so that covariances stay as they are.

    Args:
        points: coordinates (n, r) of unit covariance.
        units: that they belong to, (n,). Those of each set are its own.

    Example:
        >>> z = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> sets = around(z, torch.arange(500))
        >>> len(sets), len(sets[0][0])
        (7, 500)
        >>> bool((torch.cov(sets[-1][0].T) - torch.cov(z.T)).abs().max() < 0.2)
        True
    """
    some, named = (part[:: -(-len(points) // LOOKED_AT)] for part in (points, units))
    mean = some.mean(0)
    generator = torch.Generator().manual_seed(0)
    copies = max(1, min(max(COPIES, DRAWN // len(some)), LOOKED_AT // len(some)))
    parts = [some, FARTHER * some]
    for _ in range(copies):
        noise = torch.randn(some.shape, generator=generator, dtype=some.dtype)
        parts.append(mean + (some - mean + BLUR * noise) / (1 + BLUR**2) ** 0.5)
    return tuple((part, named) for part in parts)


def elsewhere(problem: Equations, sets: PointSets, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return squares of violations and denominators of fields over the units of each set of points.

    Functions may end where data does: sets at which one fails are left out.

    Args:
        problem: the equations.
        sets: points (n, r) and their units (n,).
        theta: coefficients (k, p) of the fields.
    """
    found = []
    for points, units in sets:
        try:
            found.append(by_unit(problem.violations(points, theta), units))
        except (ArithmeticError, IndexError, RuntimeError, ValueError):
            continue
    return found
