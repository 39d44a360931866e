"""Records of the benchmarks of generators: rows, a summary, and what they depend on."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import environment

RESULTS = Path(__file__).parent / "results"


class Clock:
    """What a run depends on, and the time, when it begins."""

    def __init__(self) -> None:
        self.environment = environment()
        self.started = time.perf_counter()

    def minutes(self) -> float:
        """Minutes since then."""
        return round((time.perf_counter() - self.started) / 60, 1)


def record(
    name: str,
    summary: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    clock: Clock,
    settings: Mapping[str, Any],
) -> Path:
    """Write a result to ``benchmarks/generators/results/NAME.json``.

    Args:
        name: of the benchmark.
        summary: the numbers that the documentation shows.
        rows: one mapping for each run.
        clock: started when the runs began.
        settings: of the runs, with their seeds.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {
        "name": name,
        **clock.environment,
        "minutes": clock.minutes(),
        "settings": dict(settings),
        "summary": dict(summary),
        "rows": [dict(row) for row in rows],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path}")
    print(json.dumps(content["summary"], indent=1))
    return path
