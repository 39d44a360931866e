"""Fit a method on cells of the design, one after the other, and store what it says of each.

    python -m benchmarks.planted --method two-stage-quick --cells small
    python -m benchmarks.planted --method orbit-posterior --cells all --device cuda \
        --budget 3000 --data DIR --out FILE

Every cell is written as soon as it is fitted; the same command goes on where a run ended. Several
sets of cells may be named, one after another, each in a random order that is always the same.
After ``--budget`` seconds no further cell is begun; ``--workers``, processes of one thread each,
end by then, or soon after Ctrl-C, and leave cells that they have not fitted to the next run.
``python -m benchmarks.planted.page`` makes tables.
"""

import argparse
import multiprocessing
import os
import random
import signal
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import environment
from benchmarks.planted import design, development, everyday
from benchmarks.planted.methods import NAMES, method
from benchmarks.planted.originals import Unavailable
from benchmarks.planted.planting import plant
from benchmarks.planted.protocol import Method, Question, Refused
from benchmarks.planted.reading import read
from benchmarks.planted.records import Results, Row

from symmetries.data import ImageSet
from symmetries.training.fabric import fabric_class
from symmetries.training.log import pruning_hook
from symmetries.training.side_by_side import sleep_while_waiting

RESULTS = Path(__file__).with_name("results")
DONE = ("answered", "refused")  # others are tried again


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--method", required=True, choices=NAMES)
    sets = "all, small, asymmetric, ids; development[:ids], everyday[:ids]"
    parser.add_argument("--cells", default=["small"], nargs="+", help=sets)
    parser.add_argument("--without", type=Path, help="a file whose cells are left out")
    parser.add_argument("--most", type=int, help="cells of each set, the first of a random order")
    parser.add_argument("--device", help="default: cuda where there is a GPU, else cpu")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--workers", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--out", type=Path, help="default: results/METHOD-DEVICE.json")
    parser.add_argument("--data", help="folder of data files; else $SYMMETRIES_DATA")
    options = parser.parse_args()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asks without using the GPU
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    out = options.out or RESULTS / f"{options.method}-{options.device}.json"
    cells, digest = chosen(options.cells, options.most)
    if options.without:
        known = {row.id for row in Results.load(options.without).rows if row.status in DONE}
        cells = [cell for cell in cells if cell["id"] not in known]
    how = (out, options.device, options.data, options.budget, options.workers)
    run(options.method, cells, digest, *how)


def chosen(sets: Sequence[str], most: int | None = None) -> tuple[list[dict[str, Any]], str]:
    """Cells of one or several sets, each in a random order, and the digest of their design."""
    others = {"development": development.cells, "everyday": everyday.cells}
    found: dict[str, dict[str, Any]] = {}
    digests = set()
    for wanted in sets:
        name, _, ids = wanted.partition(":")
        if name in others:
            every, digest = others[name]()
            cells = design.choose(every, ids or "all")
        else:
            whole, digest = design.load()
            cells = design.choose(whole["cells"], wanted)
        random.Random(0).shuffle(cells)
        found |= {cell["id"]: cell for cell in cells[:most] if cell["id"] not in found}
        digests.add(digest)
    if len(digests) > 1:
        raise ValueError("cells: expected sets of one design, got several; run them separately")
    return list(found.values()), digests.pop()


def begin(name: str, digest: str, out: Path, device: str) -> Results:
    """The results so far, with an entry for this run."""
    known = _environment(device)
    if not out.exists():
        return Results(method=name, design=digest, runs=(known,))
    so_far = Results.load(out)
    for field, expected in (("method", name), ("design", digest)):
        if getattr(so_far, field) != expected:
            got = getattr(so_far, field)
            raise ValueError(f"{out}: {field}: expected {expected}, got {got}; use another --out")
    return replace(so_far, runs=(*so_far.runs, known))


def run(
    name: str,
    cells: list[dict[str, Any]],
    digest: str,
    out: Path,
    device: str,
    folder: str | None,
    budget: float = float("inf"),
    workers: int = 1,
) -> Results:
    """Fit all cells that ``out`` does not have yet, and write it after each."""
    results = begin(name, digest, out, device)
    answered = {row.id for row in results.rows if row.status in DONE}
    left = [cell for cell in cells if cell["id"] not in answered]
    print(f"{name}: {len(left)} of {len(cells)} cells to fit, on {device}")
    jobs = [(name, cell, device, folder, len(results.runs) - 1) for cell in left]
    rows = _one_by_one(jobs, budget) if workers == 1 else _side_by_side(jobs, budget, workers)
    for number, row in enumerate(rows, 1):
        results = results.plus(row)
        results.save(out)
        said = ", ".join(f"{f.name} {f.verdict} {f.width90}" for f in row.found) or row.reason[:90]
        print(
            f"[{number}/{len(left)}] {row.id}: {row.seconds:.0f} s, {row.status}: {said}",
            flush=True,
        )
    return results


