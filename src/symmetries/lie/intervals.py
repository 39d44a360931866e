"""Confidence intervals for defects: ratios of means, jackknife and refits, on a log scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

TINY = 1e-300
REPEATS = 3  # of the largest violation; chosen on random networks, see docs/generators.md


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


def student_quantile(level: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, by the expansion of Cornish and Fisher.

    Its relative error is below 0.5 % for at least nine degrees of freedom and levels up to 0.9995.

    Example:
        >>> round(student_quantile(0.975, 29), 3)
        2.045
    """
    z = NormalDist().inv_cdf(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom ** (n + 1) for n, term in enumerate(terms))


def jackknife_interval(value: float, without: Sequence[float], level: float) -> Interval:
    """Interval for a positive number from its values without each of several blocks of data.

    Args:
        value: from all blocks.
        without: from all blocks but one, for each.
        level: of each of the two ends: both hold with probability at least 2 level - 1.
    """
    logs = torch.tensor([math.log(max(v, TINY)) for v in without], dtype=torch.float64)
    count = len(logs)
    error = math.sqrt((count - 1) / count * float((logs - logs.mean()).square().sum()))
    reach = student_quantile(level, count - 1) * error
    return _around(value, reach)


def ratio_interval(
    above: Tensor, below: Tensor, level: float, others: tuple[Tensor, Tensor] | None = None
) -> Interval:
    """Return the interval for the root of the ratio of two means, from independent units of data.

    Violations of a symmetry are often concentrated on few points, and a sample has fewer of these
    than its share more often than not, so that limits for well-behaved means are too low. The upper
    end is therefore that of the data with its largest violation ``REPEATS`` times more, or with the
    largest of other units once more, whichever is larger.

    Args:
        above: squares of violations, summed over each unit, (n,).
        below: squares of denominators, (n,).
        level: of each of the two ends.
        others: squares of violations and denominators of other units, (m,) each, of which some may
            be not finite.

    Example:
        >>> x = torch.randn(500, generator=torch.Generator().manual_seed(0)).double()
        >>> found = ratio_interval(x.square(), torch.full_like(x, 4.0), 0.975)
        >>> found.low < 0.5 < found.high
        True
    """
    value, error = _log_ratio(above, below)
    quantile = student_quantile(level, len(above) - 1)

    def limit(tops: Tensor, bottoms: Tensor, repeats: int) -> float:
        excess = tops - value * bottoms
        largest = int(torch.where(excess.isfinite(), excess, -math.inf).argmax())
        more, wider = _log_ratio(
            torch.cat((above, tops[largest].expand(repeats))),
            torch.cat((below, bottoms[largest].expand(repeats))),
        )
        return _around(math.sqrt(more), quantile * wider / 2).high

    high = limit(above, below, REPEATS)
    high = high if others is None else max(high, limit(*others, 1))
    root = math.sqrt(value)
    return Interval(root, _around(root, quantile * error / 2).low, high)


def _log_ratio(above: Tensor, below: Tensor) -> tuple[float, float]:
    """Return the ratio of two means, and the standard error of its logarithm."""
    size = float(below.mean())
    ratio = float(above.mean()) / max(size, TINY)
    if ratio <= TINY:
        return 0.0, 0.0
    influence = (above - ratio * below) / (ratio * size)
    return ratio, float(influence.std()) / math.sqrt(len(influence))


def refit_interval(value: float, refits: Sequence[float], level: float) -> Interval:
    """Return the interval for a defect from refits to resampled data.

    Noise adds to the square of a defect, once in ``value`` and twice in the refits. The upper end
    keeps it, so that it is never too low; for the lower end it is taken out.

    Args:
        value: of the fit to the data.
        refits: of fits to resampled data.
        level: of each of the two ends.
    """
    squares = torch.tensor(refits, dtype=torch.float64).square()
    logs = squares.clamp_min(TINY).log() / 2
    quantile = student_quantile(level, len(squares) - 1)
    high = _around(value, quantile * float(logs.std())).high
    clean = 2 * value**2 - float(squares.mean())
    low = clean - quantile * float(squares.std())
    return Interval(value, math.sqrt(max(low, 0.0)), high)


def _around(value: float, reach: float) -> Interval:
    factor = math.exp(min(reach, 600.0))
    return Interval(value, value / factor, value * factor)


def worst_member(above: Tensor, below: Tensor) -> tuple[float, Tensor]:
    """Largest defect in a span of fields, and the coefficients (k,) of the member that has it.

    Args:
        above: Gram matrix (k, k) of the violations.
        below: Gram matrix (k, k) of the denominators.
    """
    factor, failed = torch.linalg.cholesky_ex(below)
    if bool(failed):  # fields that vanish, or a function that does not change: no defect
        return math.inf, torch.zeros_like(above[0])
    half = torch.linalg.solve_triangular(factor, above, upper=False)
    whole = torch.linalg.solve_triangular(factor, half.T, upper=False)
    values, axes = torch.linalg.eigh((whole + whole.T) / 2)
    member: Tensor = torch.linalg.solve_triangular(factor.T, axes[:, -1:], upper=True)[:, 0]
    return math.sqrt(max(float(values[-1]), 0.0)), member
