"""Means over examples with their standard errors."""

import math
from statistics import NormalDist

import torch
from torch import Tensor

from symmetries._validation.checks import check_held, check_tensors, invalid
from symmetries.results import Estimate


def estimate(
    values: Tensor, *, level: float = 0.95, least: float = -math.inf, most: float = math.inf
) -> Estimate:
    """Return the mean over examples, with its standard error s / sqrt(N).

    Args:
        values: (N,), one number per example, the mean over its group elements.
        level: of the confidence interval.
        least: smallest value that a mean can have; the interval ends there.
        most: largest value that a mean can have.

    Example:
        >>> found = estimate(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> found.mean, round(found.standard_error, 3)
        (2.5, 0.645)
    """
    check_tensors(values=values)
    if values.ndim == 0:
        raise invalid("values", "at least one axis", "none", "give one value for each example")
    check_held(values, "values")
    exact = values.detach().to("cpu", torch.float64)
    count = len(exact)
    if count < 1:
        raise invalid("examples", "at least one", count, "give some data")
    error = float(exact.std()) / math.sqrt(count) if count > 1 else math.nan
    return Estimate.normal(float(exact.mean()), error, level=level, least=least, most=most)


def wilson_interval(share: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's confidence interval of a share of ``count`` examples.

    Unlike the normal interval, it has a width where all agree: 20 of 20 is at least 0.84.

    Example:
        >>> low, high = wilson_interval(0.9, 100)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)
    """
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    share = min(max(share, 0.0), 1.0)
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count * count)))
    half /= 1 + z2 / count
    return max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share))
