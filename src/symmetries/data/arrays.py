"""Image sets from arrays: NumPy arrays in memory, .npy and .npz files."""

import io
import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from symmetries._utils.text import printable
from symmetries._validation.checks import as_path, check_choice, check_held, invalid
from symmetries.data.base import ImageSet, as_array
from symmetries.data.checked_files import AGAIN, check_claim, check_memory, unreadable
from symmetries.data.labels import names_in, number_labels

_CHANNELS = (1, 2, 3, 4)
_LONGEST_HEADER = 2**16  # bytes; of an honest file, some hundred
_MOST_NAMES = 2**22  # items of an array of class names, or of labels of another split
_LONGEST_NAME = 4096  # characters of one
_CHUNK = 2**20
_LAYOUTS = ("NHW", "NHWC", "NCHW")
_MEANT = {  # members of a .npz file that hold images or labels
    *("images", "labels", "x", "y", "imgs", "arr_0", "arr_1"),
    *(f"{part}_{split}" for part in "xy" for split in ("train", "test")),
    *(f"{split}_{part}" for part in ("images", "labels") for split in ("train", "test")),
}
# Errors that header parsers (NumPy evaluates a Python literal) raise for malformed bytes.
_BAD_HEADER = (
    *(ValueError, EOFError, SyntaxError, TypeError, MemoryError, RecursionError),
    tokenize.TokenError,
)
_BAD_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, UnicodeDecodeError),
    *(EOFError, OSError, RuntimeError, OverflowError),
)


def layout_of(shape: tuple[int, ...]) -> str:
    """Infer the layout of an image array from its shape: "NHW", "NHWC" or "NCHW"."""
    if len(shape) == 3:
        return "NHW"
    if len(shape) != 4:
        raise invalid("images", "3 or 4 axes: NHW, NHWC or NCHW", f"shape {shape}", "reshape them")
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first and last:
        got = f"shape {shape}, which fits both"
        raise invalid("images", "NHWC or NCHW", got, 'say which: layout="NCHW" or "NHWC"')
    if not first and not last:
        raise invalid("images", "1 to 4 channels", f"shape {shape}", "put channels in axis 1 or 3")
    return "NCHW" if first else "NHWC"


def from_array(
    images: NDArray[Any] | Tensor,
    labels: NDArray[Any] | Tensor | None = None,
    name: str = "images",
    class_names: tuple[str, ...] | None = None,
    layout: str | None = None,
    *,
    in_place: bool = False,
) -> ImageSet:
    """Build an image set from an array of uint8 in 0 .. 255 or floats in [0, 1].

    Args:
        images: (N, H, W), (N, H, W, C) or (N, C, H, W).
        labels: (N,) or (N, 1) integers, or names of classes, or None.
        name: name of the set in results and messages.
        class_names: one name per class; None takes the names in the labels, sorted.
        layout: "NHW", "NHWC" or "NCHW"; needed only if the shape is ambiguous.
        in_place: leave a float32 tensor of layout NCHW as it is, on its device; else it is copied.

    Example:
        >>> import numpy as np
        >>> from_array(np.zeros((2, 9, 7, 3), np.uint8)).images.shape
        torch.Size([2, 3, 9, 7])
    """
    if in_place and isinstance(images, Tensor) and images.dtype == torch.float32:
        check_held(images, "images")
        if (layout or layout_of(tuple(images.shape))) == "NCHW":
            return ImageSet(images.detach(), *_labels(labels, class_names, name))
    array = as_array(images, "images")
    if layout is None:
        layout = layout_of(array.shape)
    check_choice(layout, _LAYOUTS, "layout")
    if array.ndim != len(layout):
        got = f"shape {array.shape}"
        raise invalid("images", f"{len(layout)} axes for {layout}", got, "change the layout")
    if array.dtype == np.uint8:
        scale: float | None = 255.0
    elif array.dtype == np.bool_ or np.issubdtype(array.dtype, np.floating):
        scale = None
    else:
        remedy = "cast to uint8 if the values are 0 .. 255, else divide by the largest possible one"
        raise invalid("images", "dtype uint8 or floating", array.dtype, remedy)
    if layout == "NHW":
        array = array[:, None]
    elif layout == "NHWC":
        array = np.moveaxis(array, 3, 1)
    with np.errstate(over="ignore"):  # overflow to infinity is reported by the range check
        pixels = torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
    if scale is not None:
        pixels /= scale
    return ImageSet(pixels, *_labels(labels, class_names, name))


