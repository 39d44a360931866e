"""Writes the JSON schemas of all results to docs/schemas, one file for each kind and version.

Run with: .venv/bin/python docs/schemas.py
"""

import json
from pathlib import Path

from symmetries.results import (
    AuditResult,
    AugmentResult,
    FitResult,
    GeneratorResult,
    OrbitResult,
    PrescribeResult,
    Result,
    SweepResult,
    SymmetryResult,
    WatchResult,
    WrapResult,
)

FOLDER = Path(__file__).parent / "schemas"
KINDS: tuple[type[Result], ...] = (
    *(SymmetryResult, FitResult, AuditResult, OrbitResult, SweepResult, GeneratorResult),
    AugmentResult,
    PrescribeResult,
    WatchResult,
    WrapResult,
)


def schemas() -> dict[str, str]:
    """The schemas by name of the file."""
    found = {}
    for kind in KINDS:
        name = kind.model_fields["schema_name"].default
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
        schema |= {k: v for k, v in kind.model_json_schema().items() if k != "title"}
        found[name.replace("/", "-") + ".json"] = json.dumps(schema, indent=2) + "\n"
    return found


if __name__ == "__main__":
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
