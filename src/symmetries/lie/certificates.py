"""Certificates: which fields are symmetries up to epsilon, which are not, and what cannot be told.

Fields are chosen on one half of the data and judged on the other, so that choosing the best of many
makes no false claims. The span of the k best fields is tested for k = 1, 2, ... until a test fails:
all of them hold together with the probability that is asked for. That there are no more symmetries
is said by the spectrum of all data, whose smallest defects are, if anything, too small.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from symmetries.lie.functions import Function
from symmetries.lie.intervals import (
    Interval,
    jackknife_interval,
    refit_interval,
    worst_defects,
)
from symmetries.lie.polarisation import Moments, Problem, Spectrum, merged
from symmetries.lie.search import Search

BLOCKS = 30  # of each half of the data
FEWEST = 10
REFITS = 30
Verdict = Literal["symmetric", "not symmetric", "cannot be told"]


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
        judge: from coefficients (k, p) and a level to the interval of the largest defect in their
            span, on data that has not chosen them.
    """

    least: int
    most: int
    theta: Tensor
    worst: tuple[Interval, ...]
    spectrum: tuple[Interval, ...]
    reason: str = ""
    judge: Callable[[Tensor, float], Interval] | None = field(default=None, compare=False)

    def verdict(self, index: int) -> Verdict:
        """The answer about the field of an index of the spectrum."""
        if index < self.least:
            return "symmetric"
        return "not symmetric" if index >= self.most else "cannot be told"


def each_level(level: float) -> float:
    """Level of each of the three families of tests: spans, the rounded basis, the spectrum."""
    return 1 - (1 - level) / 3


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


