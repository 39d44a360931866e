"""Polynomials fitted to a table: the choice of a degree, and a test of what is not explained."""

import math
from dataclasses import dataclass

import torch
from scipy.stats import poisson
from torch import Tensor

from symmetries._validation.checks import check_finite, invalid
from symmetries.lie.fields import monomial_count, monomial_values, monomials
from symmetries.lie.functions import SINGULAR, fit_polynomial

HIGHEST = 5
PER_COEFFICIENT = 4  # data for each coefficient, at least
MOST_COEFFICIENTS = 500
UNDETERMINED = 1e-7  # numbers in single precision have errors of 6e-8
LOOKED_AT = 20_000  # points that tell whether polynomials differ
NEIGHBOURS = 4000  # points that the test of the residuals looks at
STRAY = 8.0  # times the usual residual
CARRIED = 0.5  # of the variance, by rows that are that far from the fit
RARE = 0.00135  # probability of three standard errors
LARGE = 4.0  # times the usual residual; of normal noise one in 16,000 is that large


@dataclass(frozen=True)
class FitQuality:
    """How well polynomials explain a table.

    Args:
        degree: of the polynomials that certificates use: one more than is needed, if there is data
            for it, so that what the fit smooths away is not mistaken for a symmetry.
        needed: the smallest degree whose error on data held out is within one standard error of
            the smallest.
        unexplained: share of the variance of data held out that is not explained.
        structure: how many standard errors the residuals of nearest neighbours are correlated by.
        explained: by how many standard errors the fit is better than a constant on data held out,
            by the mean of what it gains or, as few rows may carry that, by its sign.
        undetermined: whether the next degree has polynomials that are 0 on all data, so that data
            cannot tell slopes across the surface that it lies on.
        highest: whether data held out asks for the highest degree that is tried, so that the
            function may need a higher one.
        strays: numbers, from 1, of rows whose residuals are more than eight times the usual one,
            the farthest first.
        stray_share: of the variance of data, that the residuals of these rows have.
    """

    degree: int
    needed: int
    unexplained: float
    structure: float
    explained: float = math.inf
    undetermined: bool = False
    highest: bool = False
    strays: tuple[int, ...] = ()
    stray_share: float = 0.0

    def adequate(self, epsilon: float) -> bool:
        """Whether nothing in the residuals says that the polynomial misses part of the function.

        Residuals that are too small to matter at this epsilon need not look like noise: the slope
        of what a polynomial misses can be the square of its degree times as large (Markov's
        inequality). A fit that is no better than a constant on data held out says nothing, nor does
        one of outputs whose variance is mostly that of rows that it does not explain.
        """
        if self.explained < 3 or self.undetermined or self.strayed:
            return False
        small = self._slopes(self.unexplained) < epsilon / 2
        return (self.structure < 3 and not self.highest) or small

    @property
    def strayed(self) -> bool:
        """Whether rows far from the fit have most of the variance."""
        return self.stray_share > CARRIED

    def stray_warning(self, epsilon: float) -> str:
        """A warning about rows far from the fit, if they matter at this epsilon, or nothing."""
        if self._slopes(self.stray_share) < epsilon / 2:
            return ""
        several = len(self.strays) > 1
        return (
            f"{len(self.strays)} row{'s' if several else ''} ({_listed(self.strays)}) "
            f"{'are' if several else 'is'} farther from the fit than {STRAY:g} times the usual "
            "residual. If that is no noise, the function differs there from its fit, and so may "
            "its symmetries: look at them, leave them out, or give a trained model."
        )

    def _slopes(self, share: float) -> float:
        """Size of the slopes that a part of the variance may have, relative to that of the fit."""
        return self.degree**2 * math.sqrt(max(share, 0.0))


