"""Loader of MNIST and Fashion-MNIST in their published IDX files."""

import hashlib
import math
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from symmetries._validation.checks import as_path, check_choice, check_whole, invalid
from symmetries.data.arrays import from_array
from symmetries.data.base import ImageSet, data_folder, missing
from symmetries.data.checked_files import AGAIN, check_claim, check_memory, read_bytes
from symmetries.data.remote import REMOTE, advice, check_published

PREFIX = {"train": "train", "test": "t10k"}
FOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
}
CLASS_NAMES = {
    "mnist": tuple("0123456789"),
    "fashion-mnist": (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
}


def read_idx(path: str | Path, rank: int | None = None) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, plain or gzipped.

    The header is two zero bytes, the type (8), the rank, and one big-endian uint32 per axis.

    Args:
        path: the file.
        rank: required number of axes, or None for any.
    """
    path = as_path(path)
    header = read_bytes(path, 4)
    if len(header) < 4 or header[:3] != b"\0\0\x08" or header[3] == 0:
        got = f"a file that begins with {header.hex() or 'nothing'}"
        raise invalid(str(path), "an IDX file of unsigned bytes", got, AGAIN)
    axes = header[3]
    if rank is not None:
        check_whole(rank, "rank", most=255)
    if rank is not None and axes != rank:
        remedy = "check whether images and labels are swapped"
        raise invalid(str(path), f"{rank} axes", f"{axes}", remedy)
    head = 4 + 4 * axes
    sizes = read_bytes(path, head)[4:]
    if len(sizes) < 4 * axes:
        raise invalid(str(path), "a complete IDX header", f"{4 + len(sizes)} bytes", AGAIN)
    shape = struct.unpack(f">{axes}I", sizes)
    count = math.prod(shape)
    if count == 0:
        raise invalid(str(path), "at least one item", f"shape {shape}", AGAIN)
    check_claim(path, count, path.stat().st_size, compressed=path.suffix == ".gz")
    check_memory(path, 5 * count)  # bytes, and the float32 that they become
    body = read_bytes(path, head + count + 1)[head:]  # one more, to reach the checksum
    if len(body) != count:
        got = f"{len(body)} bytes" if len(body) < count else "more"
        raise invalid(str(path), f"{count} bytes after the header", got, AGAIN)
    return np.frombuffer(body, np.uint8).reshape(shape)


def _find(folder: Path, name: str, file: str) -> Path:
    places = [folder / place for place in FOLDERS[name]] + [folder]
    for place in places:
        for candidate in (place / f"{file}.gz", place / file):
            if candidate.is_file():
                _check_not_another(candidate, name)
                check_published(candidate)
                return candidate
    raise missing(name, places, advice(name))


def _check_not_another(path: Path, name: str) -> None:
    """Raise an error if the files belong to the other set: both sets use the same file names."""
    if "labels" not in path.name or path.suffix != ".gz":
        return
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for other, files in REMOTE.items():
        if other != name and any(remote.sha256 == digest for remote in files):
            remedy = f"give the folder that holds {name}"
            raise invalid("folder", f"the files of {name}", f"those of {other} in {path}", remedy)


def idx_set(name: str, split: str = "train", folder: str | Path | None = None) -> ImageSet:
    """Load MNIST or Fashion-MNIST from its four IDX files.

    Args:
        name: "mnist" or "fashion-mnist".
        split: "train" (60,000 images) or "test" (10,000).
        folder: folder with the files, or with a folder "mnist", "fashion-mnist", "MNIST/raw", ...
            of them; the default is $SYMMETRIES_DATA.
    """
    check_choice(name, FOLDERS, "name")
    check_choice(split, PREFIX, "split")
    root = data_folder(folder)
    labels_path = _find(root, name, f"{PREFIX[split]}-labels-idx1-ubyte")
    images_path = _find(root, name, f"{PREFIX[split]}-images-idx3-ubyte")
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        got = f"{len(labels)} labels in {labels_path}"
        raise invalid(str(images_path), f"one label for each of {len(images)} images", got, AGAIN)
    return from_array(images, torch.from_numpy(labels.astype(np.int64)), name, CLASS_NAMES[name])


def mnist(split: str = "train", folder: str | Path | None = None) -> ImageSet:
    """Load MNIST: handwritten digits, 28 x 28 grey. See :func:`idx_set`."""
    return idx_set("mnist", split, folder)


def fashion_mnist(split: str = "train", folder: str | Path | None = None) -> ImageSet:
    """Load Fashion-MNIST: articles of clothing, 28 x 28 grey. See :func:`idx_set`."""
    return idx_set("fashion-mnist", split, folder)
