"""The paper's symmetry model trained whole, 60,000 steps of each stage, and what it has learned.

MNIST without added rotation, our objective, both stages one after the other, by the script that
makes the paper's page (``papers/symmetry-model/run.py``). Seconds are those of training as a user
sees them: loading kernels, trying them and capturing the step are among them. Goal on one H200,
alone: under four minutes.

    python benchmarks/symmetry_whole.py [--steps 60000 60000]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "papers" / "symmetry-model"))
import run
from common import record
from tasks import TASKS


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each stage and for both, the last one with the model's quality."""
    rows = [
        {
            "what": f"{name} stage",
            "steps": stage["steps"],
            "seconds": stage["seconds"],
            "ms per step": 1e3 * stage["seconds"] / stage["steps"],
        }
        for name, stage in found["stages"].items()
    ]
    quality = {
        "variance along orbits": found["orbit_variance_refine_0"]["ratio"],
        "variance along orbits, refine=2": found["orbit_variance_refine_2"]["ratio"],
        "next eta": found["iterated"][1],
        "next eta, refine=1": found["iterated"][2],
        "content kept": found["content_kept"],
        "seed": found["seed"],
    }
    steps = sum(stage["steps"] for stage in found["stages"].values())
    return [*rows, {"what": "whole model", "steps": steps, "seconds": found["seconds"], **quality}]


def main() -> None:
    """Train, judge and record; a GPU is needed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", nargs=2, default=("60000", "60000"), help="of each stage")
    parser.add_argument("--looked-at", default="1000", help="test images to judge by")
    parser.add_argument("--task", default="mnist-affine", choices=sorted(TASKS))
    parser.add_argument("--out", type=Path, help="keep what run.py writes here")
    parser.add_argument("--anyhow", action="store_true", help="also without a GPU")
    options = parser.parse_args()
    if not torch.cuda.is_available() and not options.anyhow:
        print("needs a GPU")
        return
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        sys.argv = ["run.py", "--task", options.task, "--added", "0", "--out", str(out)]
        sys.argv += ["--steps", *options.steps, "--looked-at", options.looked_at]
        sys.modules["figures"] = None  # type: ignore[assignment] - nothing is drawn here
        run.main()
        found = json.loads((out / "results.json").read_text())["runs"][-1]
    rows = rows_of(found)
    rows[-1]["with loading and judging"] = time.perf_counter() - began
    print(rows[-1])
    record("symmetry_whole-cuda" if torch.cuda.is_available() else "symmetry_whole-cpu", rows)


if __name__ == "__main__":
    main()
