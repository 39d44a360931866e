"""Do the learners of two commits learn the same? Paired seeds of every learner's quick setting.

Every learner of ``fast_paths.py`` is trained with the code of an older commit and with the code of
this one, with the same seeds, data and numbers of steps and with all fast paths, and judged on
held-out images. "moved" is the mean difference of the pairs in standard errors of that mean;
"moved, unpaired" divides by the standard error that the spread over seeds gives. Beyond 3 would be
more than chance. The older code is a folder with ``src`` and ``benchmarks`` of that commit::

    mkdir -p carry/old && git archive 0da4940 src benchmarks | tar -x -C carry/old
    python benchmarks/paired_seeds.py carry/old --name 0da4940
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
LEARNERS = {  # the function of fast_paths.py, and the steps it is given
    "symmetry model": ("symmetry", 1200),
    "VAE": ("vae", 600),
    "penalised perceptron": ("penalised", 600),
    "invariant VAE": ("joint", 300),  # takes twice as many
    "invariant weights": ("invariant_weights", 60),  # has its own number
    "relaxed network": ("relaxed_network", 300),  # takes twice as many
}
Numbers = dict[str, float]


def train_here(seeds: int, most_steps: int, learner: str) -> None:
    """Train a learner with the code that is imported, and print what it reached as JSON."""
    sys.path.insert(0, os.getcwd())
    import fast_paths

    name, steps = LEARNERS[learner]
    fast_paths.SEEDS, fast_paths.STEPS = tuple(range(seeds)), min(steps, most_steps)
    data, began = fast_paths.Data(), time.perf_counter()
    make = getattr(fast_paths, name)
    if learner == "invariant weights":
        found = [make(data, seed) for seed in range(seeds)]
    else:
        _, found = next(fast_paths.both_ways(make, data))
    print(json.dumps({"found": found, "seconds": time.perf_counter() - began}), flush=True)


def trained(folder: Path, arguments: Sequence[str]) -> dict[str, Any] | None:
    """What :func:`train_here` prints in a process with another folder's code; None if it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--here", *arguments],
        cwd=folder / "benchmarks",
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"found"')]
    if not lines:
        print(f"{folder}, {arguments}: {done.stderr[-1000:]}", flush=True)
    return json.loads(lines[0]) if lines else None


def compared(
    learner: str, old: Sequence[Numbers], new: Sequence[Numbers]
) -> Iterator[dict[str, Any]]:
    """A row for each number that a learner is judged by."""
    for number in old[0]:
        before, after = ([numbers[number] for numbers in found] for found in (old, new))
        differences = [b - a for a, b in zip(before, after, strict=True)]
        mean, many = statistics.mean(differences), len(differences)
        paired = statistics.stdev(differences) / many**0.5
        apart = ((statistics.variance(before) + statistics.variance(after)) / many) ** 0.5
        yield {
            "learner": learner,
            "number": number,
            "old": statistics.mean(before),
            "new": statistics.mean(after),
            "difference": mean,
            "moved": abs(mean) / max(paired, 1e-12),
            "moved, unpaired": abs(mean) / max(apart, 1e-12),
            "all old": before,
            "all new": after,
        }


def main() -> None:
    """Train with both, compare and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", nargs="?", type=Path, help="folder with the older commit")
    parser.add_argument("--name", default="", help="the older commit")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most-steps", type=int, default=10**9, help="fewer, for a trial")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--workers", type=int, default=1, help="processes at the same time")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        train_here(options.seeds, options.most_steps, options.learners[0])
        return
    if options.old is None:
        print("needs a folder with the older commit: see the head of this file")
        return
    sys.path.insert(0, str(HERE / "benchmarks"))
    from common import record
    from torch.cuda import is_available

    given = ["--seeds", str(options.seeds), "--most-steps", str(options.most_steps)]
    more = {"seeds": options.seeds, "old commit": options.name}
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.workers) as pool:
        runs = {
            learner: [
                pool.submit(trained, folder, [*given, "--learners", learner])
                for folder in (options.old.resolve(), HERE)
            ]
            for learner in options.learners
        }
        for learner, pair in runs.items():
            old, new = (run.result() for run in pair)
            if old is None or new is None:
                rows.append({"learner": learner, "number": "failed", **more})
                continue
            seconds = {"seconds, old": old["seconds"], "seconds, new": new["seconds"]}
            for row in compared(learner, old["found"], new["found"]):
                rows.append({**row, **more, **seconds})
                print(json.dumps(rows[-1]), flush=True)
    part = options.most_steps < 10**9 or options.learners != list(LEARNERS)
    record("paired_seeds-cuda" if is_available() else "paired_seeds-cpu", rows, part=part)


if __name__ == "__main__":
    main()
