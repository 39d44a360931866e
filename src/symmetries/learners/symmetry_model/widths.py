"""Width of a distribution, and the verdict "absent", "partial" or "full"."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from symmetries.groups.base import Parameter
from symmetries.results.symmetries import Verdict

MASS = 0.9
ABSENT_NOISE = 2.0  # times the noise floor
ABSENT_DEGREES = 5.0
ABSENT_PIXELS = 0.5
ABSENT_FACTOR = 1.03
FULL_SHARE = 0.8  # of the width that a uniform angle has


def highest_density_width(samples: Tensor, period: float | None = None) -> Tensor:
    """Return the length of the smallest set that holds 90 % of the samples' distribution.

    The sorted samples are cut into groups of about S / 48; each gap between groups holds the same
    mass, and the shortest gaps that together hold 90 % make up the set, which may be in pieces.

    Args:
        samples: (..., S).
        period: circumference, for angles: the gap across the seam counts too.

    Returns:
        (...).

    Example:
        >>> two_modes = torch.cat((torch.randn(5000) * 0.01 - 1, torch.randn(5000) * 0.01 + 1))
        >>> bool(highest_density_width(two_modes) < 0.1)
        True
    """
    count = samples.shape[-1]
    step = max(1, count // 48)
    if period is not None:
        samples = torch.remainder(samples, period)
    ordered = samples.sort(-1).values
    knots = ordered[..., ::step]
    if period is None:
        knots = torch.cat((knots, ordered[..., -1:]), -1) if (count - 1) % step else knots
    else:
        knots = torch.cat((knots, ordered[..., :1] + period), -1)
    gaps = knots.diff(dim=-1)
    # All gaps hold the same mass but the last, which may hold less.
    whole = count - 1 if period is None else count
    mass = torch.full_like(gaps, step / whole)
    mass[..., -1] = 1 - (gaps.shape[-1] - 1) * step / whole
    order = (mass / gaps.clamp_min(1e-12)).argsort(-1, descending=True)
    gaps, mass = gaps.gather(-1, order), mass.gather(-1, order)
    before = mass.cumsum(-1) - mass
    share = ((MASS - before) / mass).clamp(0, 1)
    return (gaps * share).sum(-1)


@lru_cache(maxsize=8)
def small_sample_factor(count: int) -> float:
    """Return the true width of a normal distribution over the mean width of samples.

    Small samples look narrower than what they come from, as the set follows their chance gaps.
    """
    normal = torch.randn(4000, count, generator=torch.Generator().manual_seed(0))
    return 2 * 1.6449 / float(highest_density_width(normal).mean())


def verdict_of(parameter: Parameter, width: float, noise: float, side: int) -> Verdict:
    """Return the verdict on a width in the parameter's own unit.

    Absent: below twice the noise floor, or below 5 degrees, half a pixel or 3 %. Full, for angles:
    at least 80 % of what a uniform angle has (90 % of the circle); as there is no room for twice
    the floor then, it may be larger than half of the width, but must not be called full itself.
    Partial otherwise.

    Args:
        parameter: what it is the width of.
        width: width90.
        noise: noise floor.
        side: longer side of the images in pixels.
    """
    least = {
        "rad": math.radians(ABSENT_DEGREES),
        "half-image": ABSENT_PIXELS * 2 / side,
        "log-factor": math.log(ABSENT_FACTOR),
    }.get(parameter.unit, 0.0)
    uniform = FULL_SHARE * MASS * 2 * parameter.bound
    if parameter.angle and noise < uniform <= width:
        return "full"
    if width < max(least, ABSENT_NOISE * noise):
        return "absent"
    return "partial"
