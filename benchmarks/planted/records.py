"""What a run of the benchmark writes: plain data with a schema, one row for each fitted cell."""

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "symmetries.planted/1"


class Record(BaseModel):
    """Plain, frozen data; an unknown field, a NaN or an infinity is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FoundRow(Record):
    """What was found of one parameter.

    Args:
        name: of the parameter.
        verdict: of the method.
        width90: as the method shows it, in degrees, pixels or as a ratio.
        interval: its ends, if the method gives one.
        density: masses in the benchmark's bins, every picture's density laid on its centre, then
            averaged.
        centre_miss: median distance of those centres from the canonical pose, as shown.
        top: mean probability of the likeliest element of a finite group.
    """

    name: str
    verdict: Literal["absent", "partial", "full", "cannot be told"]
    width90: float | None
    interval: tuple[float, float] | None = None
    density: tuple[float, ...] | None = None
    centre_miss: float | None = None
    top: float | None = None


class Row(Record):
    """One cell: answered, refused (the method does not apply), unavailable (no data), or failed."""

    id: str
    status: Literal["answered", "refused", "unavailable", "failed"]
    reason: str = ""
    seconds: float = Field(ge=0, description="of the fit and its reading, by the clock")
    processor_seconds: float | None = Field(
        default=None, description="of this process: what counts where others have the machine, too"
    )
    found: tuple[FoundRow, ...] = ()
    warnings: tuple[str, ...] = ()
    told: float | None = None
    extra: dict[str, float] = Field(default_factory=dict)
    run: int = Field(ge=0, description="number of the entry of runs that made it")


class Results(Record):
    """All rows of a method, and the runs that made them (command, commit, device, versions)."""

    schema_name: Literal["symmetries.planted/1"] = SCHEMA
    method: str
    design: str = Field(description="SHA-256 of design.json")
    runs: tuple[dict[str, Any], ...] = ()
    rows: tuple[Row, ...] = ()

    def save(self, path: Path) -> None:
        """Write whole or not at all, one line for each row."""
        head = self.model_dump(mode="json", exclude={"rows"})
        lines = ",\n".join("  " + row.model_dump_json() for row in self.rows)
        text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read and check a file."""
        return cls.model_validate_json(path.read_text())

    def joined(self, other: "Results") -> "Results":
        """Rows of two files of one method; where both have a cell, the other's counts."""
        if (self.method, self.design) != (other.method, other.design):
            raise ValueError(
                "other: expected the same method and design, got another; run it again"
            )
        both = self.model_copy(update={"runs": (*self.runs, *other.runs)})
        for row in other.rows:
            both = both.plus(row.model_copy(update={"run": row.run + len(self.runs)}))
        return both

    def plus(self, row: Row) -> "Results":
        """The same with a row, which takes the place of an older one of its cell."""
        others = tuple(one for one in self.rows if one.id != row.id)
        return self.model_copy(update={"rows": (*others, row)})
