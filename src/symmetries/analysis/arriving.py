"""Pictures of a stream as they arrive: in a folder that grows, in stored data, or by name."""

import hashlib
import sys
import warnings
from collections.abc import Iterator
from os import fsdecode
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from symmetries._utils.text import printable
from symmetries._validation.checks import invalid
from symmetries.analysis.inputs import Reading, read_images
from symmetries.data import NAMES, ImageSet, describe
from symmetries.data.pictures import SUFFIXES, read_picture

AT_ONCE = 50  # pictures between two looks
REMEMBERED = 2000  # files of a folder whose names are kept
Shape = tuple[int, int, int]


def check_stream(stream: str) -> None:
    """Refuse, before any work, a stream that is not there or lies in the folders of a folder."""
    folder = Path(stream).expanduser()
    if stream == "-" or (stream not in NAMES and folder.is_file()):
        return
    if stream in NAMES or not folder.is_dir():
        describe(stream)
        return
    inner = sum(path.is_dir() and not path.name.startswith(".") for path in folder.iterdir())
    if inner and not _files_in(folder):
        got = f"none beside {inner} {'folder' if inner == 1 else 'folders'}"
        remedy = "name one of them, or give names of files on the standard input: find "
        remedy += "FOLDER -name '*.png' | shuf | symmetries watch REFERENCE -"
        raise invalid(stream, "pictures in the folder itself", got, remedy)


def shape_of(images: ImageSet) -> Shape:
    """(C, H, W) of every picture."""
    _, channels, height, width = images.images.shape
    return channels, height, width


def ordered(stream: ImageSet, shape: Shape) -> Tensor:
    """The pictures (n, C, H, W) of stored data, in their order.

    Refused if they are of another shape than the reference; a warning if they are sorted by class,
    which the test would take for a change.
    """
    images, labels = stream.images, stream.labels
    if tuple(images.shape[1:]) != shape:
        got, remedy = f"{tuple(images.shape[1:])}", "resize both, or give pictures of one kind"
        raise invalid("stream", f"pictures {shape}, as in the reference", got, remedy)
    if labels is not None and len(labels.unique()) > 1 and bool((labels.diff() >= 0).all()):
        text = "the pictures of the stream are sorted by class, and classes that come one after "
        text += "the other are a change: shuffle them"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return images


def arriving(
    stream: str, after: object, shape: Shape, reading: Reading
) -> Iterator[tuple[Tensor, Any]]:
    """Pictures (n, C, H, W) that came after a position, and the position after them.

    Args:
        stream: "-" for names on standard input, a folder of pictures, or other data.
        after: the position, plain data that this function gave; None at the beginning.
        shape: (C, H, W) of the reference.
        reading: how data are read.
    """
    if stream == "-":
        for names in _names_on_standard_input():
            yield from _read([Path(name) for name in names], shape, reading, None)
    elif stream not in NAMES and Path(stream).expanduser().is_dir():
        yield from _growing_folder(Path(stream).expanduser(), after, shape, reading)
    else:
        yield from _stored(stream, after, shape, reading)


def _names_on_standard_input() -> Iterator[list[str]]:
    """Lines of the standard input that have come so far, a few at a time."""
    rest = b""
    while chunk := sys.stdin.buffer.read1(2**16):  # type: ignore[union-attr]
        *whole, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(whole), AT_ONCE):
            yield [fsdecode(line.rstrip(b"\r")) for line in whole[start : start + AT_ONCE] if line]
    if rest:
        yield [fsdecode(rest)]


def _growing_folder(
    folder: Path, after: object, shape: Shape, reading: Reading
) -> Iterator[tuple[Tensor, Any]]:
    """New files by their time of change.

    The latest files that were read are remembered by name, so that one that comes late, with an
    earlier time, is read too; files older than all of these are taken to be known.
    """
    known = _known_files(after)
    names, oldest = {name for _, name in known}, min(known, default=(0, ""))
    full = len(known) >= REMEMBERED
    found = sorted((p.stat().st_mtime_ns, p.name) for p in _files_in(folder))
    new = [one for one in found if one[1] not in names and not (full and one < oldest)]
    for start in range(0, len(new), AT_ONCE):
        some = new[start : start + AT_ONCE]
        known = sorted([*known, *some])[-REMEMBERED:]
        yield from _read([folder / name for _, name in some], shape, reading, known)


def _files_in(folder: Path) -> list[Path]:
    files = (p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    return [path for path in files if not path.name.startswith(".")]


def _known_files(after: object) -> list[tuple[int, str]]:
    """The position in a folder; a state on disk may hold anything."""
    pairs = [] if after is None else after
    if not isinstance(pairs, list) or not all(
        isinstance(one, list | tuple) and [type(part) for part in one] == [int, str]
        for one in pairs
    ):
        raise invalid("state", "times and names of files", "others", "add --overwrite")
    return [(one[0], one[1]) for one in pairs]


def _read(
    paths: list[Path], shape: Shape, reading: Reading, after: object
) -> Iterator[tuple[Tensor, Any]]:
    """The pictures of some files, and the position after them; none where none can be read."""
    pictures = []
    for path in paths:
        try:
            if not path.is_file():  # a pipe may never end
                raise invalid(str(path), "a file", "none, or a pipe or device", "check the name")
            pictures.append(_picture(path, shape, reading["size"]))
        except ValueError as error:
            if not reading["skip_bad"]:
                raise
            warnings.warn(f"left out: {printable(str(error))}", RuntimeWarning, stacklevel=2)
    if pictures:
        yield torch.cat(pictures), after


def _picture(path: Path, shape: Shape, size: tuple[int, int] | None) -> Tensor:
    """A picture (1, C, H, W) from 0 to 1."""
    picture = read_picture(path, size).convert("L" if shape[0] == 1 else "RGB")
    values = torch.from_numpy(np.asarray(picture, np.float32) / 255)
    values = values[None, None] if shape[0] == 1 else values.movedim(-1, 0)[None]
    if tuple(values.shape[1:]) != shape:
        expected = f"a picture of {shape[2]} x {shape[1]} pixels, as in the reference"
        got = f"{values.shape[3]} x {values.shape[2]}"
        raise invalid(str(path), expected, got, "resize both: --resize")
    return values


def _stored(
    stream: str, after: object, shape: Shape, reading: Reading
) -> Iterator[tuple[Tensor, Any]]:
    """Pictures of stored data; those that were read before must be there, and be the same."""
    images = ordered(read_images(stream, **reading), shape)
    count, digest = (0, "") if after is None else _known_count(after)
    found = ""
    for picture in images[:count]:
        found = _next_digest(found, picture)
    if count > len(images) or found != digest:
        expected = f"the {count:,} pictures that were read before, and perhaps more"
        raise invalid(stream, expected, "others", "give all data, or begin anew: --overwrite")
    for start in range(count, len(images), AT_ONCE):
        part = images[start : start + AT_ONCE]
        for picture in part:
            digest = _next_digest(digest, picture)
        yield part, [start + len(part), digest]


def _known_count(after: object) -> tuple[int, str]:
    """The position in stored data; a state on disk may hold anything."""
    if not isinstance(after, list) or [type(part) for part in after] != [int, str] or after[0] < 0:
        raise invalid("state", "a number of pictures and a digest", "others", "add --overwrite")
    return after[0], after[1]


def _next_digest(before: str, picture: Tensor) -> str:
    """The digest of the pictures so far."""
    digest = hashlib.sha256(before.encode())
    digest.update(picture.contiguous().numpy().data)
    return digest.hexdigest()
