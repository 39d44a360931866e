"""Are the first losses of every learner the same with the code of two commits?

Every learner of ``fast_paths.py``, a search over posteriors of poses and a search of an invariant
network train on a CPU, with all kernels off, one seed and the same data, with the code of an older
commit and with this one. "difference" is the largest difference of two losses of the same step,
divided by the larger of 1 and the loss, and "differs from" the first step where it is beyond 1e-5
(both stages of the symmetry model are one list). The older code is a folder with ``src`` and
``benchmarks`` of that commit::

    mkdir -p carry/old && git archive 0da4940 src benchmarks | tar -x -C carry/old
    python benchmarks/first_losses.py carry/old --name 0da4940

A learner that the older commit does not have is left out, and its row says so.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
STEPS = 100
LIMIT = 1e-5
MAKERS = {  # functions of fast_paths.py; the last two are given half of the steps and double them
    "symmetry model": ("symmetry", STEPS),
    "VAE": ("vae", STEPS),
    "penalised perceptron": ("penalised", STEPS),
    "invariant VAE": ("joint", 300),  # as many as its preset has: the warm-up is a share of them
    "relaxed network": ("relaxed_network", STEPS // 2),
}
OTHERS = ("invariant weights", "orbit posterior", "invariant network")


def losses_here(learner: str) -> list[float]:
    """Train a learner with the code that is imported, and return every loss of its trainings."""
    sys.path.insert(0, os.getcwd())
    import fast_paths
    import torch

    from symmetries.training import history as module

    torch.set_num_threads(1)
    torch.manual_seed(0)
    seen: list[float] = []
    append = module.History.append

    def recorded(self: Any, step: int, numbers: Any, seconds: float) -> None:  # noqa: ANN401
        seen.append(float(numbers["loss"]))
        append(self, step, numbers, seconds)

    module.History.append = recorded  # type: ignore[method-assign]
    data = fast_paths.Data()
    if learner in MAKERS:
        name, fast_paths.STEPS = MAKERS[learner]
        run = {"device": "cpu", "progress": False, "log_every": 1}
        jobs, _ = getattr(fast_paths, name)(data, 0, run)
        fast_paths.fit_together([jobs])
    else:
        _others(data)[learner]()
    return seen


def _others(data: Any) -> dict[str, Callable[[], object]]:  # noqa: ANN401
    """Return the trainings that are not jobs of ``fast_paths.py``."""
    images, labels = data.train, data.labels
    shape = tuple(images.shape[1:])

    def weights() -> None:
        from symmetries.estimators import InvariantClassifier

        model = InvariantClassifier("rotation", steps=STEPS, device="cpu", random_state=0)
        model.fit(images[:100].numpy(), labels[:100].numpy())

    def poses() -> None:
        from symmetries.learners.orbit_posterior import OrbitPosterior

        model = OrbitPosterior("rotation", shape, "quick", seed=0)
        model.fit(images, device="cpu", progress=False, log_every=1)

    def network() -> None:
        import torch
        from torch import nn

        from symmetries.learners.invariant_network import InvariantNetwork

        torch.manual_seed(0)
        inputs = images[0].numel()
        layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 10))
        model = InvariantNetwork(layers, "rotation", config="quick", seed=0)
        model.fit((images, labels), device="cpu", progress=False, log_every=1)

    return dict(zip(OTHERS, (weights, poses, network), strict=True))


def losses(folder: Path, learner: str) -> list[float] | str:
    """Return what :func:`losses_here` finds with another folder's code, or why it fails."""
    off = {"SYMMETRIES_KERNELS": "0", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--here", learner],
        cwd=folder / "benchmarks",
        env={**os.environ, **off, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"losses"')]
    if not lines:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    found: list[float] = json.loads(lines[0])["losses"]
    return found


def compared(learner: str, old: list[float] | str, new: list[float] | str) -> dict[str, Any]:
    """Return the row of a learner."""
    row: dict[str, Any] = {"learner": learner}
    for name, found in (("before", old), ("now", new)):
        if isinstance(found, str):
            return row | {name: f"not trained: {found}"}
    pairs = list(zip(old, new, strict=False))[: 2 * STEPS]
    apart = [abs(float(a) - float(b)) / max(1.0, abs(float(a))) for a, b in pairs]
    same = len(old) == len(new)
    row |= {"losses": len(pairs), "same number of losses": same, "difference": max(apart)}
    beyond = [step for step, value in enumerate(apart) if value > LIMIT]
    if beyond:
        row["differs from"] = beyond[0]
    return row | {"first": float(old[0]), "last": float(pairs[-1][0])}


def main() -> None:
    """Compare and store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", nargs="?", type=Path, help="folder of the older commit")
    parser.add_argument("--name", default="?", help="of the older commit")
    parser.add_argument("--learners", nargs="+", default=[*MAKERS, *OTHERS])
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps({"losses": losses_here(options.here)}), flush=True)
        return
    sys.path.insert(0, str(Path(__file__).parent))
    from common import record

    rows = []
    for learner in options.learners:
        row = compared(learner, losses(options.old.resolve(), learner), losses(HERE, learner))
        rows.append({"before": options.name, **row})
        print(json.dumps(rows[-1]), flush=True)
    record(f"first_losses-{options.name}-cpu", rows)
    wrong = [row["learner"] for row in rows if row.get("difference", 0) > LIMIT]
    sys.exit(f"losses differ by more than {LIMIT}: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