def _labels(
    labels: NDArray[Any] | Tensor | None, class_names: tuple[str, ...] | None, name: str
) -> tuple[Tensor | None, str, tuple[str, ...] | None]:
    """Class numbers, the name of the set, and the names of the classes, as ImageSet takes them."""
    truth, names = number_labels(labels, class_names)
    return truth, name, names


def npy_header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and dtype of a .npy stream; object arrays are refused."""
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        length = stream.read(2 if version == (1, 0) else 4)
        size = int.from_bytes(length, "little")
        if size > _LONGEST_HEADER:
            raise ValueError(f"a header of {size} bytes")
        shape, fortran, dtype = read(io.BytesIO(length + stream.read(size)))
    except _BAD_HEADER as error:
        raise invalid(str(path), "a numpy array", f"{error}", AGAIN) from error
    if any(size < 0 for size in shape):
        raise invalid(str(path), "sizes of at least 0", f"shape {shape}", AGAIN)
    if dtype.hasobject or dtype.names is not None:
        remedy = "save plain numbers: reading object arrays would run code"
        raise invalid(str(path), "numbers", f"dtype {dtype}", remedy)
    return shape, fortran, dtype


def _read_array(stream: IO[bytes], path: Path, stored: int, *, compressed: bool) -> NDArray[Any]:
    shape, fortran, dtype = npy_header(stream, path)
    size = math.prod(shape) * dtype.itemsize
    check_claim(path, size, stored, compressed=compressed)
    data, done = np.empty(size, np.uint8), 0
    while done < size:  # into its place, piece by piece: never twice in memory
        part = stream.read(min(_CHUNK, size - done))
        if not part:
            raise invalid(str(path), f"{size} bytes of array", f"{done}", AGAIN)
        data[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    try:
        return np.frombuffer(data.data, dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError) as error:  # no items, or no bytes in an item
        raise invalid(str(path), "an array with items", f"{dtype} {shape}", AGAIN) from error


@dataclass(frozen=True)
class Member:
    """An array in a .npz file, of which only the header was read."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def items(self) -> int:
        """Number of items in the array."""
        return math.prod(self.shape)


