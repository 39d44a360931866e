"""The evidence as a function of one half-width: its optimum, and how well it is determined."""

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from symmetries.learners.base import Summary

# Half of the 95 % quantile of chi-square with one degree of freedom: the drop of a log-likelihood
# at the ends of an interval.
DROP = 1.92
FITTED = 8.0  # nats below the best, up to which a parabola is fitted
UNSURE = 0.5  # of the difference of two extrapolations, by which their difference may be wrong
SETTLED = 6.0  # nats by which longer training may favour one end of the widths
TOLD = 0.25  # longest interval that tells a width, as a share of the parameter's range


@dataclass(frozen=True)
class WidthProfile(Summary):
    """Log evidence of trained candidates along one half-width.

    Args:
        name: of the parameter.
        bound: the largest half-width, in the group's own units.
        widths: half-widths of the candidates, in increasing order.
        values: log evidence of each, in nats.
        noise: standard deviation of a value, apart from what all have in common.
        extrapolated: by how many nats each value is above a bound that was computed; an empty list
            if values are no extrapolations.
        constant: log-likelihood of one answer for all images. Networks with less evidence have
            learned nothing that could tell a width.
        settled: whether longer trainings have about the same differences.
        gain: log-likelihood of a left out image with the chosen half-width, above that without
            transformations; 0 if it was not computed, because the width is told.
        gain_error: its standard error.
        gain_right: the same for the share of left out images that are classified correctly.
        angle: whether -bound and bound are the same transformation.

    Example:
        >>> at = [0.0, 1.0, 2.0, 3.0, 4.0]
        >>> found = WidthProfile("rotation", 4.0, at, [-(w - 2.2) ** 2 for w in at])
        >>> round(found.best, 6), [round(end, 1) for end in found.interval]
        (2.2, [0.8, 3.5])
    """

    name: str
    bound: float
    widths: list[float]
    values: list[float]
    noise: float = 0.0
    extrapolated: list[float] = field(default_factory=list)
    constant: float = -math.inf
    settled: bool = True
    gain: float = 0.0
    gain_error: float = 0.0
    gain_right: float = 0.0
    angle: bool = False

    @property
    def best(self) -> float:
        """The top of a parabola through the candidates around the best one.

        All neighbours whose evidence is close take part, the closest most, so that the noise of one
        candidate moves the answer little.
        """
        top = int(np.argmax(self.values))
        if top in (0, len(self.widths) - 1):  # at a bound there may be a slope
            return self.widths[top]
        first, last = top - 1, top + 1
        close = [value > self.values[top] - FITTED for value in self.values]
        while first > 0 and close[first - 1]:
            first -= 1
        while last < len(close) - 1 and close[last + 1]:
            last += 1
        at = np.array(self.widths[first : last + 1])
        values = np.array(self.values[first : last + 1])
        weights = np.exp((values - values.max()) / 4).clip(min=1e-2)
        curve = np.polyfit(at - self.widths[top], values, 2, w=weights)
        if curve[0] >= 0:
            return self.widths[top]
        found = self.widths[top] - curve[1] / (2 * curve[0])
        return float(np.clip(found, at[0], at[-1]))

    @property
    def interval(self) -> tuple[float, float]:
        """From the smallest to the largest half-width that explains the labels about as well.

        Evidence at most 1.92 nats below the best, and twice the noise of a difference, counts as
        about as well, and half of what was extrapolated more or less than at the best; between
        candidates it is interpolated.
        """
        level = max(self.values) - DROP - 2 * 2**0.5 * self.noise
        further = np.array(self.extrapolated or [0.0] * len(self.values))
        doubt = UNSURE * np.abs(further - further[int(np.argmax(self.values))])
        points = list(zip(self.widths, (np.array(self.values) + doubt).tolist(), strict=True))
        inside = [width for width, value in points if value >= level]
        for (left, one), (right, other) in pairwise(points):
            if (one >= level) != (other >= level):
                inside.append(left + (right - left) * (level - one) / (other - one))
        return min(*inside, self.best), max(*inside, self.best)

    @property
    def told(self) -> bool:
        """Whether networks have converged and the interval is short enough to name a width."""
        low, high = self.interval
        learned = self.settled and max(self.values) > self.constant
        return learned and high - low <= TOLD * self.bound

    @property
    def chosen(self) -> float:
        """The best half-width; the whole circle where the evidence cannot tell it from a bit less.

        Almost a whole circle averages over its ends twice or not at all.
        """
        low, high = self.interval
        whole = self.angle and high >= self.widths[-1] and high - low <= TOLD * self.bound
        return self.widths[-1] if whole else self.best

    @property
    def used(self) -> float:
        """The chosen half-width if it is told or better than 0 on left out images; else 0.

        Better is a log-likelihood that is higher, with no fewer right: by more than its error, or
        by anything if the evidence has settled and its interval is above 0.
        """
        excluded = self.settled and max(self.values) > self.constant and self.interval[0] > 0
        better = self.gain > (0.0 if excluded else self.gain_error) and self.gain_right >= 0
        return self.chosen if self.told or better else 0.0


def difference_noise(first: list[float], second: list[float]) -> float:
    """Return the standard deviation of a value from two trainings of the same candidates.

    What all candidates of a training share, such as a lucky start, does not count.

    Example:
        >>> difference_noise([1.0, 2.0, 3.0], [5.0, 6.0, 7.0])
        0.0
    """
    change = np.subtract(first, second)
    return float(change.std(ddof=1) / 2**0.5)


def settled(widths: list[float], first: list[float], second: list[float]) -> bool:
    """Whether longer trainings prefer neither wider nor narrower averages than shorter ones do.

    The changes of the evidence are fitted by a line over the width. Its rise counts if it is more
    than 6 nats, than half of the differences of the evidence, and than three times its error.

    Args:
        widths: half-widths of candidates.
        first: log evidence of each.
        second: after trainings that are twice as long.

    Example:
        >>> settled([0.0, 0.5, 1.0], [-10.0, -20.0, -50.0], [-5.0, -16.0, -40.0])
        True
        >>> settled([0.0, 0.5, 1.0], [-817.0, -861.0, -916.0], [-596.0, -603.0, -624.0])
        False
    """
    at, change = np.array(widths) - np.mean(widths), np.subtract(second, first)
    slope = float(at @ change / (at @ at))
    left = change - change.mean() - slope * at
    error = (left @ left / max(len(at) - 2, 1) / (at @ at)) ** 0.5
    rise, unsure = abs(slope) * np.ptp(at), 3 * error * np.ptp(at)
    return bool(rise <= max(SETTLED, 0.5 * np.ptp(first), unsure))
