"""SIGKILL at random moments of every learner's training; then resume, and compare bit for bit.

``python campaign/kills.py --kills 30`` kills each learner that many times. One process imports the
library and forks the runs, so that a kill costs a fraction of a second.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_runs
import torch
import torch._dynamo  # once, not in every process: optimisers import it
from common import store

from symmetries.training import load_state
from symmetries.training.checkpoint import has_state, write_state

MOST_PER_RUN = 5  # kills before a run is let to its end
MEASURED = 2  # runs whose duration says when to kill


def child(work: Callable[[], None]) -> int:
    """Fork a process that does some work; its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        warnings.simplefilter("ignore")
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int, wait: bool) -> int | None:
    """The exit code of a child (negative: a signal), None while it runs."""
    found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def run(name: str, folder: Path, result: Path) -> None:
    """Train to the end, going on from what is there, and write the fingerprint of the weights."""
    torch.set_num_threads(1)
    model = small_runs.LEARNERS[name](folder, True)
    result.write_text(small_runs.fingerprint(model))


def look(folder: Path) -> dict[str, int]:
    """What a kill left: whole checkpoints, and marks of a kill in the middle of writing one."""
    whole, torn = 0, 0
    for stage in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        for state in ("checkpoint", "model"):
            if has_state(stage, state):
                load_state(stage, state)  # raises where it is not whole
                whole += 1
        names = [path.name for path in stage.iterdir()]
        halves = [n for n in names if n.endswith(".tmp")]
        tensors = sum(n.startswith("checkpoint-") for n in names)
        torn += bool(halves) or tensors > 1
    return {"whole": whole, "torn": torn}


def campaign(name: str, kills: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Kill one learner again and again; every run must end with the weights of a quiet one."""
    chance = random.Random(f"{seed} {name}")
    result, folder = scratch / "result", scratch / "run"
    expected, seconds = "", 0.0
    for _ in range(MEASURED):
        shutil.rmtree(folder, ignore_errors=True)
        started = time.perf_counter()
        if ended(child(lambda: run(name, folder, result)), wait=True):
            raise SystemExit(f"{name}: the undisturbed run failed")
        seconds, expected = time.perf_counter() - started, result.read_text()
    counts = {"kills": 0, "runs": 0, "identical": 0, "in_a_checkpoint": 0, "with_a_checkpoint": 0}
    while counts["kills"] < kills:
        shutil.rmtree(folder, ignore_errors=True)
        result.unlink(missing_ok=True)
        for _ in range(chance.randint(1, MOST_PER_RUN)):
            pid = child(lambda: run(name, folder, result))
            time.sleep(chance.uniform(0, 0.8) * seconds)
            if ended(pid, wait=False) is not None:
                break
            os.kill(pid, signal.SIGKILL)
            ended(pid, wait=True)
            counts["kills"] += 1
            found = look(folder) if folder.exists() else {"whole": 0, "torn": 0}
            counts["with_a_checkpoint"] += found["whole"] > 0
            counts["in_a_checkpoint"] += found["torn"] > 0
        result.unlink(missing_ok=True)
        code = ended(child(lambda: run(name, folder, result)), wait=True)
        counts["runs"] += 1
        counts["identical"] += code == 0 and result.read_text() == expected
    return counts


def every_operation(scratch: Path) -> dict[str, int]:
    """Kill at every file operation of a checkpoint, before it, after it, or half-way through."""
    old, new = ({"w": torch.full((50,), value)} for value in (1.0, 2.0))
    counts = {"places": 0, "whole": 0}
    for half in (False, True):
        place = 0
        while True:
            folder = scratch / "state"
            shutil.rmtree(folder, ignore_errors=True)
            write_state(folder, "checkpoint", old, {"round": 1})

            def work(folder: Path = folder, place: int = place, half: bool = half) -> None:
                _kill_at(place, half)
                write_state(folder, "checkpoint", new, {"round": 2})

            code = ended(child(work), wait=True)
            tensors, meta = load_state(folder, "checkpoint")
            right = new if meta["round"] == 2 else old
            counts["places"] += 1
            counts["whole"] += torch.equal(tensors["w"], right["w"])
            if code == 0:  # there were not that many operations
                break
            place += 1
    return counts


def _kill_at(place: int, half: bool) -> None:
    """Make the process kill itself at its n-th file operation; ``half`` writes half of it first."""
    import builtins
    import io

    seen = -1

    def tick() -> None:
        nonlocal seen
        seen += 1
        if seen == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            tick()
            value = function(*arguments, **options)
            tick()
            return value

        return call

    class Half(io.FileIO):
        def write(self, data: Any) -> int:  # noqa: ANN401
            view = memoryview(data)
            super().write(view[: len(view) // 2])
            tick()
            return super().write(view[len(view) // 2 :]) + len(view) // 2

    def opened(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:  # noqa: ANN401
        return Half(path, mode) if mode == "wb" else original(path, mode, *rest, **options)

    if half:
        original = io.open
        io.open = builtins.open = opened  # type: ignore[assignment]
        return
    for name in ("fsync", "replace", "rename", "unlink", "open"):
        setattr(os, name, counted(getattr(os, name)))


def main() -> None:
    """Kill, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="of each learner")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learners", nargs="+", choices=[*small_runs.LEARNERS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.time()
    numbers: dict[str, Any] = {"learners": {}}
    with tempfile.TemporaryDirectory() as scratch:
        numbers["every_operation"] = every_operation(Path(scratch))
        print("every operation of a checkpoint", numbers["every_operation"], flush=True)
        for name in options.learners or small_runs.LEARNERS:
            counts = campaign(name, options.kills, options.seed, Path(scratch))
            numbers["learners"][name] = counts
            print(name, counts, flush=True)
            store("kills", numbers, started)


if __name__ == "__main__":
    main()
