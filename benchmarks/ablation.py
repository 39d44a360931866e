"""What each fused operation is worth to each training step: all on, each off singly, all off.

For every step of the library, at the papers' sizes and in its training loop (as a CUDA graph where
the loop captures one), milliseconds with all fused operations, with each of them switched off
alone, with all off (as a graph, and without one), and with ``torch.compile`` of the plain loss.
Every alternative is built under its own switches, so that its graph is captured without the
operation, and the alternatives of a step are timed in turn. "ratio" is the median over the rounds
of the time by that of "all on" in the same round, "spread" half the distance of its quartiles.
Operations that a step does not use are left out. A cell that fails is kept with its error.

Order: all on and all off for every step, then single operations, then ``torch.compile``, which
compiles for long. ``--budget`` ends the run in time; what was measured is stored all along.

    python benchmarks/ablation.py [--steps "VAE;penalties"] [--only "warp;adam;warp+adam"]
    python benchmarks/ablation.py --only torch.compile --out FILE    # another time: it takes long
    python benchmarks/ablation.py --device cpu --dry     # every cell for two small steps
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from ablation_steps import STEPS, Jobs, Running, Sizes
from common import RESULTS, environment, synchronise

from symmetries.ops import OPERATIONS, disabled, recorded

ON, OFF, EAGER, COMPILED = "all on", "all off", "all off, no graph", "torch.compile"
TOGETHER = 12  # cells that live at the same time: each has the memory of its graph
BLOCK, GROUP_SECONDS = 0.02, 5.0  # of a measurement, and of all measurements of a group
ROUNDS, LEAST_ROUNDS = 11, 3
COMPILING = 60.0  # seconds that torch.compile may take: begun only if so many are left
SETTLE = 6  # first steps: kernels are compiled, the graph is captured


@dataclass
class Run:
    """One call of the script.

    Args:
        sizes: of the steps.
        end: when to stop, by :func:`time.perf_counter`.
        out: the file.
    """

    sizes: Sizes
    end: float
    out: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)

    def over(self, left: float = 0.0) -> bool:
        """Whether the time is spent, or no more than so many seconds are left."""
        return time.perf_counter() + left > self.end

    def keep(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows, and write them all."""
        for row in rows:
            self.rows.append(row)
            print(json.dumps(row), flush=True)
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            command = " ".join(["python", "benchmarks/ablation.py", *sys.argv[1:]])
            result = {"name": "ablation", **self.known, "command": command, "rows": self.rows}
            self.out.write_text(json.dumps(result, indent=1) + "\n")


@contextmanager
def _by_variable() -> Iterator[None]:
    """Switch all operations off by the environment variable, as a user would."""
    os.environ["SYMMETRIES_KERNELS"] = "0"
    try:
        yield
    finally:
        del os.environ["SYMMETRIES_KERNELS"]


