"""Where violations of a symmetry are looked for besides the data: around it, and farther out."""

import torch
from torch import Tensor

from symmetries.lie.equations import Equations
from symmetries.lie.units import by_unit

PointSets = tuple[tuple[Tensor, Tensor], ...]
FARTHER = 1.1  # times as far from the centre
BLUR = 0.4  # standard deviations of the data that copies of it are moved by, at random
COPIES = 5  # of all data, and more of few rows:
DRAWN = 2000  # rows of copies, at least
LOOKED_AT = 20_000  # rows of data, and of copies, at most


def around(points: Tensor, units: Tensor) -> PointSets:
    """Sets of points around the data and farther out, and the units that they belong to.

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
    """Squares of violations and denominators of fields over the units of each set of points.

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
