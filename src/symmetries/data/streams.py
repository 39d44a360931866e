"""Data sets larger than memory: sharded arrays and folders of pictures, read by example.

The functions return data sets for :func:`symmetries.training.train`. Examples are read when a
batch needs them, so memory holds a batch and not the whole set. Files are read at an offset
(``pread``) instead of being memory-mapped, so that they also work under an address-space limit.
"""

import bisect
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from symmetries._validation.checks import as_path, check_choice, check_pair, invalid, wrong_type
from symmetries.data.arrays import layout_of, npy_header
from symmetries.data.checked_files import AGAIN, unreadable
from symmetries.data.pictures import picture_files, read_picture

Example = tuple[Tensor, ...]


class ArrayShards(Dataset[Example]):
    """Images, and labels if given, in one or several .npy files, read one at a time.

    Args:
        images: files of arrays (N, H, W), (N, H, W, C) or (N, C, H, W), uint8 or floats in [0, 1],
            which differ only in N; examples are in the order of the files.
        labels: a file of N integers for each of them, or None. Labels are kept in memory.
        layout: "NHW", "NHWC" or "NCHW"; needed only if the shape is ambiguous.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for number in range(2):
        ...     np.save(folder / f"images-{number}.npy", np.zeros((3, 8, 8), np.uint8))
        >>> shards = ArrayShards(sorted(folder.glob("images-*.npy")))
        >>> len(shards), shards[4][0].shape
        (6, torch.Size([1, 8, 8]))
    """

    def __init__(
        self,
        images: Sequence[Path],
        labels: Sequence[Path] | None = None,
        layout: str | None = None,
    ) -> None:
        if isinstance(images, Sequence) and not images:
            raise invalid("images", "at least one file", "none", "check the folder")
        if not isinstance(images, Sequence):
            raise wrong_type("images", "a list of paths", images, "give the files of the shards")
        self.paths = [as_path(path, "images") for path in images]
        heads = [_head(path) for path in self.paths]
        (_, first, self.dtype), names = heads[0], [path.name for path in self.paths]
        for name, (_, shape, dtype) in zip(names, heads, strict=True):
            if shape[1:] != first[1:] or dtype != self.dtype:
                expected = f"{self.dtype} of shape (N, {', '.join(map(str, first[1:]))})"
                got = f"{dtype} of shape {shape} in {name}"
                remedy = "save all shards with one dtype and shape"
                raise invalid("shards", f"{expected} as in {names[0]}", got, remedy)
        self.layout = layout_of(first) if layout is None else layout
        check_choice(self.layout, ("NHW", "NHWC", "NCHW"), "layout")
        self.item_shape = first[1:]
        self.starts = [start for start, *_ in heads]
        self.ends = list(itertools.accumulate(shape[0] for _, shape, _ in heads))
        self.labels = None if labels is None else _labels(labels, self.ends)
        self._open: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> Example:
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        index %= len(self)
        shard = bisect.bisect_right(self.ends, index)
        place = index - (self.ends[shard - 1] if shard else 0)
        image = self._image(self._bytes(shard, place))
        return (image,) if self.labels is None else (image, self.labels[index])

    def _bytes(self, shard: int, place: int) -> bytes:
        size = math.prod(self.item_shape) * self.dtype.itemsize
        key = (os.getpid(), shard)  # every loader process opens its own files
        if key not in self._open:
            self._open[key] = os.open(self.paths[shard], os.O_RDONLY)
        data = os.pread(self._open[key], size, self.starts[shard] + place * size)
        if len(data) != size:
            got = f"{len(data)} bytes of example {place}"
            remedy = "check whether the file is truncated"
            raise invalid(str(self.paths[shard]), f"{size} bytes", got, remedy)
        return data

    def _image(self, data: bytes) -> Tensor:
        array = np.frombuffer(data, self.dtype).reshape(self.item_shape)
        if self.layout == "NHW":
            array = array[None]
        elif self.layout == "NHWC":
            array = np.moveaxis(array, 2, 0)
        image = torch.from_numpy(np.array(array, np.float32, order="C"))
        return image / 255 if self.dtype == np.uint8 else image

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __del__(self) -> None:
        for (process, _), descriptor in getattr(self, "_open", {}).items():
            if process == os.getpid():
                os.close(descriptor)


