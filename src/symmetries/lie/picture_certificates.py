"""Certificates for distributions of pictures: weak equations, resampled."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.lie.certificates import (
    Certificates,
    decide,
    each_level,
    nothing_told,
    spectrum_level,
)
from symmetries.lie.intervals import Interval, student_quantile, worst_member
from symmetries.lie.pictures import CosineTests, PictureFields

FEWEST = 200  # pictures
RESAMPLED = 60


def certify_distribution(
    tests: CosineTests,
    family: PictureFields,
    pictures: Tensor,
    halves: tuple[Tensor, Tensor],
    epsilon: float,
    level: float,
    seed: int,
) -> Certificates:
    """Return which fields leave the statistics of a distribution of pictures as they are.

    The change of a field is the root of sum_j (E dphi_j)^2 / sum_j E (dphi_j)^2 over test functions
    phi_j, and its defect is the change relative to the root mean square over all fields. A mean of
    n pictures adds 1 / n to the square of a change, which resampling measures and takes out.

    Args:
        tests: the test functions.
        family: in which fields are looked for.
        pictures: (n, C, H, W).
        halves: indices of the pictures that choose fields, and of those that judge them.
        epsilon: largest defect of a symmetry.
        level: probability that all that is said holds.
        seed: of the resampling.
    """
    if len(pictures) < FEWEST:
        few = f"too few data: {len(pictures)} pictures, and at least {FEWEST} needed"
        return nothing_told(family.size, family.size, few)
    changes = tests.changes(family, pictures)
    generator = torch.Generator().manual_seed(seed)
    first = changes[halves[0]]
    mean = first.mean(0)
    below = torch.einsum("nmp,nmq->pq", first, first) / len(first)
    found, theta = _spectrum(mean.T @ mean, below)
    scale = float(found.square().mean()) - 1 / len(first)
    if scale < 1 / len(first):
        few = "no field changes these pictures by more than chance does: give more of them"
        return nothing_told(family.size, family.size, few)
    chosen = theta[found.square() <= 4 * scale * epsilon**2 + 2 / len(first)]

    judges = _Means(changes[halves[1]], scale, generator)
    everything = _Means(changes, scale, generator)
    members = _spectrum(*everything.grams)[1]
    found_in = [everything.interval(member, spectrum_level(level)) for member in members]
    spectrum = tuple(sorted(found_in, key=lambda part: part.value))  # without noise: another order
    spans = [chosen[:k] for k in range(1, len(chosen) + 1)]
    worst = judges.intervals(spans, each_level(level))
    return decide(chosen, worst, spectrum, epsilon, judges.intervals)


class _Means:
    """Mean changes of test functions, (m, p), of data and of resampled data.

    Args:
        changes: of each picture, (n, m, p).
        scale: mean square change over all fields, to which defects are relative.
        generator: draws the resampled data.
    """

    def __init__(self, changes: Tensor, scale: float, generator: torch.Generator) -> None:
        count = len(changes)
        drawn = torch.randint(count, (RESAMPLED, count), generator=generator)
        weights = torch.zeros(RESAMPLED, count, dtype=torch.float64)
        weights.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
        flat = changes.flatten(1)
        self.mean = changes.mean(0)
        self.errors = (weights @ flat / count).reshape(-1, *self.mean.shape) - self.mean
        below = torch.einsum("nmp,nmq->pq", changes, changes) / count
        self.grams = self.mean.T @ self.mean, scale * below

    def intervals(self, spans: Sequence[Tensor], level: float) -> tuple[Interval, ...]:
        """Return for the largest defect in each of several spans of fields, (k, p) each."""
        found = []
        for fields in spans:
            above, below = (fields @ gram @ fields.T for gram in self.grams)
            found.append(self.interval(worst_member(above, below)[1] @ fields, level))
        return tuple(found)

    def interval(self, member: Tensor, level: float) -> Interval:
        """Return the defect of one field (p,), without what noise adds to its square.

        The square of a mean u + e has the variance of e.e and of 2 u.e. The latter is overestimated
        because u is known with an error like e, by twice the former.
        """
        mean, errors = self.mean @ member, self.errors @ member
        size = float(member @ self.grams[1] @ member)
        squares = errors.square().sum(1)
        clean = float(mean.square().sum() - squares.mean())
        noise = float(squares.var())
        cross = float((2 * errors @ mean).var())
        error = math.sqrt(noise + max(cross - 2 * noise, 0.0))
        reach = student_quantile(level, RESAMPLED - 1) * error
        ends = (clean, clean - reach, max(clean, 0.0) + reach)
        return Interval(*(math.sqrt(max(end, 0.0) / size) for end in ends))


def _spectrum(above: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Changes, ascending, and the fields (k, p) that have them, by Gram matrices (p, p)."""
    size, axes = torch.linalg.eigh(below)
    whitening = axes / size.clamp_min(1e-12 * float(size[-1])).sqrt()
    values, fields = torch.linalg.eigh(whitening.T @ above @ whitening)
    return values.clamp_min(0).sqrt(), (whitening @ fields).T
