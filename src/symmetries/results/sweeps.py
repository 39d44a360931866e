"""Result of ``symmetries sweep``: the trials of a search over settings."""

from typing import Literal

from pydantic import Field

from symmetries.results.base import Record
from symmetries.results.provenance import RunInfo
from symmetries.results.showing import ShownResult


class Trial(Record):
    """One run of a sweep; ``value`` is None unless it was completed."""

    number: int = Field(ge=0)
    state: Literal["complete", "pruned", "fail", "running", "waiting"]
    value: float | None
    settings: dict[str, bool | int | float | str | None]
    numbers: dict[str, float]
    seconds: float = Field(ge=0)


class SweepResult(ShownResult):
    """Result of ``symmetries sweep`` so far: its trials, best first."""

    schema_name: Literal["symmetries.sweep/1"] = Field(default="symmetries.sweep/1", alias="schema")
    learner: str
    data: str
    measure: str
    direction: Literal["maximize", "minimize"]
    settings: dict[str, bool | int | float | str | None]
    trials: tuple[Trial, ...]
    run: RunInfo
