"""From the widths of many pictures to one width with an interval, and what to call it."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.calibrating import Sets
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.config import Reading
from symmetries.learners.orbit_posterior.reading import MASS

Verdict = Literal["absent", "partial", "full", "cannot be told"]
# Below the first number a width is called absent. Up to the second it may be the network's own
# error, or natural: objects and cameras tilt by themselves.
SMALL = {"rad": (math.radians(10), math.radians(14)), "half-image": (0.05, 0.07)}
SMALL_LOG_FACTOR = (math.log(1.08), math.log(1.12))
ABSENT_ELEMENTS = 1.3
FULL_SHARE = 0.9  # of what a uniform law has
WIDE_SHARE = 0.55  # of that: angles that are so wide need the test of power, too
SEEN = 0.75  # of a width: what a law half as wide must be found as
LOOSE = 1.35  # ratio of a full circle to the lower end of an interval: beyond it nothing is full
FARTHEST = 1.18  # ratio of a width to either end of its interval: beyond it cannot be told
LOOSE_INTERVAL = "its interval is too wide; give more pictures, or train longer"
SMALL_WIDTH = "so small a width may be natural variation, or the network's own error"
CHANCE = 1.645  # standard errors of what fewer pictures change
# Of the width, what the development set of planted truths shows beyond chance: to either side, and
# below it, as errors of poses add to widths.
SYSTEMATIC, ADDED = 0.08, 0.03


@dataclass(frozen=True)
class LearningCurve:
    """How widths depend on the number of pictures that a fit learns from.

    Args:
        share: of the pictures that the smaller of two fits learns from.
        repeats: whether contents on a plain background occur again and again. Then a fit's errors
            of poses fall like n^-1/2 and add to widths by their squares. Photographs differ, and a
            width itself falls like n^-1/2 while a network learns what such pictures look like.

    Example:
        >>> round(LearningCurve(0.5, repeats=True).limit(5.0, 5.5), 2)
        4.44
        >>> round(LearningCurve(0.5, repeats=False).limit(5.0, 5.5), 2)
        3.79
    """

    share: float
    repeats: bool

    def limit(self, width: float, smaller: float) -> float:
        """The width that any number of further pictures would give.

        Args:
            width: by the fit to all pictures.
            smaller: by the fit to a share of them.
        """
        if self.repeats:
            rest = self.share / (1 - self.share)
            return math.sqrt(max(0.0, width**2 + rest * (width**2 - smaller**2)))
        return max(0.0, width + (width - smaller) / (1 / math.sqrt(self.share) - 1))


@dataclass(frozen=True)
class Headline:
    """The width of the pictures whose pose can be told, in the parameter's own unit.

    Args:
        width: median over these pictures of the calibrated widths.
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
    choosing: Tensor,
    reading: Sets,
    fewer: Sets,
    folds: Tensor,
    rule: Reading,
    cell: float,
    seed: int,
    curve: LearningCurve,
) -> Headline:
    """Choose pictures by one fit, read their calibrated width from another, bootstrap both.

    A network that has seen too few pictures errs about poses, and calibrated widths contain its
    error. The learning curve shows it, by a fit to fewer pictures. The interval reaches to where
    that curve leads.

    Args:
        choosing: widths (N,) by fits that choose.
        reading: sets (N,) by the fits that have not seen the pictures.
        fewer: sets (M,) of the first M pictures by a fit to fewer pictures; may be empty.
        folds: (N,) the fold of each picture, and so the fit that reads it.
        rule: which pictures, and how often to resample.
        cell: length of a cell of the densities.
        seed: of the bootstrap.
        curve: where the learning curve leads.
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
        drawn.append(reading.width(rows[again]))
    ends = torch.tensor(drawn).quantile(
        torch.tensor([(1 - rule.coverage) / 2, (1 + rule.coverage) / 2])
    )
    width = reading[chosen].width()
    both = chosen[: len(fewer)].nonzero()[:, 0]
    change = 0.0 if len(both) == 0 else _change(reading, fewer, both, rule, generator)
    limit = curve.limit(width, width - change)
    low = min(limit, float(ends[0]), (1 - SYSTEMATIC - ADDED) * width)
    high = max(limit, float(ends[1]), (1 + SYSTEMATIC) * width)
    return Headline(width, low, high, chosen, float(chosen.float().mean()))


def _change(
    reading: Sets, fewer: Sets, rows: Tensor, rule: Reading, generator: torch.Generator
) -> float:
    """What the further pictures changed of the width, less what chance may have."""
    change = reading.width(rows) - fewer.width(rows)
    drawn = []
    for _ in range(rule.resamples):
        again = rows[torch.randint(len(rows), (len(rows),), generator=generator)]
        drawn.append(reading.width(again) - fewer.width(again))
    chance = CHANCE * float(torch.tensor(drawn).std())
    return math.copysign(max(0.0, abs(change) - chance), change)


def with_drift(line: Headline, drift: float) -> Headline:
    """The interval where training had not settled.

    The last round was as long as all before it together; another one as long may change the
    width's logarithm as much again.
    """
    after = line.width * math.exp(drift)
    return replace(line, low=min(line.low, after), high=max(line.high, after))


def uniform_width(coordinate: Coordinate) -> float:
    """The width of the uniform law: nothing known, or everything allowed."""
    if coordinate.kind == "finite":
        return float(coordinate.size)
    return MASS * coordinate.span


def small_widths(coordinate: Coordinate) -> tuple[float, float]:
    """The width below which a coordinate is absent, and up to which it may be an artefact."""
    if coordinate.kind == "finite" or coordinate.parameter is None:
        return ABSENT_ELEMENTS, ABSENT_ELEMENTS
    unit = coordinate.parameter.unit
    if unit == "log-factor":
        return SMALL_LOG_FACTOR
    return SMALL.get(unit, (0.05 * coordinate.span, 0.1 * coordinate.span))


def verdict_of(
    coordinate: Coordinate, line: Headline, power: float | None
) -> tuple[Verdict, str, Headline]:
    """The verdict on a width, why it cannot be told where it cannot, and the width's interval.

    A law that looks uniform, or is very wide, may be so because these poses occur, or because the
    network cannot tell poses of such pictures apart. ``power`` is the width that was found when
    pictures followed a law half as wide; only if that was found to be narrower is the law called
    full, or a very wide one partial. Otherwise the width found is a limit, and nothing is known
    below it.

    Args:
        coordinate: what it is the width of.
        line: the width, in the coordinate's own unit, and its interval.
        power: as said, or None where it was not tried.
    """
    finite, uniform = coordinate.kind == "finite", uniform_width(coordinate)
    least, doubtful = small_widths(coordinate)
    seen = power is not None and power < SEEN * line.width
    limit = replace(line, low=1.0 if finite else 0.0)
    if line.width >= FULL_SHARE * uniform:
        steady = finite or line.low > uniform / LOOSE
        if coordinate.kind != "line" and seen and steady:
            return "full", "", line
        text = "either every pose occurs, or such pictures do not show their pose"
        return "cannot be told", text, limit
    wide = coordinate.kind == "circle" and line.width >= WIDE_SHARE * uniform
    if wide and not seen:
        return "cannot be told", "so large a width may be all that the network can tell", limit
    if wide and power is not None:  # what made too much of half the width may do so with this one
        line = replace(line, low=min(line.low, line.width**2 / 2 / power * math.exp(SYSTEMATIC)))
    if line.high < least or (finite and line.width < least):
        return "absent", "", line
    low, width = max(line.low, 1e-9), max(line.width, 1e-9)
    if not finite and max(width / low, line.high / width) > FARTHEST:
        return "cannot be told", LOOSE_INTERVAL, line
    if line.width < doubtful or (not finite and line.low < least):
        return "cannot be told", SMALL_WIDTH, line
    return "partial", "", line
