"""From the widths of many pictures to one width with an interval, and what to call it."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.config import Reading
from symmetries.learners.orbit_posterior.reading import MASS

Verdict = Literal["absent", "partial", "full", "cannot be told"]
# Below these a width is called absent: objects and cameras tilt by themselves.
ABSENT_DEGREES = 24.0
ABSENT_SHIFT = 0.12  # half-images: 1.7 pixels of 28
ABSENT_LOG_FACTOR = math.log(1.15)
ABSENT_ELEMENTS = 1.3
FULL_SHARE = 0.9  # of what a uniform law has
FEWEST_FOR_FULL = 2000  # pictures: contents that occur once tell nothing of each other's poses
NARROW = 0.6  # of that: what poses given by a rule must be found as


@dataclass(frozen=True)
class Headline:
    """The width of the pictures whose pose can be told, in the parameter's own unit.

    Args:
        width: median over these pictures.
        low: end of its interval.
        high: end of its interval.
        told: (N,) which pictures.
        share: how many of all.
    """

    width: float
    low: float
    high: float
    told: Tensor
    share: float


def told(choosing: Tensor, rule: Reading, cell: float) -> Tensor:
    """Which pictures (N,) can be told, by the widths of the fit that chooses."""
    return choosing <= rule.ratio * choosing.quantile(rule.surest) + cell


def headline(
    choosing: Tensor, reading: Tensor, folds: Tensor, rule: Reading, cell: float, seed: int
) -> Headline:
    """Choose pictures by one fit, read their width from another, bootstrap both.

    Args:
        choosing: widths (N,) by fits that choose.
        reading: widths (N,) by the fits that have not seen the pictures.
        folds: (N,) the fold of each picture, and so the fit that reads it.
        rule: which pictures, and how often to resample.
        cell: length of a cell of the densities.
        seed: of the bootstrap.
    """
    chosen = told(choosing, rule, cell)
    generator = torch.Generator().manual_seed(seed)
    groups = [(folds == fold).nonzero()[:, 0] for fold in range(int(folds.max()) + 1)]
    groups = [group for group in groups if len(group)]
    drawn = []
    for _ in range(rule.resamples):
        fits = torch.randint(len(groups), (len(groups),), generator=generator)
        places = [groups[int(fit)] for fit in fits]
        rows = torch.cat([g[torch.randint(len(g), (len(g),), generator=generator)] for g in places])
        again = told(choosing[rows], rule, cell)
        drawn.append(float(reading[rows][again].median()))
    ends = torch.tensor(drawn).quantile(
        torch.tensor([(1 - rule.coverage) / 2, (1 + rule.coverage) / 2])
    )
    width = float(reading[chosen].median())
    low, high = min(width, float(ends[0])), max(width, float(ends[1]))
    return Headline(width, low, high, chosen, float(chosen.float().mean()))


def uniform_width(coordinate: Coordinate) -> float:
    """The width of the uniform law: nothing known, or everything allowed."""
    if coordinate.kind == "finite":
        return float(coordinate.size)
    return MASS * coordinate.span


def absent_below(coordinate: Coordinate) -> float:
    """The width below which a coordinate is called absent, in its own unit."""
    if coordinate.kind == "finite" or coordinate.parameter is None:
        return ABSENT_ELEMENTS
    unit = coordinate.parameter.unit
    return {
        "rad": math.radians(ABSENT_DEGREES),
        "half-image": ABSENT_SHIFT,
        "log-factor": ABSENT_LOG_FACTOR,
    }.get(unit, 0.1 * coordinate.span)


def verdict_of(coordinate: Coordinate, width: float, power: float | None) -> Verdict:
    """The verdict on a width in the coordinate's own unit.

    A law that looks uniform may be so because every pose occurs, or because the network cannot
    tell poses of such pictures apart. ``power`` is the width that was found when pictures were
    brought to poses that a rule gives; only if that was found narrow is the law called full. With
    fewer than 2,000 pictures it is not tried: few teach a rule, but not what contents look like.

    Args:
        coordinate: what it is the width of.
        width: of the pictures whose pose can be told.
        power: as said, or None where it was not tried.
    """
    uniform = uniform_width(coordinate)
    if width < absent_below(coordinate):
        return "absent"
    if width < FULL_SHARE * uniform:
        return "partial"
    if coordinate.kind == "line" or power is None:
        return "cannot be told"
    certain = 1.0 if coordinate.kind == "finite" else 0.0  # the width of a pose that is known
    found = (power - certain) / (uniform - certain) < NARROW
    return "full" if found else "cannot be told"
