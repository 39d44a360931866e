"""Truths of planted data: densities of poses, their 90 % widths, and the verdict that fits them.

What a picture shows is its canonical pose, moved by what content varies by itself (natural) and by
what was planted. Both are drawn independently, so the density of a parameter is the convolution of
the two, and its width is that of the smallest set that holds 90 % of it. Parameters are in the
library's own units (radians, half-images, logarithms of factors); widths that a person reads are in
degrees, pixels and factors (the ratio of the ends).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symmetries.groups import parse_group
from symmetries.groups.base import Parameter

MASS = 0.9
ABSENT_DEGREES = 5.0
ABSENT_PIXELS = 0.5
ABSENT_FACTOR = 1.03
FULL_SHARE = 0.8  # of the width that a uniform angle has
CANNOT = "cannot be told"
VERDICTS = ("absent", "partial", "full", CANNOT)
FINITE = ("flip_x", "flip_y")
BINS = 121  # odd, so that a pose that never varies lies in the middle of a bin
_POINTS = 8192
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Natural:
    """How content varies by itself along a parameter: uniform, normal, or the sum of both.

    Args:
        half: half-width of a uniform part.
        sd: standard deviation of a normal part.
        known: whether the generator drew it; else it was estimated, or is what pictures of that
            kind are taken to have.
    """

    half: float = 0.0
    sd: float = 0.0
    known: bool = True


STILL = Natural()


def parameter(name: str) -> Parameter:
    """The library's parameter of that name."""
    return parse_group(name).parameters[0]


def period_of(name: str) -> float | None:
    """Circumference of an angle; None for what is no angle."""
    found = parameter(name)
    return 2 * found.bound if found.angle else None


def reach(name: str, half: float, natural: Natural, side: int) -> float:
    """Half the range on which densities are compared: the whole circle, or a bit more than occurs.

    It never gets smaller than three times the width below which a parameter is absent.
    """
    period = period_of(name)
    if period is not None:
        return period / 2
    most = half + natural.half + 3 * natural.sd
    return max(1.5 * most, 3 * own_width(name, _least(name), side))


def density(
    half: float, natural: Natural, limit: float, *, circular: bool
) -> tuple[Floats, Floats]:
    """The density of poses on a fine grid from -limit to limit, as centres and masses.

    Args:
        half: half-width of the planted uniform.
        natural: what the content adds.
        limit: half the range; for angles, half of the circle.
        circular: whether the ends are the same pose.

    Example:
        >>> x, mass = density(0.0, Natural(half=0.5), 1.0, circular=False)
        >>> round(float(mass[np.abs(x) < 0.25].sum()), 2)
        0.5
    """
    step = 2 * limit / _POINTS
    at = (np.arange(_POINTS) + 0.5) * step - limit
    whole = np.zeros(_POINTS)
    whole[0] = 1.0
    frequency = 2 * np.pi * np.fft.rfftfreq(_POINTS, step)
    spectrum = np.fft.rfft(whole)
    for width in (half, natural.half):
        spectrum = spectrum * np.fft.rfft(_box(at, width, step))
    if natural.sd > 0:
        spectrum = spectrum * np.exp(-((frequency * natural.sd) ** 2) / 2)
    mass = np.clip(np.fft.irfft(spectrum, _POINTS), 0, None)
    if not circular and half + natural.half + 4 * natural.sd > limit:
        raise ValueError(f"limit: expected more than what occurs, got {limit}; widen the range")
    return at, np.fft.fftshift(mass) / mass.sum()


def _box(at: Floats, half: float, step: float) -> Floats:
    """A uniform's masses with its centre at index 0, ends counted by their share of a cell."""
    if half <= 0:
        one = np.zeros(_POINTS)
        one[0] = 1.0
        return one
    offset = (np.arange(_POINTS) + _POINTS // 2) % _POINTS - _POINTS // 2
    cells = np.abs(offset) * step
    inside = np.clip((half + step / 2 - cells) / step, 0, 1)
    return inside / inside.sum()


def width90(mass: Floats, step: float) -> float:
    """Length of the smallest set of cells that holds 90 % of the mass.

    Example:
        >>> round(width90(np.full(100, 0.01), 1.0), 6)
        90.0
    """
    ordered = np.sort(mass)[::-1]
    before = np.cumsum(ordered) - ordered
    share = np.clip((MASS - before) / np.maximum(ordered, 1e-300), 0, 1)
    return float(share.sum() * step)


def expected_width(name: str, half: float, natural: Natural) -> float:
    """The 90 % width of planted plus natural, in the parameter's own unit.

    Example:
        >>> round(math.degrees(expected_width("rotation", math.radians(60), STILL)))
        108
    """
    if half == 0 and natural.half == 0 and natural.sd == 0:
        return 0.0
    period = period_of(name)
    if period is not None and half >= period / 2:
        return MASS * period
    limit = period / 2 if period else 1.1 * (half + natural.half + 5 * natural.sd)
    _, mass = density(half, natural, limit, circular=period is not None)
    return width90(mass, 2 * limit / _POINTS)


def binned_truth(name: str, half: float, natural: Natural, side: int) -> Floats:
    """Masses of the truth in the bins that densities are compared in, centred on its pose."""
    limit = reach(name, half, natural, side)
    wide = limit if period_of(name) else 2 * limit  # room for a normal's tails
    at, mass = density(half, natural, wide, circular=period_of(name) is not None)
    place = np.clip(((at / limit + 1) / 2 * BINS).astype(int), 0, BINS - 1)
    return np.bincount(place, mass, BINS)


def _least(name: str) -> float:
    """The width, as shown, below which a parameter is absent."""
    units = {"rad": ABSENT_DEGREES, "half-image": ABSENT_PIXELS, "log-factor": ABSENT_FACTOR}
    return units[parameter(name).unit]


def shown_width(name: str, width: float, side: int) -> float:
    """A width in degrees, pixels or factors."""
    return parameter(name).display(width, side)[0]


def own_width(name: str, shown: float, side: int) -> float:
    """The inverse of :func:`shown_width`.

    Example:
        >>> round(shown_width("zoom", own_width("zoom", 1.3, 32), 32), 6)
        1.3
    """
    one, unit = parameter(name).display(1.0, side)
    return math.log(shown) if unit == "factor" else shown / one


def verdict(name: str, shown: float, side: int) -> str:
    """The verdict on a width as shown: absent, partial, or for angles full.

    Absent is below 5 degrees, half a pixel or a factor of 1.03; full is at least 80 % of the width
    of a uniform angle.

    Example:
        >>> verdict("rotation", 4.0, 32), verdict("rotation", 90.0, 32), verdict("hue", 300.0, 32)
        ('absent', 'partial', 'full')
    """
    period = period_of(name)
    if period is not None and own_width(name, shown, side) >= FULL_SHARE * MASS * period:
        return "full"
    return "absent" if shown < _least(name) else "partial"
