"""From a function and points to the equations of its symmetries, and their solution."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_finite, invalid
from symmetries.lie.bases import simple_basis
from symmetries.lie.charts import RANK, Chart, data_chart, ignored_axes, tied_chart
from symmetries.lie.fields import (
    Field,
    FieldFamily,
    custom_fields,
    field_family,
    fields_on_axes,
    monomial_count,
    polynomial_fields,
    tied_fields,
)
from symmetries.lie.functions import Function, as_function
from symmetries.lie.krylov import best_fields
from symmetries.lie.names import AlgebraName, name_algebra
from symmetries.lie.polarisation import LAWS, Problem, Spectrum
from symmetries.lie.predictors import Predictor
from symmetries.lie.surfaces import slope_ratio

DEGREES = {"quadratic": 2, "cubic": 3}
FIELDS = ("linear", "affine", *DEGREES)
MOST = 12_000  # unknown numbers, whose triangular factor has about a gigabyte
DIRECT = 1000  # unknown numbers, up to which that factor is used where an iterative solver could be
LARGEST = 1e100  # outputs whose squares can be computed with


@dataclass(frozen=True)
class Search:
    """The symmetries of one function among one family of fields, as linear equations.

    Args:
        problem: in coordinates z.
        chart: of the data.
        coordinates: of the points, (n, r).
        ignored: number of directions that the function does not depend on.
        scale: from a function to one with outputs of unit size.
        kind: of the fields, as they were asked for.
        unsearched: number of fields that were left out, of very many, and may be symmetries too.
        faint: largest slope along an ignored direction, relative to that along a random one.
    """

    problem: Problem
    chart: Chart
    coordinates: Tensor
    ignored: int
    scale: Callable[[Function], Function]
    kind: str
    unsearched: int = 0
    faint: float = 0.0

    def of(self, function: Function, points: Tensor) -> "Search":
        """The same fields and units for another function (n, d) -> (n, m), at other points."""
        pulled = self.chart.pull_back(self.scale(function))
        return replace(
            self,
            problem=replace(self.problem, function=pulled),
            coordinates=self.chart.coordinates(points.double()),
        )

    @property
    def family(self) -> FieldFamily:
        """The fields, in coordinates z."""
        return self.problem.family

    def spectrum(self) -> Spectrum:
        """Return the spectrum of defects over all points."""
        return self.problem.spectrum(self.problem.measure(self.coordinates))

    def matrices(self, theta: Tensor) -> Tensor:
        """Homogeneous matrices (k, d + 1, d + 1) of linear or affine fields theta (k, p) in x."""
        if self.family.kind not in ("linear", "affine"):
            remedy = "fields of other families have no matrices"
            raise invalid("fields", "linear or affine", self.family.kind, remedy)
        fields = self.family.combine(theta[:, : self.family.size])
        if self.chart.single is not None:  # blocks of one vector
            rows = self.chart.single.dim
            fields = fields[:, :rows, : rows + (self.family.kind == "affine")]
        return self.chart.matrices(fields)


def search(
    model: Function | Predictor,
    points: Tensor,
    fields: str | Sequence[Field] = "linear",
    law: str = "invariant",
    ignore: float = RANK,
    first: Tensor | None = None,
    vectors: int = 1,
    surface: Function | None = None,
) -> Search:
    """Set up the search for the symmetries of a function.

    Args:
        model: from points (n, d) to outputs (n, m) or (n,): a module, a callable or an estimator.
        points: (n, d), where the function is used.
        fields: "linear", "affine", "quadratic", "cubic", or functions from points to velocities.
        law: "invariant": df(v) = 0; "equivariant": df(v) = B f for any matrix B; "dynamics": the
            function is the velocity of a system that the flow of v carries into itself; "density":
            it is a log-density, which the flow of a linear or affine v keeps.
        ignore: directions along which the function changes by at most this share are translated
            along by affine fields, and not otherwise searched; linear fields leave out those that
            it does not depend on at all.
        first: indices of the points that decide which directions these are; all by default.
        vectors: number of vectors that a point consists of and that one linear or affine field
            moves together: d is a multiple of it.
        surface: functions of points that are 0 on all data, which symmetries have to leave alone.
    """
    check_choice(law, LAWS, "law")
    points = points.double()
    check_finite(points, "x")
    kind = _kind(fields)
    function = as_function(model, points)
    chart = data_chart(points, kind) if vectors == 1 else tied_chart(points, kind, vectors)
    z = chart.coordinates(points)
    scale = _unit_outputs(function, points, law, chart)
    if surface is not None:
        scale = _on_surface(scale, surface, function, chart, z)
    pulled = chart.pull_back(scale(function))
    ignored, unsearched = torch.zeros(0, chart.dim, dtype=torch.float64), 0
    faint = 0.0
    if vectors > 1 or law == "density":
        check_choice(kind, ("linear", "affine"), "fields")
        _check_unknowns((chart.dim // vectors) ** 2)
        family = tied_fields(kind, chart.dim // vectors, vectors)
    elif law == "invariant" and kind in ("linear", "affine"):
        threshold = ignore if kind == "affine" else RANK  # linear fields cannot be tested there
        kept, ignored, faint = ignored_axes(pulled, z if first is None else z[first], threshold)
        unknowns = len(kept) * (len(kept) + (kind == "affine"))
        if unknowns > DIRECT:
            chosen = torch.arange(len(z)) if first is None else first
            family, complete = best_fields(pulled, z, kind, chosen, kept, ignored, ignore)
            unsearched = 0 if complete else unknowns + len(ignored) - family.size
        else:
            outward = chart.orthogonal_to(ignored) if len(ignored) else None
            family = fields_on_axes(kind, kept, ignored, outward)
    elif kind == "custom":
        family = custom_fields([_in_chart(f, chart) for f in fields if callable(f)], chart.dim)
    else:
        _check_unknowns(chart.dim * monomial_count(chart.dim, DEGREES.get(kind, 1)))
        family = (
            polynomial_fields(chart.dim, DEGREES[kind])
            if kind in DEGREES
            else field_family(kind, chart.dim)
        )
    outputs = pulled(z[:1]).shape[1]
    problem = Problem(pulled, family, law, outputs)
    _check_unknowns(problem.unknowns)
    return Search(problem, chart, z, len(ignored), scale, kind, unsearched, faint)


def _check_unknowns(count: int) -> None:
    if count > MOST:
        remedy = "use fewer coordinates, such as principal ones"
        raise invalid("x", f"at most {MOST} unknown numbers", f"{count}", remedy)


def _kind(fields: str | Sequence[Field]) -> str:
    if isinstance(fields, str):
        check_choice(fields, FIELDS, "fields")
        return fields
    if not fields or not all(callable(field) for field in fields):
        raise invalid("fields", "functions of points (n, d)", fields, f"or one of {FIELDS}")
    return "custom"


def _in_chart(field: Field, chart: Chart) -> Field:
    def moved(z: Tensor) -> Tensor:
        return field(chart.offset + z @ chart.frame.T) @ chart.inverse.T

    moved.__name__ = getattr(field, "__name__", "field")
    return moved


def _on_surface(
    scale: Callable[[Function], Function],
    surface: Function,
    function: Function,
    chart: Chart,
    z: Tensor,
) -> Callable[[Function], Function]:
    """The scaling of outputs, with the equations of a surface as further ones, of equal slopes."""
    factor = slope_ratio(chart.pull_back(scale(function)), chart.pull_back(surface), z)
    return lambda f: lambda x: torch.cat((scale(f)(x), factor * surface(x)), 1)


def _unit_outputs(
    function: Function, points: Tensor, law: str, chart: Chart
) -> Callable[[Function], Function]:
    """Return how outputs get unit size; velocities are those of the coordinates of the chart."""
    if law == "dynamics":
        if function(points[:1]).shape[1] != points.shape[1]:
            expected = f"velocities of {points.shape[1]} coordinates"
            got = f"{function(points[:1]).shape[1]} outputs"
            raise invalid("model", expected, got, "give the right-hand side of the equation")
        return lambda f: lambda x: f(x) @ chart.inverse.T
    if law == "density":  # its slopes have the units of the divergence
        return lambda f: f
    with torch.no_grad():
        outputs = torch.cat([function(part) for part in points.split(4096)])
    check_finite(outputs, "model")
    largest = float(outputs.abs().max())
    if not 1 / LARGEST < largest < LARGEST and largest > 0:
        expected = f"outputs of a size between {1 / LARGEST:g} and {LARGEST:g}"
        raise invalid("model", expected, f"up to {largest:g}", "choose other units")
    size = outputs.std(0)
    varies = size > 1e-12 * outputs.abs().amax(0)
    if not bool(varies.any()):
        got = "the same output for all data"
        raise invalid("model", "a function that varies", got, "every field is a symmetry of it")
    kept = varies.nonzero()[:, 0] if law == "invariant" else torch.arange(len(size))
    scale = torch.where(varies, size, outputs.abs().amax(0).clamp_min(1e-300))[kept]
    return lambda f: lambda x: f(x)[:, kept] / scale


@dataclass(frozen=True)
class ExactSymmetries:
    """The Lie algebra of a function that is known exactly.

    Args:
        matrices: a simple basis of its generators, homogeneous matrices (k, d + 1, d + 1).
        name: of the algebra.
        spectrum: of defects.
        ignored: number of directions that the function does not depend on.
    """

    matrices: Tensor
    name: AlgebraName
    spectrum: Spectrum
    ignored: int

    @property
    def dim(self) -> int:
        """Dimension of the algebra."""
        return len(self.matrices)


def exact_symmetries(
    model: Function,
    points: Tensor,
    fields: str = "linear",
    law: str = "invariant",
    tolerance: float = 1e-9,
) -> ExactSymmetries:
    """Return the symmetries of a function whose derivatives are exact, such as a formula.

    Args:
        model: as in :func:`search`.
        points: (n, d).
        fields: "linear" or "affine".
        law: as in :func:`search`.
        tolerance: defects at most this large count as zero.

    Example:
        >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> found = exact_symmetries(lambda x: x.square().sum(-1), x)
        >>> found.dim, found.name.text
        (3, 'so(3)')
    """
    found = search(model, points, fields, law)
    spectrum = found.spectrum()
    count = int((spectrum.defects <= tolerance).sum())
    matrices = simple_basis(found.matrices(spectrum.theta[:count]))
    return ExactSymmetries(matrices, name_algebra(matrices), spectrum, found.ignored)