def choose_degree(
    points: Tensor,
    outputs: Tensor,
    first: Tensor,
    degree: int | None,
    units: Tensor | None = None,
    surfaces: bool = False,
) -> FitQuality:
    """Choose the degree on the first half of the data, and test the fit on all of it.

    Outputs count alike, each by its standard deviation: in whatever units, none hides what is
    missed of another.

    Args:
        points: (n, d).
        outputs: (n, m).
        first: indices of the data that may choose.
        degree: as given; None chooses.
        units: that rows belong to (n,); neighbours are looked for in other units.
        surfaces: whether degrees of which polynomials are 0 on all data may be used.
    """
    check_finite(points, "x")
    check_finite(outputs, "y")
    fitted, held_out = first[: len(first) // 2], first[len(first) // 2 :]
    limit = min(len(fitted) // PER_COEFFICIENT, MOST_COEFFICIENTS)
    sizes = [monomial_count(points.shape[1], n) for n in range(1, HIGHEST + 1)]
    if limit < sizes[0]:
        expected = f"at least {rows_needed(points.shape[1])} rows to fit a function"
        raise invalid("data", expected, len(points), "give more data, or a model")
    deviation = outputs.std(0)
    varies = deviation > 1e-12 * outputs.abs().amax(0)
    if not bool(varies.any()):
        got = "the same numbers in all rows"
        raise invalid("y", "outputs that vary", got, "every field is a symmetry of them")
    outputs = outputs / torch.where(varies, deviation, 1.0)
    if degree is not None and not surfaces and not determined(points[first], degree):
        got = f"{degree}, though a polynomial of this degree is 0 on all data"
        remedy = "slopes are not known then: give a lower degree, or a model"
        raise invalid("degree", "one whose polynomials differ on the data", got, remedy)
    known, surface = [1], False
    for n, size in enumerate(sizes[1:], 2):
        surface = size <= limit and not surfaces and not determined(points[first], n)
        if size > limit or surface:
            break
        known.append(n)
    singular = UNDETERMINED if surfaces else SINGULAR
    needed = (
        degree
        if degree is not None
        else _needed(points, outputs, fitted, held_out, known, singular)
    )
    used = degree if degree is not None else min(needed + 1, known[-1])
    whole = torch.arange(len(points))
    second = whole[~torch.isin(whole, first)]
    rest, plain = torch.empty_like(outputs), torch.empty_like(outputs)
    scaled = torch.zeros(len(points), dtype=outputs.dtype)
    for here, there in ((first, second), (second, first)):
        fitted_here = fit_polynomial(points[here], outputs[here], used, singular=singular)
        rest[there] = outputs[there] - fitted_here(points[there])
        plain[there] = outputs[there] - outputs[here].mean(0)
        scaled[there] = _scaled(rest[there]).abs().amax(1)  # of each fit: few rows may bend one
    spread = (outputs - outputs.mean(0)).square().sum(0)
    unexplained = float(rest.square().sum() / spread.sum()) if spread.sum() > 0 else 0.0
    structure = residual_structure(points, rest, units)
    scale = torch.where(spread > 0, spread, 1.0).sqrt()
    gain = (plain / scale).square().sum(1) - (rest / scale).square().sum(1)
    explained = max(_standard_errors(gain), _standard_errors(gain.sign()))
    undetermined = surface and degree is None and used == needed
    highest = degree is None and needed == HIGHEST
    far = scaled.argsort(descending=True)[: int((scaled > STRAY).sum())]
    strays = tuple((far + 1).tolist())
    share = float(rest[far].square().sum() / spread.sum()) if spread.sum() > 0 else 0.0
    tests = (structure, explained, undetermined, highest)
    return FitQuality(used, needed, unexplained, *tests, strays, share)


def rows_needed(dim: int) -> int:
    """Rows that a fit of degree 1 needs: a quarter of them is fitted to choose the degree."""
    return 4 * PER_COEFFICIENT * monomial_count(dim, 1)


def _standard_errors(values: Tensor) -> float:
    """Return the mean of values (n,) in standard errors."""
    spread = float(values.std())
    return float(values.mean()) / spread * math.sqrt(len(values)) if spread > 0 else math.inf


def determined(points: Tensor, degree: int) -> bool:
    """Whether data tells all polynomials of a degree apart.

    If not, some polynomial is 0 on all points: they are discrete, or lie on a curved surface, such
    as a sphere. Slopes across it are not known then.

    Args:
        points: (n, d).
        degree: of the polynomials.

    Example:
        >>> turns = torch.arange(40, dtype=torch.float64)
        >>> circle = torch.stack((turns.cos(), turns.sin()), 1)
        >>> determined(circle, 1), determined(circle, 2)
        (True, False)
    """
    if len(points) < monomial_count(points.shape[1], degree):
        return False
    points = points[:: -(-len(points) // LOOKED_AT)]
    spread = points.std(0)
    scaled = (points - points.mean(0)) / torch.where(spread > 0, spread, 1.0)
    features = monomial_values(scaled, monomials(points.shape[1], degree))
    size = torch.linalg.svdvals(features / features.norm(dim=0))
    return len(size) == features.shape[1] and bool(size[-1] > UNDETERMINED * size[0])


def _needed(
    points: Tensor,
    outputs: Tensor,
    fitted: Tensor,
    held_out: Tensor,
    known: list[int],
    singular: float,
) -> int:
    """The smallest degree that is within one standard error of the best, on data held out."""
    errors = []
    for n in known:
        guess = fit_polynomial(points[fitted], outputs[fitted], n, singular=singular)
        missed = (guess(points[held_out]) - outputs[held_out]).square().sum(1)
        errors.append(missed)
    best = min(range(len(errors)), key=lambda i: float(errors[i].mean()))
    floor = 1e-20 * float(outputs.square().mean())
    for n, missed in zip(known, errors, strict=True):
        excess = missed - errors[best]
        if float(excess.mean()) <= float(excess.std()) / math.sqrt(len(excess)) + floor:
            return n
    return known[best]


def residual_structure(points: Tensor, residuals: Tensor, units: Tensor | None = None) -> float:
    """Correlation of the residuals of nearest neighbours, in standard errors; 0 for pure noise.

    A function that differs from the fit in a small region only leaves few large residuals, which
    are each other's neighbours; noise with heavy tails leaves them anywhere. If more pairs of
    neighbours are large, with the same sign, than chance makes with the probability of three
    standard errors, the answer is infinite.

    Args:
        points: (n, d).
        residuals: (n, m).
        units: that rows belong to (n,); rows of one unit are no neighbours.

    Example:
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]
        >>> residual_structure(x, torch.sin(9 * x)) > 3
        True
        >>> noise = torch.randn(200, 1, generator=torch.Generator().manual_seed(0)).double()
        >>> abs(residual_structure(x, noise)) < 3
        True
    """
    units = torch.arange(len(points)) if units is None else units
    if len(points) > NEIGHBOURS:
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))
        points, residuals, units = (part[order[:NEIGHBOURS]] for part in (points, residuals, units))
    scale = points.std(0)
    scaled = points / torch.where(scale > 0, scale, 1.0)
    distances = torch.cdist(scaled, scaled)
    nearest = distances.masked_fill_(units[:, None] == units, torch.inf).argmin(1)
    if _large_together(residuals, nearest):
        return math.inf
    size = residuals.std(0)
    unit = (residuals - residuals.mean(0)) / torch.where(size > 0, size, 1.0)
    products = (unit * unit[nearest]).mean(1)
    error = float(products.std()) / math.sqrt(len(products) / 2)  # pairs are counted twice, mostly
    return float(products.mean()) / error if error > 0 else 0.0


def _large_together(residuals: Tensor, nearest: Tensor) -> bool:
    """Whether rows with large residuals (n, m) have such rows as nearest neighbours (n,)."""
    for column in _scaled(residuals).T:
        signs = (column > LARGE).int() - (column < -LARGE).int()
        seen = float((signs * signs[nearest] > 0).sum()) / 2  # pairs are counted twice, mostly
        expected = max(float(signs.abs().sum()) ** 2 / len(signs) / 2, 0.05)
        if seen > 1 and poisson.sf(seen - 0.5, expected) < RARE / residuals.shape[1]:
            return True
    return False


def _scaled(residuals: Tensor) -> Tensor:
    """Residuals (n, m) in units of their usual size, by medians, which few rows do not change."""
    centred = residuals - residuals.median(0).values
    usual = centred.abs().median(0).values / 0.6745
    return centred / torch.where(usual > 0, usual, 1.0)


def _listed(rows: tuple[int, ...]) -> str:
    return ", ".join(str(row) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
