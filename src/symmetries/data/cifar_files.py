"""Loader of CIFAR-10 and CIFAR-100, in the published "binary" and "python" layouts."""

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symmetries._validation.checks import check_choice, invalid
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet, data_folder, missing
from symmetries.data.checked_files import AGAIN, read_bytes
from symmetries.data.pickles import read_plain_pickle
from symmetries.data.remote import advice, check_published

_PIXELS = 3 * 32 * 32
_LARGEST = 2**28  # limit on the size of a file in bytes; the largest published one has 155 million


@dataclass(frozen=True)
class _Layout:
    """A published layout: its folder, archive, the files of each split, and the class names."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    python: bool
    label_bytes: int
    label_key: str
    names_key: str


_LAYOUTS = {
    "cifar10": (
        _Layout(
            "cifar-10-batches-bin",
            "cifar-10-binary.tar.gz",
            tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
            ("test_batch.bin",),
            "batches.meta.txt",
            *(False, 1, "labels", "label_names"),
        ),
        _Layout(
            "cifar-10-batches-py",
            "cifar-10-python.tar.gz",
            tuple(f"data_batch_{i}" for i in range(1, 6)),
            ("test_batch",),
            "batches.meta",
            *(True, 1, "labels", "label_names"),
        ),
    ),
    "cifar100": (
        _Layout(
            "cifar-100-binary",
            "cifar-100-binary.tar.gz",
            ("train.bin",),
            ("test.bin",),
            "fine_label_names.txt",
            *(False, 2, "fine_labels", "fine_label_names"),
        ),
        _Layout(
            "cifar-100-python",
            "cifar-100-python.tar.gz",
            ("train",),
            ("test",),
            "meta",
            *(True, 2, "fine_labels", "fine_label_names"),
        ),
    ),
}


def _from_archive(path: Path, layout: _Layout, wanted: set[str]) -> dict[str, bytes]:
    found = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = member.name.removeprefix("./").removeprefix(f"{layout.folder}/")
                plain = member.isfile() and file in wanted
                if plain and member.size > _LARGEST:
                    got = f"{member.size} bytes of {file}"
                    raise invalid(str(path), f"files of at most {_LARGEST} bytes", got, AGAIN)
                stream = archive.extractfile(member) if plain else None
                if stream is not None:
                    found[file] = stream.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise invalid(str(path), "a readable archive", f"{error}", AGAIN) from error
    return found


def _files(root: Path, name: str, layout: _Layout, split: str) -> dict[str, bytes] | None:
    """Return the files of a split and of the class names as bytes, or None if there are none."""
    needed = layout.train if split == "train" else layout.test
    wanted = {*needed, layout.names}
    for place in (root / name, root):
        folder, archive = place / layout.folder, place / layout.archive
        if folder.is_dir():
            source = folder
            found = {f: read_bytes(folder / f) for f in wanted if (folder / f).is_file()}
        elif archive.is_file():
            source = archive
            check_published(archive)
            found = _from_archive(archive, layout, wanted)
        else:
            continue
        absent = sorted(wanted - found.keys())
        if absent:
            raise invalid(str(source), "all files of the set", f"no {absent[0]}", AGAIN)
        return found
    return None


def _binary(data: bytes, file: Path, layout: _Layout) -> tuple[NDArray[Any], NDArray[Any]]:
    record = layout.label_bytes + _PIXELS
    if not data or len(data) % record:
        raise invalid(str(file), f"whole records of {record} bytes", f"{len(data)} bytes", AGAIN)
    rows = np.frombuffer(data, np.uint8).reshape(-1, record)
    return rows[:, layout.label_bytes :], rows[:, layout.label_bytes - 1]  # the fine label is last


def _python(data: bytes, file: Path, layout: _Layout) -> tuple[NDArray[Any], NDArray[Any]]:
    batch = read_plain_pickle(data, file, ("data", layout.label_key))
    images, labels = batch.get("data"), batch.get(layout.label_key)
    if not isinstance(images, np.ndarray) or not isinstance(labels, list):
        expected = f"arrays 'data' and {layout.label_key!r}"
        raise invalid(str(file), expected, f"{sorted(batch)}", AGAIN)
    if images.ndim != 2 or images.shape[1] != _PIXELS or len(images) != len(labels):
        got = f"shape {images.shape} with {len(labels)} labels"
        raise invalid(str(file), f"(N, {_PIXELS}) bytes and N labels", got, AGAIN)
    if not all(type(label) is int for label in labels):
        raise invalid(f"{file} labels", "integers", "something else", AGAIN)
    return images, np.asarray(labels)


def _class_names(data: bytes, file: Path, layout: _Layout) -> tuple[str, ...]:
    if not layout.python:
        return tuple(data.decode("latin-1").split())
    names = read_plain_pickle(data, file, (layout.names_key,)).get(layout.names_key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid(str(file), f"a list {layout.names_key!r}", type(names).__name__, AGAIN)
    return tuple(names)


def cifar(name: str, split: str = "train", folder: str | Path | None = None) -> ImageSet:
    """Load CIFAR-10 or CIFAR-100 (fine labels), 32 x 32 colour, from either published layout.

    Args:
        name: "cifar10" or "cifar100".
        split: "train" (50,000 images) or "test" (10,000).
        folder: folder with the published folder ("cifar-10-batches-bin", "cifar-10-batches-py",
            "cifar-100-binary", "cifar-100-python") or its archive (.tar.gz); the default is
            $SYMMETRIES_DATA.
    """
    check_choice(name, _LAYOUTS, "name")
    check_choice(split, ("train", "test"), "split")
    root = data_folder(folder)
    for layout in _LAYOUTS[name]:
        found = _files(root, name, layout, split)
        if found is None:
            continue
        place = Path(layout.folder)
        class_names = _class_names(found.pop(layout.names), place / layout.names, layout)
        read = _python if layout.python else _binary
        parts = [read(data, place / file, layout) for file, data in sorted(found.items())]
        images = np.concatenate([part[0] for part in parts]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([part[1] for part in parts])
        return from_array(images, labels, name, class_names, "NCHW")
    places = [root / layout.folder for layout in _LAYOUTS[name]]
    raise missing(name, places, advice(name))
