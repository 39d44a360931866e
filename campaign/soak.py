"""Fit, audit, augment, in a loop for an hour: is memory flat, are files and threads given back?

``python campaign/soak.py --minutes 60``. Every turn trains a symmetry model and a classifier with
checkpoints, saves and loads them, audits the classifier under a group, writes and reads the result,
and augments images; then it looks at the process.
"""

import argparse
import os
import shutil
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import small_runs
import torch
from common import store
from torch import nn

from symmetries.auditing import AuditResult, audit_model
from symmetries.groups import Affine2, Cyclic
from symmetries.learners.symmetry_model import SymmetryModel

WARM_UP = 0.25  # share of the turns before memory must be flat


def turn(number: int, folder: Path) -> None:
    """One round of everything."""
    images, labels = small_runs.images(seed=number), small_runs.labels()
    symmetry = small_runs.symmetry_model(folder / "symmetry", False)
    symmetry.save(folder / "model")
    again = SymmetryModel.load(folder / "model")
    augmented = again.augment(images)
    if augmented.shape != images.shape or not torch.isfinite(augmented).all():
        raise RuntimeError("augmented images are broken")
    network: nn.Module = small_runs.penalties(folder / "classifier", False)
    for group in (Cyclic(4), Affine2("rotation")):
        found = audit_model(network, (images, labels), group, samples=4, steps=5, progress=False)
        found.save(folder / "audit.json")
        if AuditResult.load(folder / "audit.json") != found:
            raise RuntimeError("a result came back changed")


def process() -> dict[str, float]:
    """Megabytes in memory, open files, threads."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "megabytes": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def main() -> None:
    """Loop, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started, rows = time.time(), []
    with tempfile.TemporaryDirectory() as scratch:
        while time.time() < started + 60 * options.minutes:
            turn(len(rows), Path(scratch) / "turn")
            shutil.rmtree(Path(scratch) / "turn")
            rows.append({"seconds": round(time.time() - started, 1), **process()})
            if len(rows) % 20 == 1:
                report(rows, started)
    report(rows, started)


def report(rows: list[dict[str, float]], started: float) -> None:
    """Store what was seen, and how memory went once everything was warm."""
    late = rows[int(WARM_UP * len(rows)) :]
    hours = np.array([row["seconds"] for row in late]) / 3600
    memory = np.array([row["megabytes"] for row in late])
    slope = float(np.polyfit(hours, memory, 1)[0]) if len(late) > 2 else 0.0
    every = max(1, len(rows) // 60)
    numbers = {
        "turns": len(rows),
        "minutes": round(rows[-1]["seconds"] / 60, 1),
        "megabytes_warm": round(float(memory[0]), 1),
        "megabytes_end": round(float(memory[-1]), 1),
        "megabytes_largest": round(max(row["megabytes"] for row in rows), 1),
        "megabytes_per_hour": round(slope, 2),
        "files_first": rows[0]["files"],
        "files_end": rows[-1]["files"],
        "threads_end": rows[-1]["threads"],
        "memory": [[row["seconds"], round(row["megabytes"], 1)] for row in rows[::every]],
    }
    print({name: value for name, value in numbers.items() if name != "memory"}, flush=True)
    store("soak", numbers, started)


if __name__ == "__main__":
    main()
