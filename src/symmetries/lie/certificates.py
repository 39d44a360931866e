"""Certificates: which fields are symmetries up to epsilon, which are not, and what cannot be told.

Fields are chosen on one half of the data and judged on the other, so that choosing the best of many
makes no false claims. The span of the k best fields is tested for k = 1, 2, ... until a test fails:
all of them hold together with the probability that is asked for. That there are no more symmetries
is said by the spectrum of all data, whose smallest defects are, if anything, too small.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from symmetries.lie.functions import Function
from symmetries.lie.intervals import (
    TINY,
    Interval,
    jackknife_interval,
    ratio_interval,
    refit_interval,
    student_quantile,
    worst_member,
)
from symmetries.lie.pictures import Equations, PictureEquations
from symmetries.lie.polarisation import Moments, Spectrum, merged
from symmetries.lie.search import Search
from symmetries.lie.units import PointSets, around, blocks, by_unit, elsewhere, resampled

FEWEST = 10
LEAST_KNOWN = 0.3  # part of the slopes; if more of them may be noise, nothing is known
REFITS = 30
AT_ONCE = 32  # fields whose violations at all points are held in memory
FEW_SLOPES = "the function is flat at all rows but a few, without which fields cannot be compared"
Verdict = Literal["symmetric", "not symmetric", "cannot be told"]
Judge = Callable[[Sequence[Tensor], float], tuple[Interval, ...]]


@dataclass(frozen=True)
class Judges:
    """Data that has not chosen fields, and what it says about their spans.

    Args:
        problem: the equations of the function, or of its fit to this data.
        moments: of the points.
        points: coordinates (n, r).
        units: that points belong to, (n,).
        refits: equations and moments of fits to resampled data, and the numbers of its points; none
            for a function that is given.
        others: sets of points (any, r), and their units, whose largest violations count, too.
    """

    problem: Equations
    moments: Moments
    points: Tensor
    units: Tensor
    refits: tuple[tuple[Equations, Moments, Tensor], ...] = ()
    others: PointSets = ()

    def intervals(self, spans: Sequence[Tensor], level: float) -> tuple[Interval, ...]:
        """Return for the largest defect in each of several spans of fields, (k, p) each."""
        if len(spans) == 0:
            return ()
        factors = _factors(self.problem, self.moments)
        defects, worst = zip(*(_worst(factors, theta) for theta in spans), strict=True)
        members = torch.stack(worst)
        found, below = self._scatter(members, level)
        found = [
            one if math.isfinite(value) else Interval(math.inf, 0.0, math.inf)
            for one, value in zip(found, defects, strict=True)
        ]
        if not self.refits:
            return tuple(found)
        again, ratios = [], []
        for problem, moments, rows in self.refits:
            others = _factors(problem, moments)
            again.append([_worst(others, theta)[0] for theta in spans])
            size = (others[1] @ members.T).square().sum(0) / below[rows].sum(0).clamp_min(TINY)
            ratios.append(size)
        intervals = []
        for index, data in enumerate(found):
            fit = refit_interval(defects[index], [row[index] for row in again], level)
            ratio = torch.stack([row[index] for row in ratios])
            high = _wider(max(fit.high, data.high), ratio, level)
            intervals.append(Interval(fit.value, fit.low, high))
        return tuple(intervals)

    def _scatter(self, members: Tensor, level: float) -> tuple[list[Interval], Tensor]:
        """Return intervals of the defects of fields (k, p) from the scatter over units of data.

        With the squares of their denominators at each point, (n, k), where there are refits.
        """
        found, sizes = [], []
        for part in members.split(AT_ONCE):
            squares = self.problem.violations(self.points, part)
            above, below = by_unit(squares, self.units)
            more: list[tuple[Tensor, Tensor] | None] = [None] * len(part)
            others = elsewhere(self.problem, self.others, part)
            if others:
                tops, bottoms = (torch.cat(each) for each in zip(*others, strict=True))
                more = list(zip(tops.T, bottoms.T, strict=True))
            columns = zip(above.T, below.T, more, strict=True)
            found += [ratio_interval(a, b, level, c) for a, b, c in columns]
            sizes += [squares[1]] if self.refits else []
        return found, torch.cat(sizes, 1) if sizes else members[:0]


@dataclass(frozen=True)
class Certificates:
    """What is known about the dimension of the algebra, and about its members.

    Args:
        least: number of independent fields that are symmetries up to epsilon.
        most: number of fields that may be symmetries up to epsilon.
        theta: coefficients (k, p) of the fields that were chosen, the best first.
        worst: interval for the largest defect in the span of the first fields, for each number.
        spectrum: interval for each defect of the whole family, ascending.
        reason: why nothing can be told, or an empty string.
        judge: from coefficients (k, p) of spans and a level to intervals of the largest defect in
            each, on data that has not chosen them.
    """

    least: int
    most: int
    theta: Tensor
    worst: tuple[Interval, ...]
    spectrum: tuple[Interval, ...]
    reason: str = ""
    judge: Judge | None = field(default=None, compare=False)

    def verdict(self, index: int) -> Verdict:
        """Return the answer about the field of an index of the spectrum."""
        if index < self.least:
            return "symmetric"
        return "not symmetric" if index >= self.most else "cannot be told"

    def untold(self, reason: str) -> "Certificates":
        """Return the same intervals, without an answer."""
        return replace(self, least=0, most=len(self.spectrum), reason=reason)


def nothing_told(family: int, unknowns: int, reason: str) -> Certificates:
    """Neither fields nor intervals, for a family of so many fields."""
    return Certificates(0, family, torch.zeros(0, unknowns), (), (), reason)


def each_level(level: float) -> float:
    """Level of each of the three families of tests: spans, the rounded basis, the spectrum."""
    return 1 - (1 - level) / 3


def spectrum_level(level: float) -> float:
    """Level of an interval of the spectrum, which is used for two tests (:func:`decide`)."""
    return 1 - (1 - level) / 6


def certify_function(
    found: Search | PictureEquations,
    units: Tensor,
    halves: tuple[Tensor, Tensor],
    epsilon: float,
    level: float,
    farther: bool = True,
) -> Certificates:
    """Certificates for a function that is given: what is uncertain is the data's distribution.

    Args:
        found: the equations; what they leave out was chosen on the first half only.
        units: that rows belong to, as in :func:`symmetries.lie.units.split_halves`.
        halves: indices of the points that choose fields, and of those that judge them.
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
        farther: whether the function may be asked about points around the data and farther out.
    """
    problem, z = found.problem, found.coordinates
    parts = [blocks(units, half) for half in halves]
    few = _too_few(problem, halves, units, 2 * FEWEST)
    if few:
        return nothing_told(problem.family.size, problem.unknowns, few)
    first, second = ([problem.measure(z[rows]) for rows in part] for part in parts)
    one_sided, both = each_level(level), spectrum_level(level)
    chosen = _candidates(problem.spectrum(merged(first)), epsilon)
    whole, without = _with_and_without(problem, [*first, *second])
    if any(len(part.defects) < len(whole.defects) for part in without):
        return nothing_told(problem.family.size, problem.unknowns, FEW_SLOPES)
    spectrum = tuple(
        jackknife_interval(float(value), [float(s.defects[i]) for s in without], both)
        for i, value in enumerate(whole.defects)
    )
    others = around(z, units) if farther else ()
    judges = Judges(problem, merged(second), z[halves[1]], units[halves[1]], (), others)
    worst = judges.intervals(_first(chosen), one_sided)
    return decide(chosen, worst, spectrum, epsilon, judges.intervals)


def certify_fit(
    found: Search,
    fit: Callable[[Tensor], Function],
    points: Tensor,
    units: Tensor,
    halves: tuple[Tensor, Tensor],
    epsilon: float,
    level: float,
    seed: int,
) -> Certificates:
    """Return certificates for a function that is fitted to data: refits to resampled data as well.

    Args:
        found: the equations of the fit to the first half.
        fit: from indices of data to the function that is fitted to it.
        points: of all data, (n, d).
        units: that are resampled, as in :func:`symmetries.lie.units.split_halves`.
        halves: indices that choose fields, and that judge them.
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
        seed: of the resampling.
    """
    one_sided = each_level(level)
    generator = torch.Generator().manual_seed(seed)
    every = torch.arange(len(points))
    few = _too_few(found.problem, halves, units, FEWEST)
    if few:
        return nothing_told(found.problem.family.size, found.problem.unknowns, few)
    first = found.problem.measure(found.coordinates[halves[0]])
    chosen = _candidates(found.problem.spectrum(first), epsilon)
    judged, spectra = [], []
    place = torch.zeros(len(points), dtype=torch.long)
    place[halves[1]] = torch.arange(len(halves[1]))
    for index, part in ((0, halves[1]), (1, every)):
        for refit in range(REFITS + 1):
            rows = part if refit == 0 else resampled(units, part, generator)
            again = found.of(fit(rows), points[rows])
            moments = again.problem.measure(again.coordinates)
            if index == 1:
                spectra.append(again.problem.spectrum(moments).defects)
            elif refit == 0:
                judges = Judges(again.problem, moments, again.coordinates, units[rows])
            else:
                judged.append((again.problem, moments, place[rows]))
    size = min(len(defects) for defects in spectra)
    table = torch.stack([defects[:size] for defects in spectra])
    spectrum = tuple(
        refit_interval(float(column[0]), column[1:].tolist(), spectrum_level(level))
        for column in table.T
    )
    judges = replace(judges, refits=tuple(judged))
    worst = judges.intervals(_first(chosen), one_sided)
    return decide(chosen, worst, spectrum, epsilon, judges.intervals)


def decide(
    chosen: Tensor,
    worst: tuple[Interval, ...],
    spectrum: tuple[Interval, ...],
    epsilon: float,
    judge: Judge,
) -> Certificates:
    """Count from the best field until a test fails; the next one, or the worst, are not symmetric.

    That there are no more than were certified is tested first, and needs one interval only: defects
    ascend. If it fails, fields are counted from the worst until a test fails. Both together have
    the probability of one family of tests.
    """
    least = 0
    while least < len(worst) and worst[least].high <= epsilon:
        least += 1
    most = len(spectrum)
    if least < most and spectrum[least].low > epsilon:  # so are the defects of all that follow
        most = least
    while most > least and spectrum[most - 1].low > epsilon:
        most -= 1
    return Certificates(least, most, chosen, worst, spectrum, "", judge)


def _candidates(spectrum: Spectrum, epsilon: float) -> Tensor:
    """Return fields that may pass: those whose defect is at most twice epsilon."""
    return spectrum.theta[spectrum.defects <= 2 * epsilon]


def _too_few(problem: Equations, halves: tuple[Tensor, Tensor], units: Tensor, least: int) -> str:
    """Why there is too little data, or an empty string; ``least`` units in each half are needed."""
    known = 2 * min(len(units[half].unique()) for half in halves)
    if known < 2 * least:
        return f"too few data: {known} rows or units that differ, and at least {2 * least} needed"
    if len(halves[0]) * problem.outputs < 2 * problem.unknowns:
        rows = 4 * problem.unknowns // problem.outputs + 2
        return f"too few data: at least {rows} are needed for {problem.unknowns} unknown numbers"
    return ""


def _factors(problem: Equations, moments: Moments) -> tuple[Tensor, Tensor]:
    """Factors (any, p) of the quadratic forms of violations and of denominators, over points."""
    return moments.violation.matrix(), problem.denominator(moments) * moments.points**0.5


def _worst(factors: tuple[Tensor, Tensor], theta: Tensor) -> tuple[float, Tensor]:
    """Return the largest defect in the span of fields (k, p), and the field (p,) that has it."""
    above, below = (factor @ theta.T for factor in factors)
    defect, member = worst_member(above.T @ above, below.T @ below)
    return defect, member @ theta


def _first(theta: Tensor) -> list[Tensor]:
    """Return spans of the first fields, for each number of them."""
    return [theta[:k] for k in range(1, len(theta) + 1)]


def _wider(high: float, ratios: Tensor, level: float) -> float:
    """Return an upper limit without what noise adds to the denominator.

    Noise makes the slopes of a fit too large, above all where data hardly varies, and defects too
    small. Slopes of refits exceed those of the fit by as much as these exceed the true ones.

    Args:
        high: the limit.
        ratios: of the denominators of refits and of the fit, at the same points, (r,).
        level: of the part of the root of the denominator that is not noise.
    """
    roots = ratios.sqrt()  # slopes, whose errors are even
    reach = student_quantile(level, len(roots) - 1) * float(roots.std())
    known = 2 - float(roots.mean()) - reach
    return math.inf if not known >= LEAST_KNOWN else high / min(known, 1.0)


def _with_and_without(problem: Equations, parts: list[Moments]) -> tuple[Spectrum, list[Spectrum]]:
    """Return the spectrum of all blocks, and those without each of them."""
    before, after = [problem.empty()], [problem.empty()]
    for part in parts:
        before.append(before[-1].merge(part))
    for part in reversed(parts):
        after.append(after[-1].merge(part))
    after.reverse()
    without = [problem.spectrum(before[i].merge(after[i + 1])) for i in range(len(parts))]
    return problem.spectrum(before[-1]), without
