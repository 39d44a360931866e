"""Records of the benchmarks of generators: rows, a summary, and what they depend on."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import environment

RESULTS = Path(__file__).parent / "results"


def record(
    name: str,
    summary: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    started: float,
    settings: Mapping[str, Any],
) -> Path:
    """Write a result to ``benchmarks/generators/results/NAME.json``.

    Args:
        name: of the benchmark.
        summary: the numbers that the documentation shows.
        rows: one mapping for each run.
        started: when the runs began, by ``time.perf_counter``.
        settings: of the runs, with their seeds.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {
        "name": name,
        **environment(),
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "settings": dict(settings),
        "summary": dict(summary),
        "rows": [dict(row) for row in rows],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path}")
    print(json.dumps(content["summary"], indent=1))
    return path
