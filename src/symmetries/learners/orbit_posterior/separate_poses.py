"""Poses that are a whole fraction of a turn apart: which subgroup of the rotations they make."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.calibrating import refined
from symmetries.learners.orbit_posterior.reading import Densities

ORDERS = tuple(range(2, 13))
NEAR = 0.25  # of the distance of two poses, to either side: what belongs to one of them
MOST = 0.85  # of the density that must belong to some pose
UNEVEN = (0.4, 2.0)  # times the even share: the least and the most that a pose may have


@dataclass(frozen=True)
class PoseSubgroup:
    """The subgroup of SO(2) or O(2) that the poses of pictures make.

    Args:
        name: "C4", "D4", "SO(2)" or "O(2)".
        distance: Wasserstein-1 distance, in degrees, between the poses, as they are seen, and the
            even law on the subgroup.
        alternative: the other cyclic group, of at most twelve rotations, or SO(2), that is nearest.
        alternative_distance: of that.
    """

    name: str
    distance: float
    alternative: str
    alternative_distance: float


def pose_order(density: Densities) -> int | None:
    """The number n of evenly likely poses, 360 / n degrees apart; None for all other laws.

    The density of a picture must lie near the n poses that follow from its own (within a quarter of
    their distance), and be divided between them evenly. The median over pictures counts.

    Args:
        density: of the moves of told pictures around a circle.

    Example:
        >>> from symmetries.groups.base import Parameter
        >>> from symmetries.learners.orbit_posterior.chart import Coordinate
        >>> turn = Coordinate("hue", "circle", 72, 3.1416, Parameter("hue", "rad", 3.1416))
        >>> quarters, even = torch.zeros(1, 72), torch.ones(1, 72) / 72
        >>> quarters[:, [0, 71, 17, 18, 35, 36, 53, 54]] = 1 / 8
        >>> pose_order(Densities(turn, quarters)), pose_order(Densities(turn, even))
        (4, None)
    """
    if density.coordinate.kind != "circle":
        return None
    for n in ORDERS:
        shares = shares_of_poses(density, n, NEAR)
        least, most = n * shares.amin(1).median(), n * shares.amax(1).median()
        if shares.sum(1).median() >= MOST and least >= UNEVEN[0] and most <= UNEVEN[1]:
            return n
    return None


def shares_of_poses(density: Densities, n: int, near: float = 0.5) -> Tensor:
    """How much of the density of each picture belongs to each of n poses, (N, n).

    Poses are 360 / n degrees apart, and the first is the picture as it is.

    Args:
        density: around a circle.
        n: number of poses.
        near: part of the distance of two poses, to either side, that belongs to one.
    """
    mass = refined(density)
    turn = n * ((torch.arange(mass.shape[1]) + 0.5) / mass.shape[1] - 0.5)
    nearest = turn.round()
    inside = mass * ((turn - nearest).abs() <= near)
    return mass.new_zeros(len(mass), n).index_add_(1, nearest.long() % n, inside)


def pose_subgroup(density: Densities, order: int | None, mirrored: bool) -> PoseSubgroup:
    """Name the subgroup that evenly likely rotations make, with its distance and a rival.

    Args:
        density: of the moves of told pictures around a circle.
        order: number of poses; None for all rotations.
        mirrored: whether mirror images are as likely.
    """
    mass = refined(density).mean(0)
    distances = {n: _distance(mass, n) for n in (None, 1, *ORDERS)}
    rival = min((n for n in distances if n != order), key=lambda n: distances[n])
    return PoseSubgroup(
        _name(order, mirrored), distances[order], _name(rival, mirrored), distances[rival]
    )


def _name(order: int | None, mirrored: bool) -> str:
    if order is None:
        return "O(2)" if mirrored else "SO(2)"
    return f"{'D' if mirrored else 'C'}{order}"


def _distance(mass: Tensor, order: int | None) -> float:
    """Wasserstein-1 distance in degrees of a density (cells,) around a circle from an even law."""
    cells = len(mass)
    even = torch.full_like(mass, 1 / cells)
    if order is not None:
        # Poses lie between two cells, which have half of their mass each.
        above = (torch.arange(order) * cells / order + cells / 2).round().long() % cells
        even = torch.zeros_like(mass)
        even[above], even[above - 1] = 0.5 / order, 0.5 / order
    ahead = (mass - even).cumsum(0)
    return float((ahead - ahead.median()).abs().sum()) * 360 / cells
