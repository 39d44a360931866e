"""The subgroup of the rotations that sets of points were moved by, with a distance and a rival."""

import math
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from symmetries._validation.checks import check_number, check_whole
from symmetries.groups.rotations import cross_matrix
from symmetries.lie.subgroups import (
    MOST_ELEMENTS,
    NEAR,
    TINY,
    angles,
    closed,
    consistent,
    modes,
    name_finite,
    relative_rotations,
)

FEWEST = 20  # pairs of copies
COMPARED = 400  # elements that distances are computed from
DRAWS = 40
SLACK = 1.2  # times the distance of two samples of the group itself
UNEVEN = 0.003  # probability that even draws are called uneven
HIGHEST = 6  # degree of characters: some is 1 on average for every closed subgroup of SO(3)


@dataclass(frozen=True)
class Subgroup:
    """A closed subgroup of SO(2), O(2) or SO(3): finite, about one axis, or all of it.

    Args:
        name: "C4", "D3", "T", "O", "I", "SO(2)", "O(2)" or "SO(3)".
        elements: of a finite group, (k, d, d); none for others.
        axis: of SO(2) in space, (3,).
        dim: number d of coordinates.
    """

    name: str
    elements: Tensor
    axis: Tensor | None
    dim: int

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Return elements (count, d, d) drawn evenly."""
        if len(self.elements):
            return self.elements[torch.randint(len(self.elements), (count,), generator=generator)]
        if self.axis is not None:
            angle = 2 * math.pi * torch.rand(count, 1, 1, generator=generator, dtype=torch.float64)
            about: Tensor = torch.linalg.matrix_exp(angle * cross_matrix(self.axis))
            return about
        normal = torch.randn(count, self.dim, self.dim, generator=generator, dtype=torch.float64)
        basis, upper = torch.linalg.qr(normal)
        turn: Tensor = basis * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]
        if self.name == "O(2)":
            return turn
        sign = torch.linalg.det(turn)[:, None, None]
        return torch.cat((turn[..., :-1], turn[..., -1:] * sign), -1)


@dataclass(frozen=True)
class SubgroupAnswer:
    """Which subgroup moves the data, and how well it explains it.

    Args:
        subgroup: the one that was found, or None.
        distance: Wasserstein-1 distance in radians between rotations of the data and draws from it.
        expected: the same between two draws of the subgroup, exceeded by one in twenty.
        alternative: name of the rival with the smallest distance.
        alternative_distance: of the rival.
        pairs: number of rotations that were seen.
        matched: share of the sets that have a copy.
        error: standard error of one rotation, in radians.
        reason: why there is no answer, or an empty string.
    """

    subgroup: Subgroup | None
    distance: float
    expected: float
    alternative: str
    alternative_distance: float
    pairs: int
    matched: float
    error: float
    reason: str = ""

    @property
    def answer(self) -> str:
        """The name of the subgroup, or that it cannot be told."""
        if self.subgroup is None or self.reason:
            return f"cannot be told: {self.reason}"
        return self.subgroup.name


def find_subgroup(
    points: Tensor, group: str = "so3", same: float = 0.1, seed: int = 0
) -> SubgroupAnswer:
    """Find the subgroup of rotations that moves sets of points.

    The data must hold copies: at least two sets of the same object, whose points correspond.
    Rotations between copies are compared with even draws from the subgroup; where they do not
    agree, as for angles of a limited range, there is no answer.

    Args:
        points: (n, p, d), moved about the origin.
        group: "so2", "o2" or "so3", in which the subgroup is.
        same: how far two copies may differ after the rotation, relative to their size.
        seed: of pairs and draws.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> one = torch.randn(4, 2, generator=generator).double()
        >>> turns = Subgroup("SO(2)", one[:0], None, 2).sample(80, generator)
        >>> find_subgroup(one @ turns.mT, "so2").answer
        'SO(2)'
    """
    check_number(same, "same", 0, 1)
    check_whole(seed, "seed", 0, 2**63 - 1)
    seen = relative_rotations(points, group, same, seed)
    elements, dim = seen.elements, points.shape[-1]
    if len(elements) < FEWEST:
        few = f"{len(elements)} pairs of copies, and at least {FEWEST} are needed"
        none = (None, math.nan, math.nan, "none", math.nan)
        return SubgroupAnswer(*none, len(elements), seen.matched, seen.error, few)
    generator = torch.Generator().manual_seed(seed)
    found, reason = _candidate(elements, seen.error, dim)
    rivals = _rivals(found, elements, dim)
    compared = elements[:COMPARED]
    distance = wasserstein(compared, found.sample(len(compared), generator))
    draws = [
        wasserstein(*(found.sample(len(compared), generator) for _ in range(2)))
        for _ in range(DRAWS)
    ]
    expected = sorted(draws)[round(0.95 * DRAWS) - 1]
    others = [
        (wasserstein(compared, rival.sample(len(compared), generator)), rival.name)
        for rival in rivals
    ]
    second = min(others, default=(math.nan, "none"))
    blur = 2 * seen.error if len(found.elements) else 0.0  # errors move even draws to even draws
    if not reason and (distance > SLACK * expected + blur + TINY or _uneven(elements, found)):
        reason = f"rotations are in {found.name}, but not spread evenly over it"
    numbers = (distance, expected, second[1], second[0], len(elements), seen.matched, seen.error)
    return SubgroupAnswer(found, *numbers, reason)


def _uneven(elements: Tensor, group: Subgroup) -> bool:
    """Whether the mean of a character of a continuous group stands out; False for finite ones.

    Characters, cos k t of rotations in the plane or about one axis by t, are 0 on average over the
    whole group. Over each of its closed subgroups some of them are not, and few elements show it.
    Low ones get most of the probability of an error: degree k has a share of about 1 / k^2.
    """
    if len(group.elements):
        return False
    turns = elements[torch.linalg.det(elements) > 0]
    angle = angles(turns, torch.eye(group.dim, dtype=turns.dtype)[None])
    if group.name == "SO(3)":
        degrees = torch.arange(1, HIGHEST + 1, dtype=angle.dtype)
        half = angle.clamp_min(TINY) / 2
        values, size = ((2 * degrees + 1) * half).sin() / half.sin(), 1.0
        shares = torch.full_like(degrees, 1 / HIGHEST)
    else:
        degrees = torch.arange(1, MOST_ELEMENTS + 1, dtype=angle.dtype)
        values, size = (degrees * angle).cos(), 0.5
        shares = 6 / (math.pi * degrees) ** 2
    errors = values.mean(0) * math.sqrt(len(turns) / size)
    return bool((torch.special.ndtr(-errors) < UNEVEN * shares).any())


def wasserstein(first: Tensor, second: Tensor) -> float:
    """Wasserstein-1 distance in radians between samples of rotations of equal size, (n, d, d)."""
    cost = angles(first, second).numpy()
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())


def _candidate(elements: Tensor, error: float, dim: int) -> tuple[Subgroup, str]:
    """Return the smallest subgroup that fits, and what speaks against it."""
    found = modes(elements, error)
    if len(found):
        if closed(found, error):
            group = consistent(found)
            name = name_finite(group)
            reason = f"{len(group)} rotations, which make no group with a name"
            return Subgroup(name, group, None, dim), "" if name[0] in "CDTOI" else reason
        reason = f"{len(found)} distinct rotations, which are not closed under composition"
        return _continuous(elements, error, dim), reason
    return _continuous(elements, error, dim), ""


def _continuous(elements: Tensor, error: float, dim: int) -> Subgroup:
    """Return all rotations of the plane, those about one axis of space, or all of space."""
    empty = elements[:0]
    if dim == 2:
        mirrored = bool((torch.linalg.det(elements) < 0).any())
        return Subgroup("O(2)" if mirrored else "SO(2)", empty, None, dim)
    moved = elements - torch.eye(dim, dtype=elements.dtype)
    values, axes = torch.linalg.eigh(torch.einsum("nab,nac->bc", moved, moved) / len(elements))
    if float(values[0].clamp_min(0).sqrt()) <= NEAR * max(error, TINY):
        return Subgroup("SO(2)", empty, axes[:, 0], dim)
    return Subgroup("SO(3)", empty, None, dim)


def _rivals(found: Subgroup, elements: Tensor, dim: int) -> list[Subgroup]:
    """Continuous groups, and cyclic subgroups of a finite one; finely divided axes of others."""
    empty = elements[:0]
    everything = Subgroup("SO(3)" if dim == 3 else "SO(2)", empty, None, dim)
    rivals = [everything] if found.name != everything.name else []
    if dim == 2 and found.name != "O(2)":
        rivals.append(Subgroup("O(2)", empty, None, dim))
    if len(found.elements):
        seen = {found.name}
        for element in found.elements:
            powers = [torch.eye(dim, dtype=element.dtype)]
            while len(powers) <= MOST_ELEMENTS and (
                len(powers) == 1 or float(angles(powers[-1][None], powers[0][None])) > 0.02
            ):
                powers.append(powers[-1] @ element)
            group = torch.stack(powers[:-1]) if len(powers) > 2 else powers[0][None]
            name = f"C{len(group)}"
            if name not in seen:
                seen.add(name)
                rivals.append(Subgroup(name, group, None, dim))
    elif dim == 3 and found.axis is None:
        axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        rivals.append(Subgroup("SO(2)", empty, axis, dim))
    else:
        steps = torch.arange(12, dtype=torch.float64) * math.pi / 6
        turn = torch.zeros(dim, dim, dtype=torch.float64)
        turn[0, 1], turn[1, 0] = -1, 1
        if found.axis is not None:
            turn = cross_matrix(found.axis)
        twelve = torch.linalg.matrix_exp(steps[:, None, None] * turn)
        rivals.append(Subgroup("C12", twelve, None, dim))
    return rivals