class Cell:
    """A step under some switches.

    Args:
        run: of the script.
        name: of the alternative.
        jobs: makes what is trained.
    """

    def __init__(self, run: Run, name: str, jobs: Jobs) -> None:
        self.run, self.name, self.jobs = run, name, jobs
        self.row: dict[str, Any] = {"cell": name}
        self.running: Running | None = None
        self.times: list[float] = []

    def under(self) -> AbstractContextManager[None]:
        """Its switches."""
        if self.name == COMPILED:
            return _by_variable()
        off = {ON: (), OFF: tuple(OPERATIONS), EAGER: tuple(OPERATIONS)}
        return disabled(*off.get(self.name, tuple(self.name.split("+"))))

    def build(self) -> bool:
        """Build it and take its first steps; False, with the error in its row, if that fails."""
        began = time.perf_counter()
        graph = "off" if self.name == EAGER else "auto"
        settle = 2 if self.run.sizes.dry else SETTLE

        def work() -> None:
            with recorded() as seen:
                self.running = Running(self.jobs(), graph, self._compiled())
                metrics = self.running.go(settle)
                synchronise()
            self.row["captured"] = self.running.captured
            self.row["loss"] = float(metrics["loss"])
            if self.name == ON:
                dry = self.run.sizes.dry  # on a CPU nothing is fused: what was asked for counts
                self.row["used"] = sorted(name for name, fused in seen.items() if fused or dry)

        fine = self._guarded(work)
        self.row["build_seconds"] = round(time.perf_counter() - began, 2)
        return fine

    def _compiled(self) -> Callable[[Any], Any]:
        if self.name != COMPILED:
            return lambda loss: loss
        torch._dynamo.reset()
        backend = "aot_eager" if self.run.sizes.dry else "inductor"
        return lambda loss: torch.compile(lambda *given: loss(*given), backend=backend)

    def measure(self, steps: int) -> None:
        """One block of steps."""

        def work() -> None:
            synchronise()
            began = time.perf_counter()
            self.running.go(steps)  # type: ignore[union-attr]
            synchronise()
            self.times.append((time.perf_counter() - began) / steps)

        if not self._guarded(work):
            self.running = None

    def _guarded(self, work: Callable[[], None]) -> bool:
        try:
            with self.under(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {str(error)[:400]}"
            self.row["error"] = f"{text} ({Path(place.filename).name}:{place.lineno})"
            self.running = None
            return False
        return True


def group(run: Run, step: str, names: list[str], jobs: Jobs) -> list[dict[str, Any]]:
    """Rows of some alternatives of a step, timed in turn; the first is the reference.

    Those for which there is no time, or no room beside the others, are left in ``names``.
    """
    cells: list[Cell] = []
    while names and len(cells) <= TOGETHER:
        if (cells and run.over()) or (len(cells) > 1 and _is_full()):
            break
        name = names.pop(0)
        cell = Cell(run, name, jobs)
        cell.build()
        cells.append(cell)
    alive = [cell for cell in cells if cell.running is not None]
    if alive:
        _measure(run, alive)
    reference = cells[0].times
    rows = []
    for cell in cells:
        row = {"step": step, **cell.row}
        if cell.times:
            row |= {"ms": round(1e3 * statistics.median(cell.times), 5), "rounds": len(cell.times)}
        if cell.times and len(cell.times) == len(reference):
            ratios = [a / b for a, b in zip(cell.times, reference, strict=True)]
            row["ratio"] = round(statistics.median(ratios), 4)
            if len(ratios) > 1:
                low, _, high = statistics.quantiles(ratios, n=4)
                row["spread"] = round((high - low) / 2, 4)
        rows.append(row)
    del cells, alive, cell
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return rows


def _is_full() -> bool:
    """Whether less than a third of the device's memory is free."""
    if not torch.cuda.is_available():
        return False
    free, total = torch.cuda.mem_get_info()
    return free < total / 3


def _measure(run: Run, cells: list[Cell]) -> None:
    """Blocks of steps of all cells in turn; the first round does not count."""
    for cell in cells:
        cell.measure(1)
    once = cells[0].times[-1] if cells[0].times else BLOCK
    total = sum(cell.times[-1] for cell in cells if cell.times)
    steps = 1 if run.sizes.dry else max(1, min(200, round(BLOCK / once)))
    for cell in cells:
        cell.measure(steps)
        cell.times.clear()
    fits = int(GROUP_SECONDS / max(total * steps, 1e-9))
    rounds = 1 if run.sizes.dry else max(LEAST_ROUNDS, min(ROUNDS, fits))
    for turn in range(rounds):
        if turn >= LEAST_ROUNDS and run.over():
            break
        for cell in cells:
            if cell.running is not None:
                cell.measure(steps)


def measure(run: Run, steps: list[str], only: list[str]) -> None:
    """All groups in their order, while there is time."""
    least = 0.0 if run.sizes.dry else COMPILING
    jobs: dict[str, Jobs] = {}
    used: dict[str, list[str]] = {}
    ends = [name for name in (OFF, EAGER) if not only or name in only]
    for step in steps:
        if run.over():
            break
        try:
            jobs[step] = STEPS[step](run.sizes)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:400]}"
            run.keep([{"step": step, "cell": ON, "error": text}])
            continue
        rows = group(run, step, [ON, *ends], jobs[step])
        used[step] = rows[0].get("used", [])
        run.keep(rows)
    for step, made in jobs.items():
        names = [n for n in OPERATIONS if n in used[step] and (not only or n in only)]
        names += [each for each in only if set(used[step]) & set(each.split("+")) and "+" in each]
        while names and not run.over():
            names.insert(0, ON)
            run.keep([row for row in group(run, step, names, made) if row["cell"] != ON])
    for step, made in jobs.items():
        if not run.over(least) and (not only or COMPILED in only):
            rows = group(run, step, [ON, COMPILED], made)
            run.keep([row for row in rows if row["cell"] == COMPILED])
    missing = [step for step in steps if step not in jobs]
    print(f"out of time: {run.over()}; steps not begun: {missing}", flush=True)


def chosen(text: str | None, known: Iterable[str], what: str) -> list[str]:
    """Names in a text, parted by ";" (or by "," where no name has one)."""
    if not text:
        return []
    names = list(known)
    parts = [part.strip() for part in text.split(";" if ";" in text else ",")]
    if text.strip() in names:
        parts = [text.strip()]
    for part in parts:
        if not set(part.split("+")) <= set(names):
            sys.exit(f"{what}: expected some of {names}, got {part!r}")
    return parts


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    several = 'parted by ";"'
    parser.add_argument("--steps", help=f"{several}; all by default")
    parser.add_argument("--only", help=f"operations (a+b: both off) or alternatives, {several}")
    parser.add_argument("--budget", type=float, default=340.0, help="seconds; begin nothing after")
    parser.add_argument("--out", type=Path, help="file for the results")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dry", action="store_true", help="two small steps of every cell")
    parser.add_argument("--list", action="store_true", help="name steps and operations")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*STEPS, "", *OPERATIONS, ON, OFF, EAGER, COMPILED]))
        return
    if options.device == "cpu" and not options.dry:
        sys.exit("device: expected a GPU, got 'cpu'; --dry tries all cells")
    steps = chosen(options.steps, STEPS, "steps") or list(STEPS)
    only = chosen(options.only, [*OPERATIONS, OFF, EAGER, COMPILED], "only")
    default = None if options.dry else RESULTS / "ablation-cuda.json"
    if default is not None and (options.steps or options.only):
        default = RESULTS / "parts" / "ablation-cuda.json"
    end = time.perf_counter() + options.budget
    known = environment(options.device)
    run = Run(Sizes(options.device, options.dry), end, options.out or default, known=known)
    measure(run, steps, only)
    failed = [row for row in run.rows if "error" in row]
    print(f"{len(run.rows)} cells, {len(failed)} failed", flush=True)
    if options.dry and failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
