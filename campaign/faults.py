"""A full disk, a folder that may not be written, a folder that is gone, two runs into one folder.

``python campaign/faults.py``. Who may mount gets a small file system of its own and a read-only one
over the folder; otherwise file sizes are limited and permissions taken away. Every run must end
with an error that names the file, leave its last checkpoint whole, and go on from it.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_runs
import torch
from common import store
from kills import child, ended
from torch import Tensor, nn

import symmetries.training
from symmetries.training import FolderInUseError, load_state

ROOT_USER = os.geteuid() == 0


def can_mount() -> bool:
    """Whether this user may mount a file system, which root in a container often may not."""
    if not ROOT_USER or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as place:
        tried = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True)
        if tried.returncode == 0:
            subprocess.run(["umount", place], check=True)
    return tried.returncode == 0


MOUNTS = can_mount()
PLACE = 8  # the step after which something goes wrong


def run(folder: Path, fault: Callable[[], None] | None, resume: bool) -> nn.Module:
    """A small training in which something happens."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 500), nn.Tanh(), nn.Linear(500, 3))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: object) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}

    def on_step(step: symmetries.training.Step, metrics: object) -> None:
        if step.index == PLACE and fault is not None:
            fault()

    data = (small_runs.images(), small_runs.labels())
    config = small_runs.config(folder, resume)
    symmetries.training.train(model, loss, data, config, on_step=on_step)
    return model


def mount(folder: Path, *options: str) -> None:
    """Mount a file system of two megabytes."""
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], check=True)


def as_somebody(work: Callable[[], Any], scratch: Path) -> Any:  # noqa: ANN401
    """Do some work as a user whom permissions bind, which they do not do to root."""

    def task() -> None:
        if ROOT_USER:
            scratch.chmod(0o777)
            os.setuid(65534)
        (scratch / "found").write_text(json.dumps(work()))

    if ended(child(task), wait=True):
        raise SystemExit("the child failed")
    return json.loads((scratch / "found").read_text())


def meets(
    fault: Callable[[Path], None], repair: Callable[[Path], None], scratch: Path, disk: bool
) -> dict[str, Any]:
    """Whether a run meets a fault with words, keeps its checkpoint, and goes on after a repair."""
    folder = scratch / "disk"
    folder.mkdir()
    if disk:
        mount(folder, "-o", "size=2m")
    try:
        out, words = folder / "run", ""
        try:
            run(out, lambda: fault(folder), resume=False)
        except OSError as error:
            words = str(error)
        repair(folder)
        kept = load_state(out, "checkpoint")[1]["step"] if (out / "checkpoint.json").exists() else 0
        again = small_runs.fingerprint(run(out, None, resume=True))
    finally:
        if disk:
            subprocess.run(["umount", str(folder)], check=True)
    clear = "cannot write" in words and str(out) in words
    same = again == small_runs.fingerprint(run(scratch / "quiet", None, resume=False))
    found = {"clear_error": clear, "checkpoint_after_step": kept, "same_weights": same}
    return found | {"words": words}


def fill(folder: Path) -> None:
    """Fill the disk."""
    if not MOUNTS:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        return
    descriptor = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)


def unfill(folder: Path) -> None:
    """Make room again."""
    (folder / "filler").unlink(missing_ok=True)
    if not MOUNTS:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def protect(folder: Path) -> None:
    """Allow no more writing."""
    if MOUNTS:  # something read-only in its place
        mount(folder / "run", "-o", "ro")
        return
    for path in (folder / "run" / "metrics.csv", folder / "run"):
        path.chmod(0o500)


def allow(folder: Path) -> None:
    """Allow writing again."""
    if MOUNTS:
        subprocess.run(["umount", str(folder / "run")], check=True)
        return
    for path in (folder / "run", folder / "run" / "metrics.csv"):
        path.chmod(0o700)


def remove(folder: Path) -> None:
    """Take the folder away."""
    shutil.rmtree(folder / "run")


def nothing(folder: Path) -> None:
    """Nothing to repair."""


def locked(scratch: Path) -> dict[str, bool]:
    """A second run into a folder is refused; after the first was killed, it is not."""
    folder, ready = scratch / "run", scratch / "ready"

    def hold() -> None:
        ready.touch()
        time.sleep(600)

    pid = child(lambda: run(folder, hold, resume=False) and None)
    while not ready.exists():
        time.sleep(0.05)
    refused = False
    try:
        run(folder, None, resume=False)
    except FolderInUseError as error:
        refused = str(pid) in str(error)
    os.kill(pid, signal.SIGKILL)
    ended(pid, wait=True)
    again = small_runs.fingerprint(run(folder, None, resume=True))
    same = again == small_runs.fingerprint(run(scratch / "quiet", None, resume=False))
    return {"second_run_refused": refused, "stale_lock_blocks_nothing": same}


def main() -> None:
    """Try all, and store what happened."""
    started = time.time()
    torch.set_num_threads(1)
    faults = {
        "full disk": (fill, unfill),
        "read-only folder": (protect, allow),
        "removed folder": (remove, nothing),
    }
    numbers: dict[str, Any] = {}
    for name, (fault, repair) in faults.items():
        with tempfile.TemporaryDirectory() as scratch:
            place, disk = Path(scratch), MOUNTS and name == "full disk"
            if name == "read-only folder" and ROOT_USER and not MOUNTS:
                found = as_somebody(lambda: meets(protect, allow, place, False), place)  # noqa: B023
            else:
                found = meets(fault, repair, place, disk)
        words = found.pop("words")
        if not found["clear_error"]:
            print(words)
        numbers[name] = found
        print(name, found, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        numbers["two runs into one folder"] = locked(Path(scratch))
    print(numbers["two runs into one folder"])
    store("faults", {"faults": numbers, "own_file_systems": MOUNTS}, started)


if __name__ == "__main__":
    main()
