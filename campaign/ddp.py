"""Two processes over gloo against one with the same global batch, for every learner.

``python campaign/ddp.py`` prints and stores the largest difference of a weight, relative to the
largest weight of its tensor. One process imports the library and forks the others.
"""

import argparse
import os
import socket
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import small_runs
import torch
from common import store
from kills import child, ended

from symmetries.training import load_state, save_model

TOLERANCE = 1e-4
# Mean and variance of a batch are those of a process's share: torch's own synchronised kind needs a
# GPU.
BATCH_NORM = ("relaxed equivariance",)


def rendezvous(rank: int, world: int, port: int) -> dict[str, str]:
    """What torchrun tells its processes."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    names |= {"GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()} | {"TORCHELASTIC_RUN_ID": "ddp"}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def together(name: str, world: int, folder: Path) -> dict[str, torch.Tensor]:
    """Train with some processes; the weights that the first one ends with."""
    port = free_port()

    def work(rank: int) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        small_runs.WORLD["devices"] = world
        if world > 1:
            os.environ.update(rendezvous(rank, world, port))
        model = small_runs.LEARNERS[name](folder / f"run-{world}", False)
        save_model(folder / f"model-{world}-{rank}", model, {})

    children = [child(lambda rank=rank: work(rank)) for rank in range(world)]
    codes = [ended(pid, wait=True) for pid in children]
    if any(codes):
        raise SystemExit(f"{name}: {world} processes ended with {codes}")
    states = [load_state(folder / f"model-{world}-{rank}")[0] for rank in range(world)]
    for other in states[1:]:
        for key, value in states[0].items():
            if name not in BATCH_NORM and not torch.allclose(other[key], value):
                raise SystemExit(f"{name}: the processes end with different {key}")
    return states[0]


def difference(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> float:
    """The largest difference of a weight, relative to the largest of its tensor."""
    found = 0.0
    for key, value in one.items():
        size = float(value.abs().max().clamp_min(1e-3)) if value.numel() else 1.0
        gap = float((value.double() - two[key].double()).abs().max()) if value.numel() else 0.0
        found = max(found, gap / size)
    return found


def _last_loss(folder: Path) -> float:
    """The loss that was logged last."""
    path = max(folder.rglob("metrics.csv"), key=lambda file: file.stat().st_mtime)
    header, *_, last = path.read_text().splitlines()
    return float(last.split(",")[header.split(",").index("loss")])


def main() -> None:
    """Compare, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", nargs="+", choices=[*small_runs.LEARNERS])
    options = parser.parse_args()
    started = time.time()
    numbers: dict[str, Any] = {}
    for name in options.learners or small_runs.LEARNERS:
        with tempfile.TemporaryDirectory() as scratch:
            one, two = (together(name, world, Path(scratch)) for world in (1, 2))
            losses = [_last_loss(Path(scratch, f"run-{world}")) for world in (1, 2)]
            writers = len(list(Path(scratch, "run-2").rglob("metrics.csv")))
        gap = difference(one, two)
        numbers[name] = {
            "difference": float(f"{gap:.3g}"),
            "loss_difference": float(f"{abs(losses[1] / losses[0] - 1):.3g}"),
            "same": gap < TOLERANCE,
            "batch_norm": name in BATCH_NORM,
            "metrics_files": writers,
        }
        print(name, numbers[name], flush=True)
    store("ddp", {"tolerance": TOLERANCE, "processes": 2, "learners": numbers}, started)


if __name__ == "__main__":
    main()
