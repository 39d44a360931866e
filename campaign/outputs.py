"""Kills at every rename of the commands, and two runs against one output at any moment.

``python campaign/outputs.py --kills 200 --pairs 100``. Commands overwrite an output of another seed
and are killed just before a change of the file system (rename, link, unlink, ...): what is there
must be the old output or the new one, never a mixture. Then pairs of runs into one output begin at
random distances: one must end well, the other be refused, and nothing may be lost.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import small_runs
import torch
from common import store
from kills import child, ended
from typer.testing import CliRunner

from symmetries.cli import app, replacing
from symmetries.learners.symmetry_model import SymmetryModel

CHANGES = ("rename", "replace", "link", "symlink", "unlink", "rmdir", "mkdir")
QUIET = ("--quiet", "--device", "cpu")
COMMANDS: dict[str, list[str]] = {
    "orbit": ["orbit", "a.npz", "--group", "rotation"],
    "audit": ["audit", "plain:net", "a.npz", "--group", "c4", "--examples", "4"],
    "augment": ["augment", "model", "a.npz"],
    "discover": ["discover", "a.npz", "--group", "rotation"],
    "fit": ["fit", "a.npz", "--group", "rotation"],
}


def prepare(folder: Path) -> None:
    """Pictures, a function to audit, and a model to augment with."""
    rng = np.random.default_rng(0)
    np.savez(folder / "a.npz", images=rng.random((24, 8, 8)), labels=np.arange(24) % 2)
    (folder / "plain.py").write_text(
        "import torch\nweight = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))\n"
        "def net(x):\n    return x.flatten(1) @ weight\n"
    )
    SymmetryModel("rotation", (1, 8, 8), "quick").save(folder / "model")
    small_runs.small_presets()


def target(folder: Path, name: str) -> Path:
    """What a command writes."""
    return folder / ("out.npz" if name == "augment" else "out")


def invoke(folder: Path, name: str, seed: int, *more: str) -> int:
    """Run a command in this process; its exit code."""
    os.chdir(folder)
    out = target(folder, name).name
    words = [*COMMANDS[name], "--out", out, "--seed", str(seed), *more, *QUIET]
    words = [w for w in words if not (name == "orbit" and w == "--preset")]
    return CliRunner().invoke(app, words).exit_code


def killed(folder: Path, name: str, seed: int, place: int) -> None:
    """Run a command that kills itself before its change number ``place``."""
    seen = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            nonlocal seen
            seen += 1
            if seen == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for change in CHANGES:
        setattr(os, change, counted(getattr(os, change)))
    replacing.exchange = counted(replacing.exchange)
    os._exit(invoke(folder, name, seed, "--overwrite"))


def seeds_in(out: Path) -> set[int | str]:
    """The seeds that the parts of an output name; one, unless it is a mixture."""
    if out.suffix == ".npz":
        with np.load(out) as arrays:  # raises where it is not whole
            return {hash(arrays["images"].tobytes())}
    (result,) = out.glob("*.json")
    found: set[int | str] = {json.loads(result.read_text())["run"]["seed"]}
    page = (out / "report.html").read_text()
    found |= {int(number) for number in re.findall(r"--seed (\d+)", page)} or {"no page"}
    if result.name in ("symmetries.json", "metrics.json"):
        meta = json.loads((out / "model" / "model.json").read_text())["meta"]
        found.add(meta["seed"] if "seed" in meta else meta["parameters"]["random_state"])
    return found


def kills(name: str, count: int, folder: Path) -> dict[str, int]:
    """Kill a command at each of its changes in turn, until there were ``count`` kills."""
    counts: Counter[str] = Counter()
    out = target(folder, name)
    if ended(child(lambda: os._exit(invoke(folder, name, 0))), wait=True):
        raise SystemExit(f"{name}: the undisturbed run failed")
    place, seed, before = 1, 1, seeds_in(out)
    while counts["kills"] < count:
        code = ended(child(partial(killed, folder, name, seed, place)), wait=True)
        try:
            found = seeds_in(out)
        except Exception as error:  # nothing there, or half of it
            print(f"{name}, change {place}: {type(error).__name__}: {error}", flush=True)
            found = {"nothing", "whole"}
        known = out.suffix == ".npz" or found in (before, {seed})
        counts["mixed"] += len(found) != 1 or not known
        if code == -signal.SIGKILL:
            counts["kills"] += 1
            place += 1
        else:  # there were not that many changes: once more from the beginning
            counts["whole runs"] += 1
            counts["failed"] += code != 0
            left = [p.name for p in folder.iterdir() if p.name.startswith(".")]
            counts["left over"] += bool(left)
            counts["changes"] = max(counts["changes"], place - 1)
            place = 1
        before, seed = found, seed + 1
    if ended(child(lambda: os._exit(invoke(folder, name, seed, "--overwrite"))), wait=True):
        counts["failed"] += 1
    counts["left over"] += any(p.name.startswith(".") for p in folder.iterdir())
    return {key: counts[key] for key in ("kills", "mixed", "failed", "left over", "changes")}


def pairs(count: int, folder: Path, seed: int) -> dict[str, int]:
    """Two runs into one output that begin at some distance."""
    counts: Counter[str] = Counter()
    chance = random.Random(seed)
    names = ("orbit", "audit", "discover", "fit", "augment")
    seconds: dict[str, float] = {}
    for name in names:
        started = time.perf_counter()
        ended(child(partial(_end, folder, name, 0)), wait=True)
        seconds[name] = time.perf_counter() - started
    for number in range(count):
        name = names[number % len(names)]
        out = target(folder, name)
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)
        more = ("--overwrite",) if chance.random() < 0.5 else ()
        first = child(partial(_end, folder, name, 2 * number, *more))
        time.sleep(chance.uniform(0, 1.1) * seconds[name])
        second = child(partial(_end, folder, name, 2 * number + 1, *more))
        codes = [ended(pid, wait=True) for pid in (first, second)]
        counts["pairs"] += 1
        counts["both ended well, one after the other"] += codes == [0, 0]
        counts["one refused"] += sorted(map(str, codes)) == ["0", "4"]
        try:
            whole = len(seeds_in(out)) == 1
        except Exception as error:
            print(f"{name}, pair {number}: {type(error).__name__}: {error}", flush=True)
            whole = False
        fine = 0 in codes and set(codes) <= {0, 4} and (codes != [0, 0] or bool(more))
        left = [p.name for p in folder.iterdir() if p.name.startswith(".") or "resume" in p.name]
        if not fine or not whole or left:
            print(f"{name}, pair {number}: codes {codes}, whole {whole}, left {left}", flush=True)
        counts["losses"] += not whole or not fine or bool(left)
    keys = ("pairs", "losses", "one refused", "both ended well, one after the other")
    return {key: counts[key] for key in keys}


def _end(folder: Path, name: str, seed: int, *more: str) -> None:
    os._exit(invoke(folder, name, seed, *more))


def main() -> None:
    """Kill, pair, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.time()
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        numbers["pairs"] = pairs(options.pairs, Path(scratch), options.seed)
    print(numbers["pairs"], flush=True)
    numbers["commands"] = {}
    each = -(-options.kills // len(COMMANDS))
    for name in COMMANDS:
        with tempfile.TemporaryDirectory() as scratch:
            prepare(Path(scratch))
            numbers["commands"][name] = kills(name, each, Path(scratch))
        print(name, numbers["commands"][name], flush=True)
        store("outputs", numbers, started)


if __name__ == "__main__":
    main()
