"""Learned widths beside the controls with paired seeds, by many processes that share a GPU.

The comparison of ``network_accuracy.py`` with ten seeds, and further searches of the planted widths
of ``network_widths.py``, as a queue: what tells most comes first. Seeds of a control train as one.
Every row is written as soon as it exists, and the same command goes on where a run ended. No
process is killed: shortly before the end of ``--budget`` trainings end by themselves, and are left
to the next run. ``network_paired_tables.py`` makes tables and puts files together.

    python benchmarks/network_paired.py --folder DATA --device cuda --workers 15 --budget 230

DATA has a folder for each data set.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import torch

from symmetries.data import ImageSet, load
from symmetries.learners.invariant_network import evidence
from symmetries.training.atomic_files import write_atomic
from symmetries.training.fabric import fabric_class
from symmetries.training.log import pruning_hook
from symmetries.training.side_by_side import sleep_while_waiting

sys.path.insert(0, str(Path(__file__).parent))
import network_widths
from common import RESULTS, environment
from network_accuracy import LAWS, METHODS, TESTED, Comparison, measured, sets
from network_paired_queue import LONG, SEARCH, SEARCHES, STEPS, Unit, left, queue, settings, steps

ROWS = 2**23  # numbers in rows of Jacobians at a time: many processes share a GPU's memory
ENDING = 8.0  # seconds in which trainings and processes end

Row = dict[str, Any]


class OutOfTimeError(Exception):
    """The budget ended during a training: its unit is left to the next run."""


@cache
def loaded(data: str, split: str, folder: str | None) -> ImageSet:
    """A data set, read once by each process, or before they begin."""
    return load(data, split, folder=None if folder is None else str(Path(folder) / data))


def compared(unit: Unit, given: argparse.Namespace) -> Iterator[Row]:
    """Rows of a method; if seeds cannot train as one, one after the other."""
    seen, unseen = (loaded(unit.data, split, given.folder) for split in ("train", "test"))
    own = argparse.Namespace(**{**vars(given), "steps": steps(unit, given)})
    several = [
        Comparison(*sets(seen, unseen, unit.labels, unit.law, seed), own, seed)
        for seed in unit.seeds
    ]
    try:
        yield from list(measured(unit.method, unit.law, several))
    except (RuntimeError, ValueError):
        if len(several) == 1:
            raise
        for one in several:
            yield from measured(unit.method, unit.law, [one])


def searched(unit: Unit, given: argparse.Namespace) -> Iterator[Row]:
    """The row of a search of a planted width."""
    options = argparse.Namespace(device=given.device)
    size = network_widths.SIZES["mnist"]
    size = network_widths.replace(size, **settings(unit, given))
    data = loaded("mnist", "train", given.folder)
    found = network_widths.Measurement(unit.law, data, options, size)
    (seed,) = unit.seeds
    found.search(seed)
    names = {"learned": "learned", "intervals": "interval", "told": "told", "profiles": "profile"}
    names["accuracy, learned"] = "accuracy"
    row = {name: found.row[key][0] for key, name in names.items()}
    yield {"seed": seed, "method": SEARCH, **row, "seconds": found.row["seconds"]["learned"]}


_end = math.inf  # when this process has to end


def begin_process(end: float) -> None:
    """Prepare a process: one thread, and an end of its trainings."""
    global _end
    _end = end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    evidence.CHUNK["cuda"] = (evidence.CHUNK["cuda"][0], ROWS)
    sleep_while_waiting()


def rows_of(unit: Unit, given: argparse.Namespace) -> tuple[Row, list[Row], str]:
    """Where this process runs, the rows of a unit, and why some are missing."""

    def stop_in_time(done: int, numbers: Any) -> None:  # noqa: ANN401 - of the log
        if time.time() > _end:
            raise OutOfTimeError

    rows, problem = [], ""
    try:
        with pruning_hook(stop_in_time):
            for row in (searched if unit.method == SEARCH else compared)(unit, given):
                mine = {"data": unit.data, "law": unit.law, "labels": unit.labels}
                rows.append({**mine, **row, "settings": settings(unit, given)})
    except OutOfTimeError:
        problem = "no time is left"
    except Exception:  # the other processes go on
        problem = traceback.format_exc(limit=-3)
    if given.device != "cpu":
        torch.cuda.empty_cache()
    return environment(given.device), rows, problem


class Store:
    """Rows in a file, each with the number of its run.

    Args:
        path: of the file, which a run before may have written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: Row = {"name": "network_paired", "runs": [], "rows": [], "problems": []}
        if path.exists():
            self.content = json.loads(path.read_text())
        self.rows: list[Row] = self.content["rows"]
        self.run: int | None = None

    def add(self, unit: Unit, where: Row, rows: list[Row], problem: str) -> None:
        """Write rows and problems."""
        if self.run is None:
            self.content["runs"].append(where)
            self.run = len(self.content["runs"]) - 1
        self.rows += [{**row, "run": self.run} for row in rows]
        if problem:
            self.content["problems"].append({"unit": vars(unit), "run": self.run, "said": problem})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, (json.dumps(self.content, indent=1) + "\n").encode())


