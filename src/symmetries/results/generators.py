"""Result of ``symmetries generators``: symmetries of a function of vectors, with certificates."""

from typing import Literal

from pydantic import Field

from symmetries.results.base import Record
from symmetries.results.provenance import RunInfo
from symmetries.results.showing import ShownResult

Verdict = Literal["symmetric", "not symmetric", "cannot be told"]
Law = Literal["invariant", "equivariant", "dynamics", "density"]


class VectorSummary(Record):
    """Description of a table of vectors, or of trajectories."""

    name: str
    count: int = Field(ge=0, description="rows")
    inputs: tuple[str, ...] = Field(description="names of the coordinates")
    outputs: int = Field(ge=1)
    trajectories: int | None = Field(default=None, ge=1)
    units: int | None = Field(default=None, ge=0, description="independent rows or groups of rows")
    sha256: str | None = None


class FieldGenerator(Record):
    """One generator of the algebra that was certified.

    Args:
        text: its vector field, small terms left out.
        matrix: homogeneous matrix (d + 1 rows) of the field A x + b; None for other fields.
        latex: the same for LaTeX.
        defect: how much the function changes along it, relative to random directions.
        low: lower end of the defect's interval.
        high: upper end.
    """

    text: str
    matrix: tuple[tuple[float, ...], ...] | None
    latex: str
    defect: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)


class FieldDefect(Record):
    """One defect of the spectrum of all fields, with its interval and the answer about it."""

    defect: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)
    verdict: Verdict


class FitSummary(Record):
    """The polynomials that were fitted to a table, or to the log-density of unlabelled data."""

    degree: int = Field(ge=1)
    needed: int = Field(ge=1, description="smallest degree that explains data held out as well")
    unexplained: float = Field(ge=0, description="share of the variance of data held out")
    adequate: bool = Field(description="whether residuals look like noise, or are too small")


class GeneratorResult(ShownResult):
    """Result of ``symmetries generators``.

    ``dimension`` is the least and the largest dimension that the algebra can have at this level;
    ``name`` is that of the generators that were certified.
    """

    schema_name: Literal["symmetries.generators/1"] = Field(
        default="symmetries.generators/1", alias="schema"
    )
    data: VectorSummary
    source: str
    fields: str
    law: Law
    epsilon: float = Field(gt=0)
    level: float = Field(gt=0, lt=1)
    dimension: tuple[int, int]
    name: str
    latex: str
    levi: tuple[str, ...] = ()
    radical: int = Field(default=0, ge=0)
    closure: float = Field(default=0.0, ge=0)
    span: int = Field(ge=1, description="dimension of the data")
    ignored: int = Field(ge=0, description="directions that the function does not depend on")
    generators: tuple[FieldGenerator, ...]
    spectrum: tuple[FieldDefect, ...]
    fit: FitSummary | None = None
    reason: str = ""
    coordinates: str = Field(default="", description="what primed coordinates are")
    warnings: tuple[str, ...] = ()
    run: RunInfo

    @property
    def answer(self) -> str:
        """The headline: the name of the algebra, or what cannot be told."""
        most = self.dimension[1]
        if self.reason:
            return f"cannot be told: {self.reason}"
        if self.ignored and self.fields == "linear":  # affine fields translate along them
            rest = f"any motion along {self.ignored} directions that it does not depend on"
            return rest if most == 0 else f"{self._named()}, and {rest}"
        return self._named()

    def _named(self) -> str:
        least, most = self.dimension
        if most == 0:
            return "no symmetry"
        if least == most:
            return self.name
        if least == 0:
            return f"cannot be told: at most {most} generators"
        return f"at least {self.name}; {most - least} more cannot be told"
