"""Two processes over gloo against one with the same global batch, for every learner and command.

``python campaign/ddp.py`` prints and stores the largest difference of a weight, relative to the
largest weight of its tensor; for a command also that of a number of its result. One process imports
the library and forks the others.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning_fabric  # noqa: F401 - once, not in every process
import numpy as np
import small_runs
import torch
from common import store
from kills import child, ended
from torch import nn

import symmetries.analysis.augmentation
import symmetries.analysis.discovery
import symmetries.analysis.fits
import symmetries.report  # noqa: F401
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.training import load_state, save_model

TOLERANCE = 1e-4
# Mean and variance of a batch are those of a process's share: torch's own synchronised kind needs a
# GPU.
BATCH_NORM = ("relaxed equivariance", "fit --method relaxed")
# Parameters whose slope is zero at the start: there Adam makes full steps of rounding, in single
# precision in another direction with every order of adding up. In double precision too rounding
# grows at every step, so they are few.
DOUBLE = ("invariant VAE, in one piece", "symmetry model of `discover`")
FEW = 8
# A command whose weights differ for that reason: its results must agree, and in double precision
# its learner's weights.
ROUNDED = ("discover",)
METHODS = ("invariant", "plain", "augmented", "relaxed")
COMMANDS: dict[str, list[str]] = {
    "discover": ["discover", "set.npz", "--group", "rotation", "--out", "found"],
    **{
        f"fit --method {method}": ["fit", "set.npz", "--method", method, "--out", method]
        for method in METHODS
    },
    "audit": ["audit", "../one/invariant/model", "set.npz", "--group", "c4", "--out", "seen"],
    "augment": ["augment", "../one/found/model", "set.npz", "--out", "more.npz"],
}
NEEDS = {"audit": "fit --method invariant", "augment": "discover"}


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


def in_processes(name: str, world: int, work: Callable[[int], None]) -> None:
    """Let some processes, which find each other, do their work."""
    port = free_port()

    def begin(rank: int) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        if world > 1:
            os.environ.update(rendezvous(rank, world, port))
        work(rank)

    children = [child(lambda rank=rank: begin(rank)) for rank in range(world)]
    codes = [ended(pid, wait=True) for pid in children]
    if any(codes):
        raise SystemExit(f"{name}: {world} processes ended with {codes}")


def together(name: str, world: int, folder: Path) -> dict[str, torch.Tensor]:
    """Train with some processes; the weights that the first one ends with."""

    def work(rank: int) -> None:
        small_runs.WORLD["devices"] = world
        small_runs.WORLD["precision"] = "64-true" if name in DOUBLE else "32-true"
        if name in DOUBLE:
            small_runs.JOINT_STEPS = FEW
        model = small_runs.LEARNERS[name](folder / f"run-{world}", False)
        save_model(folder / f"model-{world}-{rank}", model, {})

    in_processes(name, world, work)
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


def run_command(name: str, world: int, folder: Path) -> None:
    """Run a command with some processes in a folder of its own, with the data beside."""
    from symmetries.cli import app

    folder.mkdir(exist_ok=True)
    (folder / "set.npz").unlink(missing_ok=True)
    (folder / "set.npz").symlink_to("../set.npz")

    def work(rank: int) -> None:
        os.chdir(folder)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        small_runs.small_presets()
        small_runs.WORLD["devices"] = world
        words = [*COMMANDS[name], "--quiet", "--device", "cpu", "--devices", str(world)]
        app(words, standalone_mode=False)

    in_processes(name, world, work)


def compare_commands(names: list[str], scratch: Path) -> dict[str, Any]:
    """Every command with one process and with two: the results that they write."""
    pictures = torch.cat([small_runs.images(seed) for seed in range(6)])
    labels = small_runs.labels().repeat(6).numpy()
    np.savez(scratch / "set.npz", images=(255 * pictures[:, 0]).byte().numpy(), labels=labels)
    needed = [NEEDS[name] for name in names if name in NEEDS]
    found: dict[str, Any] = {}
    for name in dict.fromkeys([*needed, *names]):
        run_command(name, 1, scratch / "one")
        if name not in names:
            continue
        run_command(name, 2, scratch / "two")
        out = COMMANDS[name][-1]
        one, two = scratch / "one" / out, scratch / "two" / out
        weights = 0.0
        if (one / "model").is_dir():
            weights = difference(*(load_state(place / "model")[0] for place in (one, two)))
        gap = apart(*(numbers_of(place) for place in (one, two)))
        found[name] = {
            "difference": float(f"{weights:.3g}"),
            "result_difference": float(f"{gap:.3g}"),
            "same": max(0.0 if name in ROUNDED else weights, gap) < TOLERANCE,
            "batch_norm": name in BATCH_NORM,
        }
        print(name, found[name], flush=True)
    return found


def discovered(out: Path | None, resume: bool) -> nn.Module:
    """What the command "discover" fits."""
    pictures = torch.cat([small_runs.images(seed) for seed in range(6)])
    pictures = (255 * pictures).byte().double() / 255
    model = SymmetryModel("rotation", (1, 8, 8), small_runs.small_config())
    model.fit(pictures, out=out, resume=resume, progress=False)
    return model


small_runs.LEARNERS["symmetry model of `discover`"] = discovered


def numbers_of(place: Path) -> list[float]:
    """All numbers of a result that do not speak of the run itself."""
    if place.suffix == ".npz":
        with np.load(place) as arrays:
            found = [arrays[name] for name in sorted(arrays)]  # the run's record is bytes
            return [
                float(n) for array in found if isinstance(array, np.ndarray) for n in array.flat
            ]
    (path,) = place.glob("*.json")
    content = json.loads(path.read_text())
    for name in ("run", "data", "sha256", "seconds"):
        content.pop(name, None)

    def walk(part: Any) -> list[float]:  # noqa: ANN401
        if isinstance(part, dict):
            return [n for value in part.values() for n in walk(value)]
        if isinstance(part, list):
            return [n for value in part for n in walk(value)]
        return [float(part)] if isinstance(part, int | float) else []

    return walk(content)


def apart(one: list[float], two: list[float]) -> float:
    """The largest difference of two rows of numbers, relative where they are above 1."""
    if len(one) != len(two):
        return float("inf")
    a, b = np.array(one), np.array(two)
    return float((np.abs(a - b) / np.maximum(1, np.abs(a))).max())


def main() -> None:
    """Compare, and store the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", nargs="*", choices=[*small_runs.LEARNERS])
    parser.add_argument("--commands", nargs="*", choices=[*COMMANDS])
    options = parser.parse_args()
    started = time.time()
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        names = [*COMMANDS] if options.commands is None else options.commands
        commands = compare_commands(names, Path(scratch))
    for name in small_runs.LEARNERS if options.learners is None else options.learners:
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
    found = {"tolerance": TOLERANCE, "processes": 2, "learners": numbers, "commands": commands}
    store("ddp", found, started)


if __name__ == "__main__":
    main()
