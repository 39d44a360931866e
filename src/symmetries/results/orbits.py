"""Result of ``symmetries orbit``: how much images change along each parameter of a group."""

from typing import Literal

from pydantic import Field

from symmetries.results.base import Record
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult


class OrbitCurve(Record):
    """How much images change along one parameter of a group.

    Args:
        name: of the parameter.
        unit: "degrees", "pixels", "factor", ...
        values: of the parameter, ascending, in that unit.
        change: root-mean-square change of a pixel at each value, mean over the images.
        change_low: its 10 % quantile over the images.
        change_high: its 90 % quantile over the images.
        reach: largest interval around "no transformation" in which images change, on average,
            less than they differ from their nearest neighbour; None if it is all of ``values``.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    change: tuple[float, ...]
    change_low: tuple[float, ...]
    change_high: tuple[float, ...]
    reach: tuple[float, float] | None


class OrbitResult(ShownResult):
    """Result of ``symmetries orbit``: a curve of change for each parameter of a group.

    ``neighbour_distance`` is the median over the images of the root-mean-square difference to the
    nearest other image: a change larger than that leaves the data set.
    """

    schema_name: Literal["symmetries.orbit/1"] = Field(default="symmetries.orbit/1", alias="schema")
    group: tuple[str, ...]
    data: DataSummary
    neighbour_distance: float = Field(ge=0)
    transformations: tuple[OrbitCurve, ...]
    run: RunInfo
