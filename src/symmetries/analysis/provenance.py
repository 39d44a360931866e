"""Records of a result's data and run."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256

import torch
from torch import Tensor

from symmetries import __version__
from symmetries._utils.provenance import commit, device_name, threads, versions
from symmetries._utils.text import masked, printable
from symmetries.data import ImageSet
from symmetries.groups.base import Group
from symmetries.results import DataSummary, RunInfo

Info = Callable[[], RunInfo]  # of a run that may still go on
LARGE = 2**30  # bytes of pixels from which on they are hashed in blocks
BLOCK = 2**26  # bytes of a block


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


def summary_in_background(images: ImageSet) -> "Future[DataSummary]":
    """The summary, made in another thread: hashing many images takes as long as some passes."""
    if images.images.is_cuda:
        torch.cuda.current_stream(images.images.device).synchronize()  # the images are written
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(data_summary, images)
    finally:
        pool.shutdown(wait=False)


def class_names(images: ImageSet) -> tuple[str, ...]:
    """Return names of the classes: those of the set, or the numbers of the classes."""
    names = images.class_names or tuple(str(label) for label in range(images.classes))
    return tuple(printable(name) for name in names)


def data_hash(images: ImageSet) -> str:
    """SHA-256 of the pixels, the labels and their shape: the same numbers, the same hash.

    Of more than a gibibyte of pixels, the digests of blocks are hashed, which are made in parallel.

    Example:
        >>> data_hash(ImageSet(torch.zeros(1, 1, 8, 8)))[:12]
        'b71c98506529'
    """
    digest = sha256(str(tuple(images.images.shape)).encode())
    if images.images.nbytes <= LARGE:
        digest.update(_bytes(images.images))
    else:
        rows = max(1, BLOCK * len(images) // images.images.nbytes)
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            for found in pool.map(lambda part: sha256(_bytes(part)), images.images.split(rows)):
                digest.update(found.digest())
    if images.labels is not None:
        digest.update(_bytes(images.labels))
    return digest.hexdigest()


def _bytes(values: Tensor) -> memoryview:
    """The numbers of a tensor; those on a GPU are copied without waiting for what it computes."""
    if not values.is_cuda:
        return values.contiguous().numpy().data
    with torch.cuda.stream(torch.cuda.Stream(values.device)):
        host = values.contiguous().to("cpu", non_blocking=True)
        torch.cuda.current_stream(values.device).synchronize()
    return host.numpy().data


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
    """One call of a function of this package: its start time and its text.

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
        """Return the record of this call for a result."""
        return run_info(self.text, seed, device, time.perf_counter() - self.started)


def _written(value: object) -> str:
    """Return an argument in the text of a call: plain values in full, data by its type."""
    plain = isinstance(value, bool | int | float | str | Group)
    return repr(value) if plain else f"<{type(value).__name__}>"