Job = tuple[str, dict[str, Any], str, str | None, int]
READING = 8.0  # seconds that a cell takes after its training
_ended: list[float] = []  # seconds of the cells that this process has fitted


class OutOfTimeError(RuntimeError):
    """The budget ended while a cell was being fitted: it is left to the next run."""


def _one_by_one(jobs: list[Job], budget: float) -> Iterator[Row]:
    start = time.perf_counter()
    for number, job in enumerate(jobs):
        if time.perf_counter() - start > budget:
            print(f"the budget is spent: {len(jobs) - number} cells are left")
            return
        yield _fitted(job)


def _side_by_side(jobs: list[Job], budget: float, workers: int) -> Iterator[Row]:
    """Rows as processes fit them.

    All processes end by themselves within the budget: one that is killed while it computes on a
    shared GPU takes the others with it.
    """
    context = _context(jobs[0][2] if jobs else "cpu")
    end = context.Value("d", time.time() + budget)
    left = 0

    def stop(number: int, frame: object) -> None:
        end.value = 0.0

    before = signal.signal(signal.SIGINT, stop)
    try:
        with context.Pool(workers, _begin_process, (end,)) as pool:
            for row in pool.imap_unordered(_fitted_in_time, jobs):
                left += row is None
                if row is not None:
                    yield row
            pool.close()
            pool.join()
    finally:
        signal.signal(signal.SIGINT, before)
    if left:
        print(f"the time is over: {left} cells are left")


def _environment(device: str) -> dict[str, Any]:
    """Of this run; asked by another process, as this one must not use a GPU before it forks."""
    if device == "cpu":
        return environment(device)
    with _context(device).Pool(1) as pool:
        found: dict[str, Any] = pool.apply(environment, (device,))
    return found


def _context(device: str) -> Any:  # noqa: ANN401 - one of the contexts of multiprocessing
    """How processes begin: forks share what was imported, which takes a minute elsewhere."""
    if device == "cpu":
        return multiprocessing.get_context("spawn")
    fabric_class()
    return multiprocessing.get_context("fork")


_end: Any = None  # when this process has to end: a number that all processes share


def _begin_process(end: Any) -> None:  # noqa: ANN401 - a shared number
    global _end
    _end = end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    sleep_while_waiting()


def _fitted_in_time(job: Job) -> Row | None:
    """The row of a cell, or None if the time that is left is too short for it."""

    def stop_in_time(done: int, numbers: Mapping[str, float]) -> None:
        if time.time() > _end.value - READING:
            raise OutOfTimeError

    begin = time.time()
    usual = sum(_ended) / len(_ended) if _ended else READING
    if begin + usual > _end.value:
        return None
    try:
        with pruning_hook(stop_in_time):
            row = _fitted(job)
    except OutOfTimeError:
        return None
    _ended.append(time.time() - begin)
    return row


def _fitted(job: Job) -> Row:
    name, *rest = job
    return fit_cell(method(name), *rest)


def fit_cell(
    fit: Method, cell: Mapping[str, Any], device: str, folder: str | None, run_number: int
) -> Row:
    """Make the pictures of a cell, ask the method, and read its answer."""
    made: dict[str, Any] = {"id": cell["id"], "run": run_number}
    seconds = processor = 0.0
    try:
        law = cell.get("law", "uniform")
        what = (cell["content"], cell["size"], cell["count"], cell["planted"], cell["id"])
        pictures = plant(*what, folder, law, device)
        images = ImageSet(pictures.images, pictures.labels, cell["content"])
        start, worked = time.perf_counter(), time.process_time()
        try:
            answer = fit(Question(images, cell["asked"], cell["seed"], device))
        finally:
            seconds = time.perf_counter() - start
            processor = time.process_time() - worked
        found = read(answer, cell["truth"], pictures)
    except Refused as error:
        return Row(**made, status="refused", reason=str(error), seconds=seconds)
    except Unavailable as error:
        return Row(**made, status="unavailable", reason=str(error), seconds=seconds)
    except OutOfTimeError:
        raise
    except Exception as error:  # one cell must not end a run of hours; the row says what failed
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        return Row(**made, status="failed", reason=said, seconds=seconds)
    return Row(
        **made,
        status="answered",
        seconds=round(seconds, 2),
        processor_seconds=round(processor, 2),
        found=tuple(found),
        warnings=answer.warnings,
        told=answer.told,
        extra=answer.extra,
    )


if __name__ == "__main__":
    main()
