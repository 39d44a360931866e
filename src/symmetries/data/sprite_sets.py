"""The dSprites set: its grid of factors, its published file, and samples of both.

Reference: Matthey, Higgins, Hassabis, Lerchner 2017, "dSprites: Disentanglement testing Sprites".
"""

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import check_choice, check_whole, invalid
from symmetries.data.arrays import npy_header
from symmetries.data.base import ImageSet, as_array, data_folder, missing
from symmetries.data.checked_files import AGAIN
from symmetries.data.derived import Draws, Floats, Integers
from symmetries.data.remote import advice
from symmetries.data.rendering import SHAPES, SpriteFactors, render

SCALES = np.linspace(0.5, 1, 6)
ORIENTATIONS = np.linspace(0, 2 * math.pi, 40)
POSITIONS = np.linspace(0, 1, 32)
GRID = (3, 6, 40, 32, 32)  # shape, scale, orientation, x, y; the last varies fastest
FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_SIDE = 64
_AT_ONCE = 8192


def grid_factors(indices: Integers | None = None) -> SpriteFactors:
    """Return the factors of images of the published set, by position.

    Args:
        indices: (N,) positions from 0 to 737,279; all by default.

    Example:
        >>> grid_factors(np.array([0, 737_279])).scale.tolist()
        [0.5, 1.0]
    """
    total = math.prod(GRID)
    chosen = np.arange(total) if indices is None else as_array(indices, "indices")
    if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
        got = f"shape {chosen.shape}, {chosen.dtype}"
        raise invalid("indices", "integer positions (N,)", got, "give a 1-D array of positions")
    chosen = chosen.astype(np.int64)
    if len(chosen) and (chosen.min() < 0 or chosen.max() >= total):
        got = f"{chosen.min()} to {chosen.max()}"
        remedy = "choose positions in this range"
        raise invalid("indices", f"positions from 0 to {total - 1}", got, remedy)
    shape, scale, turn, x, y = np.unravel_index(chosen, GRID)
    return SpriteFactors(
        shape.astype(np.int64), SCALES[scale], ORIENTATIONS[turn], POSITIONS[x], POSITIONS[y]
    )


def _uniform(values: Floats, *intervals: tuple[float, float]) -> Floats:
    """Return weight one for values in any of the intervals, ends included."""
    weights = np.zeros_like(values)
    for low, high in intervals:
        weights[(values >= low - 1e-9) & (values <= high + 1e-9)] = 1
    return weights


def _normal(values: Floats, mean: float, deviation: float, low: float, high: float) -> Floats:
    """Return the density of a normal truncated to [low, high], up to a factor."""
    density: Floats = np.exp(-(((values - mean) / deviation) ** 2) / 2)
    return density * _uniform(values, (low, high))


def _resampling_weights() -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
    """Return weights on scales, orientations, x and y, by shape (Allingham et al. 2024, C.3.1)."""
    return {
        "square": (
            _normal(SCALES, 0.75, 0.2, 0.55, 1.0),
            _uniform(ORIENTATIONS, (0, 2 * math.pi)),
            _uniform(POSITIONS, (0.5, 0.95)),
            _uniform(POSITIONS, (0.5, 0.95)),
        ),
        "ellipse": (
            _normal(SCALES, 0.65, 0.15, 0.5, 0.85),
            _uniform(ORIENTATIONS, (0, math.pi / 2)),
            _normal(POSITIONS, 0.5, 0.25, 0.1, 0.9),
            _normal(POSITIONS, 0.5, 0.15, 0.35, 0.65),
        ),
        "heart": (
            _uniform(SCALES, (0.9, 1.0)),
            _uniform(ORIENTATIONS, (0, 0)),
            _uniform(POSITIONS, (0.1, 0.5)),
            _uniform(POSITIONS, (0.1, 0.3), (0.7, 0.9)),
        ),
    }


def resampled_indices(count: int, seed: int = 0, stream: str = "dsprites/resampled") -> Integers:
    """Draw positions in the published grid by Allingham et al.'s densities; shapes equally likely.

    Args:
        count: number of positions.
        seed: fixes the positions.
        stream: name of the random stream, which differs between train and test.
    """
    check_whole(count, "count", most=10**9)
    draws = Draws(seed, stream)
    shapes = draws.permutation(count) % len(SHAPES)
    parts = np.zeros((len(GRID), count), dtype=np.int64)
    parts[0] = shapes
    for kind, shape in enumerate(SHAPES):
        members = np.flatnonzero(shapes == kind)
        for axis, weights in enumerate(_resampling_weights()[shape], start=1):
            parts[axis, members] = draws.choice(weights, len(members))
    return np.asarray(np.ravel_multi_index(tuple(parts), GRID), dtype=np.int64)


def even_indices(split: str, count: int, seed: int = 0) -> Integers:
    """Draw positions in the published grid uniformly, without repetition within or across splits.

    Args:
        split: "train" or "test".
        count: number of positions, at most half of the grid.
        seed: fixes the positions.
    """
    half = math.prod(GRID) // 2
    check_whole(count, "count")
    if not 1 <= count <= half:
        raise invalid("count", f"1 to {half}", count, "each split has one half")
    order = Draws(seed, "dsprites/split").permutation(2 * half)
    return order[:count] if split == "test" else order[half : half + count]


