"""What a result records about its data and its run."""

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch

from symmetries import __version__
from symmetries._utils.provenance import commit, device_name, threads, versions
from symmetries._utils.text import masked, printable
from symmetries.data import ImageSet
from symmetries.groups.base import Group
from symmetries.results import DataSummary, RunInfo

Info = Callable[[], RunInfo]  # of a run that may still go on


def data_summary(images: ImageSet) -> DataSummary:
    """Name, size, classes and hash of a set of images."""
    _, channels, height, width = images.images.shape
    return DataSummary(
        name=printable(images.name),
        count=len(images),
        channels=channels,
        height=height,
        width=width,
        classes=class_names(images),
        sha256=data_hash(images),
    )


def class_names(images: ImageSet) -> tuple[str, ...]:
    """Names of the classes: those of the set, or the numbers of the classes."""
    names = images.class_names or tuple(str(label) for label in range(images.classes))
    return tuple(printable(name) for name in names)


def data_hash(images: ImageSet) -> str:
    """SHA-256 of the pixels, the labels and their shape: the same numbers, the same hash.

    Example:
        >>> data_hash(ImageSet(torch.zeros(1, 1, 8, 8)))[:12]
        'b71c98506529'
    """
    digest = hashlib.sha256(str(tuple(images.images.shape)).encode())
    for part in (images.images, images.labels):
        if part is not None:
            digest.update(part.contiguous().cpu().numpy().data)
    return digest.hexdigest()


def run_info(command: str, seed: int, device: torch.device, seconds: float) -> RunInfo:
    """Command, seed, device, time and versions of a run."""
    return RunInfo(
        command=printable(masked(command)),
        seed=seed,
        device=device_name(device),
        time=round(seconds, 3),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={"symmetries": __version__, **versions()},
        commit=commit(),
        threads=threads(),
    )


class Call:
    """One call of a function of this package: its clock, and how it is written.

    Args:
        name: of the function.
        arguments: by name; those that are None are left out.

    Example:
        >>> Call("discover", data="digits", group="rotation", fill=None).text
        "symmetries.discover(data='digits', group='rotation')"
    """

    def __init__(self, name: str, **arguments: object) -> None:
        shown = {key: _written(value) for key, value in arguments.items() if value is not None}
        self.text = f"symmetries.{name}({', '.join(f'{k}={v}' for k, v in shown.items())})"
        self.started = time.perf_counter()

    def info(self, seed: int, device: torch.device) -> RunInfo:
        """What a result says about this call."""
        return run_info(self.text, seed, device, time.perf_counter() - self.started)


def _written(value: object) -> str:
    """An argument in the text of a call: plain values in full, data by its type."""
    plain = isinstance(value, bool | int | float | str | Group)
    return repr(value) if plain else f"<{type(value).__name__}>"
