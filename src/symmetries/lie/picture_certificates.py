"""Certificates for distributions of pictures: weak equations, resampled."""

import math

import torch
from torch import Tensor

from symmetries.lie.certificates import REFITS, Certificates, decide, each_level, spectrum_level
from symmetries.lie.intervals import Interval, student_quantile, worst_members
from symmetries.lie.pictures import CosineTests, PictureFields

FEWEST = 200  # pictures


def certify_distribution(
    tests: CosineTests,
    family: PictureFields,
    pictures: Tensor,
    halves: tuple[Tensor, Tensor],
    epsilon: float,
    level: float,
    seed: int,
) -> Certificates:
    """Which fields leave the statistics of a distribution of pictures as they are.

    The defect of a field is the root of sum_j (E dphi_j)^2 / sum_j E (dphi_j)^2 over test functions
    phi_j. A mean of n pictures adds 1 / n to its square, which resampling measures and takes out.

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
        return Certificates(0, family.size, torch.zeros(0, family.size), (), (), few)
    changes = tests.changes(family, pictures)
    generator = torch.Generator().manual_seed(seed)

    def refitted(rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Gram matrices of the data and of resampled data."""
        part = changes[rows]
        counts = torch.multinomial(
            torch.full((REFITS, len(rows)), 1.0 / len(rows)), len(rows), True, generator=generator
        )
        weights = torch.zeros(REFITS + 1, len(rows), dtype=torch.float64)
        weights[1:].scatter_add_(1, counts, torch.ones_like(counts, dtype=torch.float64))
        weights[0] = 1
        means = (weights @ part.flatten(1) / len(rows)).reshape(-1, *part.shape[1:])
        squares = torch.einsum("nmp,nmq->npq", part, part)
        below = (weights @ squares.flatten(1) / len(rows)).reshape(-1, *squares.shape[1:])
        return [(m.T @ m, b) for m, b in zip(means, below, strict=True)]

    first = changes[halves[0]]
    mean = first.mean(0)
    below = torch.einsum("nmp,nmq->pq", first, first) / len(first)
    defects, theta = _spectrum(mean.T @ mean, below)
    limit = 4 * epsilon**2 + 1 / len(first)
    chosen = theta[defects.square() <= limit]
    judging = refitted(halves[1])

    def intervals(fields: Tensor, at: float) -> tuple[Interval, ...]:
        values = torch.stack(
            [worst_members(fields @ a @ fields.T, fields @ b @ fields.T)[0] for a, b in judging]
        )
        return tuple(_interval(column, at) for column in values.T)

    everything = refitted(torch.arange(len(pictures)))
    spectra = torch.stack([_spectrum(a, b)[0] for a, b in everything])
    spectrum = tuple(_interval(column, spectrum_level(level)) for column in spectra.T)
    worst = intervals(chosen, each_level(level)) if len(chosen) else ()
    return decide(chosen, worst, spectrum, epsilon, lambda t, at: intervals(t, at)[-1])


def _interval(column: Tensor, level: float) -> Interval:
    """From the defect of the data (first) and of resampled data, without what noise adds.

    Resampled squares exceed that of the data by as much as it exceeds the truth.
    """
    square, refits = float(column[0]) ** 2, column[1:].square()
    clean = 2 * square - float(refits.mean())
    reach = student_quantile(level, len(refits) - 1) * float(refits.std())
    ends = (max(clean, 0.0), max(clean - reach, 0.0), max(clean, 0.0) + reach)
    return Interval(*(math.sqrt(end) for end in ends))


def _spectrum(above: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Defects, ascending, and the fields (k, p) that have them, by Gram matrices (p, p)."""
    size, axes = torch.linalg.eigh(below)
    whitening = axes / size.clamp_min(1e-12 * float(size[-1])).sqrt()
    values, fields = torch.linalg.eigh(whitening.T @ above @ whitening)
    return values.clamp_min(0).sqrt(), (whitening @ fields).T
