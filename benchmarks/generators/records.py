"""Records of the benchmarks of generators: rows, a summary, and what they depend on."""

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment

RESULTS = Path(__file__).parent / "results"


class Clock:
    """What a run depends on, and the time, when it begins."""

    def __init__(self) -> None:
        self.environment = environment()
        self.started = time.perf_counter()
        self.before = 0.0  # minutes of rows that were stored earlier

    def minutes(self) -> float:
        """Minutes since then, and before."""
        return round(self.before + (time.perf_counter() - self.started) / 60, 1)


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


def parallel(
    run: Callable[..., dict[str, object]],
    arguments: Sequence[tuple[object, ...]],
    workers: int,
    chunk: int = 8,
) -> Iterator[dict[str, object]]:
    """Rows of many independent runs, in order, from processes of one thread each.

    Args:
        run: a function of a module, from arguments to a row.
        arguments: of each run.
        workers: processes; 1 runs here.
        chunk: runs that a process is given at a time.
    """
    torch.set_num_threads(1)
    if workers == 1:
        for each in arguments:
            yield run(*each)
        return
    with multiprocessing.get_context("spawn").Pool(workers, torch.set_num_threads, (1,)) as pool:
        yield from pool.imap(_Apply(run), arguments, chunksize=chunk)


class _Apply:
    """A function of a tuple, which other processes can be sent."""

    def __init__(self, run: Callable[..., dict[str, object]]) -> None:
        self.run = run

    def __call__(self, arguments: tuple[object, ...]) -> dict[str, object]:
        return self.run(*arguments)
