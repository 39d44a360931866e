"""Provenance of a result: the command, commit, device, versions and date.

It is stored beside every result of the commands, papers and benchmarks, so that the result can
be reproduced.
"""

import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: Environment variable that may name the commit if there is no git.
COMMIT_VARIABLE = "SYMMETRIES_COMMIT"

#: Parts of the package whose code decides what a learner's training computes.
GROUND = ("_utils", "actions", "distributions", "groups", "nn", "ops", "training")

_CHECKOUT = Path(__file__).resolve().parents[3]


def commit() -> str | None:
    """Return the commit of the checkout that holds the package, with "+" if it has changes.

    Git is asked once: later changes of files are not those of the code that runs.

    Returns:
        A short hash; outside a checkout the value of $SYMMETRIES_COMMIT, or None.
    """
    return _checked_out(_CHECKOUT) or os.environ.get(COMMIT_VARIABLE)


@cache
def _checked_out(folder: Path) -> str | None:
    if not (folder / ".git").exists():
        return None
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def device_name(device: "torch.device | str") -> str:
    """Return the name of the GPU or of the processor.

    Args:
        device: "cpu", "cuda", "cuda:1", or the torch object.
    """
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def source_digest(part: str = "") -> str:
    """Return the SHA-256 of the package's own source files, or of a part such as "learners/vae"."""
    root = Path(__file__).resolve().parents[1] / part
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".cu"):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def learner_digest(function: Callable[..., Any]) -> str | None:
    """Digest of what a learner's training computes with; None for functions of no learner.

    That is the folder of the learner whose code the function belongs to, and the parts of the
    package that it stands on: :data:`GROUND`.

    Example:
        >>> learner_digest(print) is None
        True
    """
    function = getattr(function, "func", function)  # of a partial function
    module = getattr(function, "__module__", None) or ""
    name = re.match(r"symmetries\.(learners\.\w+)\.", module)
    if name is None:
        return None
    parts = (name.group(1).replace(".", "/"), *GROUND)
    return hashlib.sha256("".join(map(source_digest, parts)).encode()).hexdigest()[:16]


def threads() -> int:
    """How many threads torch computes with: sums are rounded differently with another number."""
    import torch

    return torch.get_num_threads()


def versions(*packages: str) -> dict[str, str]:
    """Return versions of Python, torch and NumPy, and of those of ``packages`` that are installed.

    Example:
        >>> sorted(versions("no-such-package"))
        ['numpy', 'python', 'torch']
    """
    found = {"python": platform.python_version()}
    for package in ("torch", "numpy", *packages):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(device: "torch.device | str") -> dict[str, Any]:
    """Return the provenance record of a result.

    Args:
        device: device on which the result was computed.

    Returns:
        Command, commit ("unknown" where nothing tells it), date, device, number of threads, and the
        versions of torch and Python.
    """
    found = versions()
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": commit() or "unknown",
        "date": time.strftime("%Y-%m-%d"),
        "device": device_name(device),
        "threads": threads(),
        "torch": found["torch"],
        "python": found["python"],
    }


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