def npz_members(path: Path) -> dict[str, Member]:
    """The numeric members of a .npz file by name; others are left out. Only headers are read."""
    with _opened(path) as archive:
        found: dict[str, Member] = {}
        seen = set()
        for info in archive.infolist():
            key = info.filename.removesuffix(".npy")
            if key in seen:  # which of the two is meant, readers do not agree on
                raise invalid(str(path), "members of different names", f"{key!r} twice", AGAIN)
            seen.add(key)
            with archive.open(info) as stream:
                try:
                    shape, _, dtype = npy_header(stream, Path())
                except ValueError:
                    continue
            found[key] = Member(info, shape, dtype)
        return found


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the numeric members of a .npz file by name. Members of other kinds are left unread.

    Args:
        path: the file.
        names: of the members to read; None reads all.
    """
    members = npz_members(path)
    with _opened(path) as archive:
        found = {}
        for name in members if names is None else names:
            info = members[name].info
            packed = info.compress_type != zipfile.ZIP_STORED
            with archive.open(info) as stream:
                found[name] = _read_array(stream, path, info.compress_size, compressed=packed)
        return found


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive, and translate its errors into one that names the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _BAD_ZIP as error:
        if isinstance(error, OSError):
            raise unreadable(path, error) from error
        raise invalid(str(path), "a readable .npz file", f"{error}", AGAIN) from error


def _pick(members: Collection[str], split: str) -> tuple[str | None, str | None]:
    pairs = [(f"x_{split}", f"y_{split}"), (f"{split}_images", f"{split}_labels")]
    if split == "train":
        pairs += [("images", "labels"), ("imgs", "labels"), ("x", "y"), ("arr_0", "arr_1")]
    for images, labels in pairs:
        if images in members:
            return images, labels if labels in members else None
    return None, None


def _needed(path: Path, there: dict[str, Member], images: str, labels: str | None) -> list[str]:
    """The members to read: images, labels and names; refused where they do not fit into memory."""
    texts = ("class_names", *(_pick(there, split)[1] for split in ("train", "test")))
    wanted = [images, labels, *(name for name in texts if name and name in there)]
    names = [
        name
        for name in dict.fromkeys(wanted)
        if name and (name in (images, labels) or there[name].dtype.kind == "U")
    ]
    # Images end as float32, beside the array that they were read into.
    final = 0
    for name in names:
        size, info = there[name].items * there[name].dtype.itemsize, there[name].info
        _check_list(path, name, there, images)
        packed = info.compress_type != zipfile.ZIP_STORED
        check_claim(path, size, info.compress_size, compressed=packed)
        final += size
    check_memory(path, final + 4 * there[images].items)
    return names


def _check_list(path: Path, name: str, there: dict[str, Member], images: str) -> None:
    """Refuse labels and names that are no list of short items, by their header."""
    member, count = there[name], there[images].shape[:1]
    if name != images and member.items > max(math.prod(count), _MOST_NAMES):
        expected = f"one label for each of {math.prod(count)} images"
        raise invalid(str(path), expected, f"shape {member.shape} in {name!r}", AGAIN)
    if member.dtype.kind == "U" and member.dtype.itemsize > 4 * _LONGEST_NAME:
        expected = f"names of at most {_LONGEST_NAME} characters"
        got = f"{member.dtype.itemsize // 4} in {name!r}"
        raise invalid(str(path), expected, got, "give the classes shorter names")


def refuse_objects(path: Path, members: Collection[str], meant: Set[str]) -> None:
    """Refuse a file with members that are meant, but are objects, or no arrays at all.

    Args:
        path: the file.
        members: the names of its arrays of numbers or text.
        meant: the names that count.
    """
    with zipfile.ZipFile(path) as archive:
        stored = {name.removesuffix(".npy") for name in archive.namelist()}
    objects = sorted(stored & meant - set(members))
    if objects:
        remedy = "save numbers, or text (labels.astype(str)): objects need pickle, which runs code"
        got = f"objects in {', '.join(objects)}, or damaged arrays"
        raise invalid(str(path), "arrays of numbers", got, remedy)


def _class_names(
    path: Path, members: dict[str, NDArray[Any]], there: Collection[str]
) -> tuple[str, ...] | None:
    """Return the class names stored in the file, or else those in the labels of all splits.

    Args:
        path: the file, for messages.
        members: the arrays that were read.
        there: the names of all arrays in the file.
    """
    meant = ("class_names", *(_pick(there, split)[1] for split in ("train", "test")))
    texts = {name: members[name] for name in meant if name in members}
    texts = {name: text for name, text in texts.items() if text.dtype.kind == "U"}
    for name, text in texts.items():
        letters = np.array(text, dtype=text.dtype.newbyteorder("=")).view(np.uint32)
        if bool(((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any()):
            raise invalid(str(path), f"{name} that are text", "numbers", AGAIN)
    names = texts.pop("class_names", None)
    if names is not None and names.ndim == 1:
        return tuple(printable(str(name)) for name in names.tolist())
    return names_in(*texts.values()) or None


def array_file(path: str | Path, split: str = "train") -> ImageSet:
    """Load images, and labels if present, from a .npy or .npz file without running code.

    A .npz file names its arrays "images" and "labels" ("x", "y"; or "x_train", "y_train", "x_test",
    "y_test"; or "train_images", ...). The classes are named by an array of strings "class_names",
    or by labels that are strings, whose classes are sorted. A file without splits is all "train".

    Args:
        path: the file.
        split: "train" or "test".
    """
    path = as_path(path)
    check_choice(split, ("train", "test"), "split")
    name = printable(path.stem)
    if path.suffix == ".npz":
        there = npz_members(path)
        images, labels = _pick(there, split)
        refuse_objects(path, there, _MEANT)
        if images is None:
            got = f"arrays named {sorted(there)}"
            remedy = f'name them "images" and "labels", or "x_{split}" and "y_{split}"'
            raise invalid(str(path), f"images of the {split} split", got, remedy)
        members = read_npz(path, _needed(path, there, images, labels))
        truth = members[labels] if labels else None
        return from_array(members[images], truth, name, _class_names(path, members, there))
    if split != "train":
        remedy = 'use split="train" and take a subset, or save a .npz with "x_test"'
        raise invalid(str(path), "a file with a test split", "a .npy, which has none", remedy)
    try:
        with path.open("rb") as stream:
            shape, _, dtype = npy_header(stream, path)
            size = math.prod(shape) * dtype.itemsize
            check_claim(path, size, path.stat().st_size, compressed=False)
            check_memory(path, size + 4 * math.prod(shape))
            stream.seek(0)
            array = _read_array(stream, path, path.stat().st_size, compressed=False)
    except OSError as error:
        raise unreadable(path, error) from error
    return from_array(array, None, name)