def certify_function(
    found: Search, halves: tuple[Tensor, Tensor], epsilon: float, level: float
) -> Certificates:
    """Certificates for a function that is given: what is uncertain is the data's distribution.

    Args:
        found: the equations; what they leave out was chosen on the first half only.
        halves: indices of the points that choose fields, and of those that judge them.
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
    """
    problem, z = found.problem, found.coordinates
    blocks = min(BLOCKS, len(halves[0]) // 2)
    few = _too_few(problem, len(halves[0]), blocks)
    if few:
        return Certificates(0, problem.family.size, torch.zeros(0, problem.unknowns), (), (), few)
    first, second = (_measured(problem, z[half], blocks) for half in halves)
    one_sided = each_level(level)
    chosen = _candidates(problem.spectrum(merged(first)), epsilon)
    whole, without = _with_and_without(problem, [*first, *second])
    spectrum = tuple(
        jackknife_interval(float(value), [float(s.defects[i]) for s in without], one_sided)
        for i, value in enumerate(whole.defects)
    )
    grams = [_grams(problem, part, chosen) for part in second]
    worst = tuple(
        jackknife_interval(value, others, one_sided)
        for value, *others in zip(*_worst_and_without(grams), strict=True)
    )

    def judge(theta: Tensor, level: float) -> Interval:
        spanned = [_grams(problem, part, theta) for part in second]
        value, *others = (row[-1] for row in _worst_and_without(spanned))
        return jackknife_interval(value, others, level)

    return _decide(chosen, worst, spectrum, epsilon, judge)


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
    """Certificates for a function that is fitted to data: refits to resampled data as well.

    Args:
        found: the equations of the fit to the first half.
        fit: from indices of data to the function that is fitted to it.
        points: of all data, (n, d).
        units: that are resampled, as in :func:`split_halves`.
        halves: indices that choose fields, and that judge them.
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
        seed: of the resampling.
    """
    one_sided = each_level(level)
    generator = torch.Generator().manual_seed(seed)
    every = torch.arange(len(points))
    few = _too_few(found.problem, len(halves[0]), len(halves[0]) // 2)
    if few:
        size = found.problem.family.size
        return Certificates(0, size, torch.zeros(0, found.problem.unknowns), (), (), few)
    first = found.problem.measure(found.coordinates[halves[0]])
    chosen = _candidates(found.problem.spectrum(first), epsilon)
    judges, spectra = [], []
    for index, part in ((0, halves[1]), (1, every)):
        for refit in range(REFITS + 1):
            rows = part if refit == 0 else resampled(units, part, generator)
            again = found.of(fit(rows), points[rows])
            moments = again.problem.measure(again.coordinates)
            if index == 0:
                judges.append((again.problem, moments))
            else:
                spectra.append(again.problem.spectrum(moments).defects)
    size = min(len(defects) for defects in spectra)
    table = torch.stack([defects[:size] for defects in spectra])
    spectrum = tuple(
        refit_interval(float(column[0]), column[1:].tolist(), one_sided) for column in table.T
    )

    def worst_of(theta: Tensor) -> Tensor:
        return torch.stack([worst_defects(*_grams(p, moments, theta)) for p, moments in judges])

    worst = tuple(
        refit_interval(float(column[0]), column[1:].tolist(), one_sided)
        for column in worst_of(chosen).T
    )

    def judge(theta: Tensor, level: float) -> Interval:
        column = worst_of(theta)[:, -1]
        return refit_interval(float(column[0]), column[1:].tolist(), level)

    return _decide(chosen, worst, spectrum, epsilon, judge)


def _decide(
    chosen: Tensor,
    worst: tuple[Interval, ...],
    spectrum: tuple[Interval, ...],
    epsilon: float,
    judge: Callable[[Tensor, float], Interval],
) -> Certificates:
    """Count from the best field until a test fails, and from the worst until one fails."""
    least = 0
    while least < len(worst) and worst[least].high <= epsilon:
        least += 1
    most = len(spectrum)
    while most > least and spectrum[most - 1].low > epsilon:
        most -= 1
    return Certificates(least, most, chosen, worst, spectrum, "", judge)


def _candidates(spectrum: Spectrum, epsilon: float) -> Tensor:
    """Fields that may pass: those whose defect is at most twice epsilon."""
    return spectrum.theta[spectrum.defects <= 2 * epsilon]


def _too_few(problem: Problem, points: int, blocks: int) -> str:
    rows = points * problem.outputs
    if blocks < FEWEST or rows < 2 * problem.unknowns:
        least = max(4 * FEWEST, 4 * problem.unknowns // problem.outputs + 2)
        return f"too few data: at least {least} are needed for {problem.unknowns} unknown numbers"
    return ""


def _measured(problem: Problem, points: Tensor, blocks: int) -> list[Moments]:
    return [problem.measure(part) for part in points.tensor_split(blocks)]


def _grams(problem: Problem, moments: Moments, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Gram matrices (k, k) of violations and of denominators, summed over points."""
    above = moments.violation.matrix() @ theta.T
    below = problem.denominator(moments) @ theta.T
    return above.T @ above, below.T @ below * moments.points


def _worst_and_without(grams: list[tuple[Tensor, Tensor]]) -> list[list[float]]:
    """Largest defects of all blocks, then without each of them; one list for each."""
    above = sum((a for a, _ in grams), torch.zeros_like(grams[0][0]))
    below = sum((b for _, b in grams), torch.zeros_like(grams[0][1]))
    rows = [worst_defects(above, below)]
    rows += [worst_defects(above - a, below - b) for a, b in grams]
    return [row.tolist() for row in rows]


def _with_and_without(problem: Problem, parts: list[Moments]) -> tuple[Spectrum, list[Spectrum]]:
    """The spectrum of all blocks, and those without each of them."""
    before, after = [problem.empty()], [problem.empty()]
    for part in parts:
        before.append(before[-1].merge(part))
    for part in reversed(parts):
        after.append(after[-1].merge(part))
    after.reverse()
    without = [problem.spectrum(before[i].merge(after[i + 1])) for i in range(len(parts))]
    return problem.spectrum(before[-1]), without