class Clock:
    """The time that is left, and what units took.

    Args:
        end: of the last training, in seconds as ``time.time()`` has them.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        self.taken: dict[tuple[str, int], list[float]] = {}

    def ended(self, unit: Unit, seconds: float) -> None:
        """Remember what a unit took."""
        self.taken.setdefault((unit.method, unit.labels), []).append(seconds)

    def fits(self, unit: Unit) -> bool:
        """Whether a unit is likely to end in time; long ones are judged by others like them."""
        taken = self.taken.get((unit.method, unit.labels), [0.0])
        if unit.method in LONG and taken == [0.0]:
            others = [each for (name, _), each in self.taken.items() if name in LONG]
            taken = max(others, key=max, default=taken)
        return time.time() + sum(taken) / len(taken) < self.end


def run(units: list[Unit], given: argparse.Namespace, store: Store) -> None:
    """Measure units side by side, the first that fits into the time first."""
    clock, waiting = Clock(given.began + given.budget - ENDING), list(units)
    context = multiprocessing.get_context("spawn" if given.device == "cpu" else "fork")
    if given.device != "cpu":  # forks share what was imported and read
        fabric_class()
        for data, split in itertools.product({unit.data for unit in units}, ("train", "test")):
            loaded(data, split, given.folder)
    begun: dict[Future[Any], tuple[Unit, float]] = {}
    with ProcessPoolExecutor(given.workers, context, begin_process, (clock.end,)) as pool:
        while True:
            fitting = [unit for unit in waiting if clock.fits(unit)]
            for unit in fitting[: given.workers - len(begun)]:
                waiting.remove(unit)
                begun[pool.submit(rows_of, unit, given)] = (unit, time.time())
            if not begun:
                break
            done, _ = wait(begun, return_when=FIRST_COMPLETED)
            for future in done:
                unit, began = begun.pop(future)
                where, rows, problem = future.result()
                clock.ended(unit, time.time() - began)
                store.add(unit, where, rows, problem)
                said = [f"{row['seed']}: {row['accuracy']:.3f}" for row in rows]
                print(unit, f"{time.time() - began:.0f} s", *said, problem, flush=True)
    print(f"{len(waiting)} of {len(units)} units are left", flush=True)


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", help="has a folder for each data set")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds")
    parser.add_argument("--began", type=float, default=time.time(), help="date +%%s, of the budget")
    parser.add_argument("--out", type=Path, default=RESULTS / "parts" / "network_paired.json")
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--labels", nargs="+", type=int, default=list(STEPS))
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=["turned", "upright"])
    parser.add_argument("--methods", nargs="+", choices=(*METHODS, SEARCH), default=None)
    parser.add_argument("--tasks", nargs="*", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--steps", type=int, help="default: by the number of labels")
    parser.add_argument("--search-steps", type=int, help="of searches of planted widths")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--width", type=int, default=8, help="channels of the first layer")
    parser.add_argument("--rows", type=int, default=1000, help="of the curvature")
    given = parser.parse_args(words)
    given.network, given.methods = "cnn", given.methods or [*METHODS, SEARCH]
    return given


def main() -> None:
    """Measure what is left."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asks without using the GPU
    given = parsed()
    store = Store(given.out)
    units = left(queue(given), store.rows, given)
    print(f"{len(units)} units to measure, {TESTED} test images", flush=True)
    run(units, given, store)


if __name__ == "__main__":
    main()