class PictureStream(Dataset[Example]):
    """The pictures of a folder, decoded when they are accessed.

    Args:
        folder: folder of pictures, or of one folder per class.
        split: "train" or "test", if the folder has such subfolders.
        size: (height, width) to resize to.
        colour: if True three channels, otherwise one.
    """

    def __init__(
        self,
        folder: str | Path,
        size: tuple[int, int],
        split: str = "train",
        *,
        colour: bool = True,
    ) -> None:
        self.files, classes = picture_files(as_path(folder, "folder"), split)
        check_pair(size, "size")
        self.size = size
        self.mode = "RGB" if colour else "L"
        self.class_names = tuple(path.name for path in classes)
        places = {path: number for number, path in enumerate(classes)}
        self.labels = [places[file.parent] for file in self.files] if classes else None

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Example:
        picture = read_picture(self.files[index], self.size).convert(self.mode)
        array = np.asarray(picture, np.float32) / 255
        image = torch.from_numpy(
            array[None] if self.mode == "L" else np.moveaxis(array, 2, 0).copy()
        )
        if self.labels is None:
            return (image,)
        return image, torch.tensor(self.labels[index])


def stream(
    path: str | Path,
    split: str = "train",
    size: tuple[int, int] | None = None,
    *,
    colour: bool = True,
) -> ArrayShards | PictureStream:
    """Open a data set on disk that is read on demand: a .npy file, shards, or pictures.

    Shards are files images*.npy in a folder, with labels*.npy beside them if there are labels.
    Subfolders "train" and "test" are the splits.

    Args:
        path: a file or a folder.
        split: "train" or "test".
        size: (height, width) that pictures are resized to.
        colour: whether pictures have three channels.
    """
    path = as_path(path).expanduser()
    check_choice(split, ("train", "test"), "split")
    if path.is_file():
        return ArrayShards([path])
    folder = path / split if (path / split).is_dir() else path
    if not folder.is_dir():
        raise invalid("path", "a .npy file or a folder", f"{str(path)!r}", "check the path")
    images = sorted(folder.glob("images*.npy"))
    if images:
        labels = [file.with_name("labels" + file.name.removeprefix("images")) for file in images]
        some = [file for file in labels if file.is_file()]
        if some and len(some) != len(labels):
            missing = next(file.name for file in labels if not file.is_file())
            remedy = "add the missing file, or remove all labels"
            raise invalid(str(folder), "labels for all shards", f"no {missing}", remedy)
        return ArrayShards(images, labels if some else None)
    if size is None:
        remedy = "give size=(height, width): pictures are resized as they are read"
        raise invalid("size", "a size for pictures", "None", remedy)
    return PictureStream(path, size, split, colour=colour)


def mapped(path: str | Path) -> Tensor:
    """Map a float32 .npy file as a tensor whose pages are read on access.

    For learners that take a tensor: on a CPU the training loop reads only the rows of its batches.

    Args:
        path: a .npy file of float32 in C order.
    """
    start, shape, dtype = _head(as_path(path))
    if dtype != np.float32:
        raise invalid(str(path), "float32 in C order", dtype, "save it again, or use stream()")
    pages = np.memmap(path, np.float32, "c", start, shape)
    return torch.from_numpy(pages)


def _head(path: Path) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Return the offset of the numbers in a .npy file in C order, their shape and dtype."""
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = npy_header(file, path)
            start = file.tell()
        stored = path.stat().st_size - start
    except OSError as error:
        raise unreadable(path, error) from error
    if fortran and len(shape) > 1:
        remedy = "save it in C order: numpy.ascontiguousarray"
        raise invalid(str(path), "an array in C order", "Fortran order", remedy)
    if not shape or shape[0] == 0 or 0 in shape:
        raise invalid(str(path), "at least one example", f"shape {shape}", AGAIN)
    if math.prod(shape) * dtype.itemsize != stored:
        claimed = math.prod(shape) * dtype.itemsize
        raise invalid(str(path), f"{claimed} bytes of numbers", f"{stored}", AGAIN)
    if dtype != np.uint8 and dtype.kind not in "fiu":
        raise invalid(str(path), "numbers", f"{dtype}", "convert the array to numbers")
    return start, shape, dtype


def _labels(paths: Sequence[Path], ends: Sequence[int]) -> Tensor:
    parts: list[NDArray[np.int64]] = []
    counts = np.diff([0, *ends])
    for path, count in zip(paths, counts, strict=True):
        start, shape, dtype = _head(Path(path))
        if dtype.kind not in "iu" or shape != (count,):
            got = f"{dtype} of shape {shape}"
            raise invalid(str(path), f"{count} integers", got, "give one label for each image")
        parts.append(np.fromfile(path, dtype, offset=start).astype(np.int64))
    return torch.from_numpy(np.concatenate(parts))
