"""What a run of the benchmark writes: plain data with a schema, one row for each fitted cell.

Dataclasses and JSON of the standard library only, so that the benchmark runs wherever the library
does.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.planted.truth import VERDICTS

SCHEMA = "symmetries.planted/1"
STATUSES = ("answered", "refused", "unavailable", "failed")


@dataclass(frozen=True)
class FoundRow:
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
    verdict: str
    width90: float | None
    interval: tuple[float, float] | None = None
    density: tuple[float, ...] | None = None
    centre_miss: float | None = None
    top: float | None = None

    def __post_init__(self) -> None:
        _check("verdict", self.verdict, VERDICTS)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "FoundRow":
        """From what JSON gives: its lists become tuples."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})


@dataclass(frozen=True)
class Row:
    """One cell: answered, refused (the method does not apply), unavailable (no data), or failed.

    Args:
        id: of the cell.
        status: one of the four.
        seconds: of the fit and its reading, by the clock.
        run: number of the entry of runs that made it.
        reason: why there is no answer.
        processor_seconds: of this process: what counts where others have the machine, too.
        found: by parameter.
        warnings: of the method.
        told: share of the pictures whose pose could be told.
        extra: further numbers of the method.
    """

    id: str
    status: str
    seconds: float
    run: int
    reason: str = ""
    processor_seconds: float | None = None
    found: tuple[FoundRow, ...] = ()
    warnings: tuple[str, ...] = ()
    told: float | None = None
    extra: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check("status", self.status, STATUSES)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Row":
        """From what JSON gives."""
        found = tuple(FoundRow.from_plain(one) for one in data["found"])
        return cls(**{**data, "found": found, "warnings": tuple(data["warnings"])})


@dataclass(frozen=True)
class Results:
    """All rows of a method, and the runs that made them (command, commit, device, versions).

    Args:
        method: its name.
        design: SHA-256 of the text of the cells.
        runs: one entry for each.
        rows: one for each cell.
        schema_name: of this layout.
    """

    method: str
    design: str
    runs: tuple[dict[str, Any], ...] = ()
    rows: tuple[Row, ...] = ()
    schema_name: str = SCHEMA

    def __post_init__(self) -> None:
        _check("schema_name", self.schema_name, (SCHEMA,))

    def save(self, path: Path) -> None:
        """Write whole or not at all, one line for each row."""
        head = {"schema_name": self.schema_name, "method": self.method}
        head |= {"design": self.design, "runs": list(self.runs)}
        lines = ",\n".join("  " + json.dumps(asdict(r), allow_nan=False) for r in self.rows)
        text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read and check a file."""
        plain = json.loads(path.read_text())
        rows = tuple(Row.from_plain(row) for row in plain["rows"])
        return cls(**{**plain, "runs": tuple(plain["runs"]), "rows": rows})

    def joined(self, other: "Results") -> "Results":
        """Rows of two files of one method; where both have a cell, the other's counts."""
        if (self.method, self.design) != (other.method, other.design):
            raise ValueError(
                "other: expected the same method and design, got another; run it again"
            )
        both = replace(self, runs=(*self.runs, *other.runs))
        for row in other.rows:
            both = both.plus(replace(row, run=row.run + len(self.runs)))
        return both

    def plus(self, row: Row) -> "Results":
        """The same with a row, which takes the place of an older one of its cell."""
        others = tuple(one for one in self.rows if one.id != row.id)
        return replace(self, rows=(*others, row))


def _check(name: str, got: str, expected: tuple[str, ...]) -> None:
    if got not in expected:
        text = f"{name}: expected one of {', '.join(expected)}, got {got!r}"
        raise ValueError(f"{text}; the file is of another version")