def _indices(split: str, count: int, seed: int, *, resample: bool) -> Integers:
    check_choice(split, ("train", "test"), "split")
    if resample:
        return resampled_indices(count, seed, f"dsprites/resampled/{split}")
    return even_indices(split, count, seed)


def sprites(
    split: str = "train",
    count: int | None = None,
    size: int = 32,
    supersample: int = 4,
    seed: int = 0,
    resample: bool = False,
) -> ImageSet:
    """Render dSprites sampled from the published grid, uniformly or as Allingham et al. 2024.

    Args:
        split: "train" or "test"; uniform samples of the two have no sprite in common.
        count: number of images; the default is 4,096 for "train" and 1,024 for "test".
        size: pixels per side.
        supersample: k x k points per pixel; 1 gives binary images, as published.
        seed: fixes the sample.
        resample: if True, sample by Allingham et al.'s densities.

    Example:
        >>> sprites("test", count=10).images.shape
        torch.Size([10, 1, 32, 32])
    """
    number = count if count is not None else {"train": 4096, "test": 1024}.get(split, 1)
    factors = grid_factors(_indices(split, number, seed, resample=resample))
    name = "sprites-resampled" if resample else "sprites"
    labels = torch.from_numpy(factors.shape)
    return ImageSet(render(factors, size, supersample), labels, name, SHAPES)


def dsprites(
    split: str = "train",
    folder: str | Path | None = None,
    count: int | None = None,
    seed: int = 0,
    resample: bool = False,
) -> ImageSet:
    """Load a sample of the published file, uniform or by Allingham et al.'s densities.

    Only the member with the images is read (the file's "metadata" is a pickle), and only the chosen
    images are kept, because all 737,280 would need 12 GB.

    Args:
        split: "train" or "test".
        folder: folder with the file, or with a folder "dsprites"; the default is $SYMMETRIES_DATA.
        count: number of images; the default is 50,000 for "train" and 10,000 for "test".
        seed: fixes the sample.
        resample: if True, sample by Allingham et al.'s densities.
    """
    number = count if count is not None else {"train": 50_000, "test": 10_000}.get(split, 1)
    indices = _indices(split, number, seed, resample=resample)
    root = data_folder(folder)
    places = [root / "dsprites", root]
    found = [place / FILE for place in places if (place / FILE).is_file()]
    if not found:
        raise missing("dsprites", places, advice("dsprites"))
    labels = torch.from_numpy(grid_factors(indices).shape)
    name = "dsprites-resampled" if resample else "dsprites"
    return ImageSet(read_published(found[0], indices), labels, name, SHAPES)


def read_published(path: Path, indices: Integers) -> Tensor:
    """Read images of the published .npz file at some positions, as a stream.

    Args:
        path: the file.
        indices: (N,) positions in the published order.

    Returns:
        (N, 1, 64, 64) float32, zeros and ones.
    """
    if len(indices) == 0 or indices.min() < 0:
        raise invalid("indices", "positions from 0", f"{indices}", "ask for some sprites")
    wanted, back = np.unique(indices, return_inverse=True)
    kept: NDArray[np.uint8] = np.empty((len(wanted), _SIDE * _SIDE), np.uint8)
    try:
        with zipfile.ZipFile(path) as archive, archive.open("imgs.npy") as stream:
            shape, fortran, dtype = npy_header(stream, path)
            whole = len(shape) == 3 and shape[0] > wanted[-1] and shape[1:] == (_SIDE, _SIDE)
            if not whole or dtype != np.uint8 or fortran:
                expected = f"bytes of shape (N, {_SIDE}, {_SIDE}) with N > {wanted[-1]}"
                raise invalid(str(path), expected, f"{dtype} of shape {shape}", AGAIN)
            _keep(stream, wanted, kept, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
        raise invalid(str(path), "the published dSprites file", f"{error}", AGAIN) from error
    if kept.max() > 1:
        raise invalid(str(path), "zeros and ones", f"values up to {kept.max()}", AGAIN)
    images = torch.from_numpy(kept).float().reshape(-1, 1, _SIDE, _SIDE)
    return images[torch.from_numpy(back)]


def _keep(stream: IO[bytes], wanted: Integers, kept: NDArray[np.uint8], path: Path) -> None:
    """Copy the images at the sorted positions ``wanted`` from a stream of images to ``kept``."""
    pixels = _SIDE * _SIDE
    for start in range(0, int(wanted[-1]) + 1, _AT_ONCE):
        count = min(_AT_ONCE, int(wanted[-1]) + 1 - start)
        data = stream.read(count * pixels)
        if len(data) != count * pixels:
            got = f"{len(data) // pixels} of {count} images after image {start}"
            raise invalid(str(path), "a complete file", got, AGAIN)
        block = np.frombuffer(data, np.uint8).reshape(count, pixels)
        first, last = np.searchsorted(wanted, (start, start + count))
        kept[first:last] = block[wanted[first:last] - start]
