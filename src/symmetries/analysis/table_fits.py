"""Functions fitted to tables: polynomials of x for y, for a power of y, or for a log-density."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.analysis.tables import VectorTable
from symmetries.lie.charts import data_chart
from symmetries.lie.densities import choose_density_degree, fit_log_density
from symmetries.lie.fitting import UNDETERMINED, FitQuality, choose_degree, determined, rows_needed
from symmetries.lie.functions import SINGULAR, Function, fit_polynomial
from symmetries.lie.surfaces import vanishing

POWERS = (2.0, 0.5, 0.0, -0.5, -1.0, -2.0)  # 0 is the logarithm
BETTER = 10  # times less that is left unexplained, for a power of y instead of y
ENOUGH = 5000  # rows that choose the power


@dataclass(frozen=True)
class TableFit:
    """How a function is fitted to rows of a table.

    Args:
        fit: from indices of rows to the function that is fitted to them.
        quality: of the fit to all rows.
        surface: functions that are 0 on all data, or None.
        source: the fit in words.
    """

    fit: Callable[[Tensor], Function]
    quality: FitQuality
    surface: Function | None
    source: str


def fit_table(table: VectorTable, law: str, degree: int | None, first: Tensor) -> TableFit:
    """Choose the fit to a table, on its first half.

    A positive y, its powers and its logarithm are invariant under the same fields. If polynomials
    explain one of them much better (of distances: their squares), it takes the place of y.

    Args:
        table: with outputs, unless ``law`` is "density".
        law: as in :func:`symmetries.generators`.
        degree: of the polynomials; None chooses.
        first: indices of the rows that may choose.
    """
    x, y = table.x, table.y
    if law == "density":
        density = choose_density_degree(x, first, degree)
        source = f"polynomial of degree {density.degree}"
        return TableFit(lambda r: fit_log_density(x[r], density.degree), density, None, source)
    if y is None:
        remedy = 'give y=..., target=... or model=..., or law="density" for the distribution of x'
        raise invalid("y", "outputs, or a model", "neither", remedy)
    # Polynomials of columns that are correlated or dependent cannot be told apart: of coordinates
    # that have unit covariance they can.
    hull = data_chart(x, "affine")
    z = hull.coordinates(x)
    power = 1.0
    few = first[:ENOUGH]
    positive = law == "invariant" and y.shape[1] == 1 and bool((y > 0).all())
    if positive and len(few) >= rows_needed(hull.dim):
        power = _best_power(z[few], y[few], degree, table.units[few])
    outputs = raised(y, power)
    quality, curved = _degree(z, outputs, first, degree, table.units, law)
    singular = UNDETERMINED if curved else SINGULAR

    def on_hull(function: Function) -> Function:
        return lambda points: function(hull.coordinates(points))

    def fit(rows: Tensor) -> Function:
        return on_hull(fit_polynomial(z[rows], outputs[rows], quality.degree, singular=singular))

    source = f"polynomial of degree {quality.degree}"
    if power != 1:
        source += f" for the power {power:g} of y" if power else " for the logarithm of y"
    equations = vanishing(z, quality.degree) if curved else None
    if equations is None:
        return TableFit(fit, quality, None, source)
    source += f" on a surface of {equations.coefficients.shape[1]} equations"
    return TableFit(fit, quality, on_hull(equations), source)


def raised(y: Tensor, power: float) -> Tensor:
    """Raise positive numbers, relative to their median, to a power; 0 is the logarithm, 1 y itself.

    Example:
        >>> raised(torch.tensor([1.0, 2.0, 4.0]), 2.0)
        tensor([0.2500, 1.0000, 4.0000])
    """
    if power == 1:
        return y
    relative = y / y.median()
    return relative.log() if power == 0 else relative**power


def _best_power(z: Tensor, y: Tensor, degree: int | None, units: Tensor) -> float:
    """The power of positive outputs that polynomials explain best; 1 if none is much better."""
    half = torch.arange(len(z) // 2)  # rows were drawn in random order
    missed = {1.0: _degree(z, y, half, degree, units, "invariant")[0].unexplained / BETTER}
    for power in POWERS:
        quality, _ = _degree(z, raised(y, power), half, degree, units, "invariant")
        missed[power] = quality.unexplained
    return min(missed, key=lambda power: missed[power])


def _degree(
    z: Tensor, y: Tensor, first: Tensor, degree: int | None, units: Tensor, law: str
) -> tuple[FitQuality, bool]:
    """Return the quality of a fit, and whether the equations of a surface belong to it."""
    choose = partial(choose_degree, z, y, first, degree, units)
    if law != "invariant":
        return choose(), False
    if degree is not None:
        curved = not determined(z[first], degree)
        return choose(surfaces=curved), curved
    quality = choose()
    return (choose(surfaces=True), True) if quality.undetermined else (quality, False)
