"""Data sets derived from others by one fixed random transformation per image.

Every image is transformed once, by parameters fixed by a seed, and rounded to 256 grey levels.
Interpolation is in double precision and rounding removes its last bits, so that a set is
the same on every machine. Train and test use different random streams.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import check_choice, check_flag, check_number, invalid
from symmetries.actions.images import ImageAction
from symmetries.data.base import ImageSet, image_set
from symmetries.groups.affine import Affine2

if TYPE_CHECKING:
    from symmetries.data.convert import Images

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Draws:
    """A stream of random numbers, fixed by a seed and a name.

    Args:
        seed: any integer from 0.
        stream: name of the stream; streams with different names are independent.

    Example:
        >>> float(Draws(0, "example").uniform(1)[0])
        0.14722189129168872
        >>> Draws(0, "example").permutation(5).tolist()
        [0, 1, 3, 2, 4]
    """

    def __init__(self, seed: int, stream: str) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise invalid("seed", "an integer from 0", repr(seed), "try seed=0")
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *stream.encode()]))

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> Floats:
        """Return ``count`` numbers uniform in [low, high), with 53 random bits each."""
        raw = np.asarray(self._bits.random_raw(count), dtype=np.uint64)
        return low + (high - low) * ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, count: int, high: int) -> Integers:
        """Return ``count`` integers uniform in 0 .. high - 1."""
        return np.floor(self.uniform(count) * high).astype(np.int64)

    def permutation(self, count: int) -> Integers:
        """Return a random permutation of 0 .. count - 1."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.int64)

    def choice(self, weights: Floats, count: int) -> Integers:
        """Return ``count`` positions in ``weights``, drawn in proportion to the weights."""
        edges = np.cumsum(weights, dtype=np.float64)
        if not edges[-1] > 0:
            raise invalid("weights", "a positive sum", edges[-1], "give a positive weight")
        found = np.searchsorted(edges, self.uniform(count) * edges[-1], side="right")
        return np.asarray(found, dtype=np.int64)


_CHUNK = 2048


def levels(images: Tensor) -> Tensor:
    """Round images in [0, 1] to the nearest of 256 levels, 0 to 255 in double precision."""
    return (images.double() * 255).round().clamp(0, 255)


def in_chunks(change: Callable[[Tensor, slice], Tensor], images: Tensor) -> Tensor:
    """Apply a function to chunks of images to save memory, and round its results to 256 levels.

    Args:
        change: maps levels (n, C, H, W) and their slice of the set to levels (n, D, H, W).
        images: (N, C, H, W) in [0, 1].

    Returns:
        (N, D, H, W) float32 in [0, 1].
    """
    parts = []
    for start in range(0, len(images), _CHUNK):
        place = slice(start, min(start + _CHUNK, len(images)))
        moved = change(levels(images[place]), place).round().clamp(0, 255)
        parts.append(moved.float() / 255)
    return torch.cat(parts)


def _moved(data: ImageSet, group: Affine2, eta: Floats, suffix: str) -> ImageSet:
    act = ImageAction(group, interpolation="bilinear", fill=0.0)
    elements = group.exp(torch.from_numpy(eta))
    images = in_chunks(lambda part, place: act(elements[place], part), data.images)
    return ImageSet(images, data.labels, f"{data.name}-{suffix}", data.class_names)


def _draws(kind: str, split: str, seed: int) -> Draws:
    check_choice(split, ("train", "test"), "split")
    return Draws(seed, f"{kind}/{split}")


def rotated(data: "Images", degrees: float, split: str = "train", seed: int = 0) -> ImageSet:
    """Rotate every image by its own fixed angle, uniform in [-degrees, degrees].

    Ouderaa & Wilk 2022 use 180 degrees for the fully and 90 for the partially rotated set;
    Allingham et al. 2024 use 15 degrees and more. For one split and seed the angles are
    proportional to ``degrees``.

    Args:
        data: the images.
        degrees: largest angle, 0 to 180.
        split: "train" or "test"; selects the random stream of the angles.
        seed: fixes the angles.
    """
    data = image_set(data)
    check_number(degrees, "degrees")
    if not 0 <= degrees <= 180:
        raise invalid("degrees", "0 to 180", degrees, "give the largest angle")
    most = math.radians(degrees)
    angles = _draws("rotation", split, seed).uniform(len(data), -most, most)
    return _moved(data, Affine2("rotation"), angles[:, None], f"rotated-{degrees:g}")


def translated(
    data: "Images", pixels: float | None = None, split: str = "train", seed: int = 0
) -> ImageSet:
    """Shift every image by its own fixed shift, uniform in [-pixels, pixels] along x and y.

    Args:
        data: the images.
        pixels: largest shift; by default Ouderaa & Wilk's 8, or 2/7 of the side of small images.
        split: "train" or "test".
        seed: fixes the shifts.
    """
    data = image_set(data)
    side = max(data.images.shape[-2:])
    most = min(8.0, side * 2 / 7) if pixels is None else pixels
    check_number(most, "pixels", 0, side)
    shifts = _draws("translation", split, seed).uniform(2 * len(data), -most, most)
    eta = shifts.reshape(len(data), 2) * (2 / side)
    return _moved(data, Affine2("translation"), eta, "translated")


def scaled(data: "Images", factor: float = 2.0, split: str = "train", seed: int = 0) -> ImageSet:
    """Scale every image by its own fixed factor exp(s), s uniform in [-log factor, log factor].

    Args:
        data: the images.
        factor: largest factor; the default is Ouderaa & Wilk's 2.
        split: "train" or "test".
        seed: fixes the factors.
    """
    data = image_set(data)
    check_number(factor, "factor", least=1)
    if not 1 <= factor < math.inf:
        raise invalid("factor", "a number from 1", factor, "give 1 or more")
    most = math.log(factor)
    zooms = _draws("scale", split, seed).uniform(len(data), -most, most)
    return _moved(data, Affine2("zoom"), zooms[:, None], "scaled")


def hue_colours(hue: Floats, saturation: Floats) -> Floats:
    """Return the RGB colours (N, 3) of HSV colours with value 1; the hue is in turns.

    Channel c is 1 - saturation + saturation clip(|6 (hue - k_c) mod 6 - 3| - 1, 0, 1) with k_c
    = 0, 1/3 and 2/3.
    """
    sixths = np.mod(6 * (hue[:, None] - np.array([0, 1 / 3, 2 / 3])), 6)
    pure = np.clip(np.abs(sixths - 3) - 1, 0, 1)
    return 1 - saturation[:, None] * (1 - pure)


def coloured(data: "Images", split: str = "train", seed: int = 0) -> ImageSet:
    """Colour grey images red, then change each one's hue and saturation by a fixed amount.

    As in Allingham et al. 2024, the hue is rotated by an angle uniform in [0, 0.6 pi], and the
    saturation is multiplied by a factor uniform in [0.6, 0.9].

    Args:
        data: images with one channel.
        split: "train" or "test".
        seed: fixes the colours.
    """
    data = image_set(data)
    if data.images.shape[1] != 1:
        got = f"{data.images.shape[1]} channels"
        raise invalid("data", "grey images, one channel", got, "give a grey set")
    draws = _draws("colour", split, seed)
    hue = draws.uniform(len(data), 0, 0.3)  # 0.6 pi, in turns
    colours = torch.from_numpy(hue_colours(hue, draws.uniform(len(data), 0.6, 0.9)))
    images = in_chunks(lambda part, place: part * colours[place, :, None, None], data.images)
    return ImageSet(images, data.labels, f"{data.name}-colour", data.class_names)


def upside_down_sixes(
    data: "Images", split: str = "train", seed: int = 0, pairs: bool = False
) -> ImageSet:
    """Build MNIST6-180: the sixes, half of them rotated by exactly 180 degrees; label 1 if rotated.

    Args:
        data: digits with labels.
        split: "train" or "test".
        seed: fixes which half is rotated.
        pairs: if True, return every six with its rotated copy instead (a baseline).
    """
    data = image_set(data)
    check_flag(pairs, "pairs")
    if data.labels is None or not bool((data.labels == 6).any()):
        raise invalid("data", "digits with labels, sixes among them", data.name, "use MNIST")
    sixes = data.images[data.labels == 6]
    if pairs:
        images = torch.stack([sixes, sixes.flip(-2, -1)], 1).flatten(0, 1)
        labels = torch.arange(2).repeat(len(sixes))
    else:
        order = _draws("sixes", split, seed).permutation(len(sixes))
        labels = torch.zeros(len(sixes), dtype=torch.int64)
        labels[torch.from_numpy(order[: len(sixes) // 2])] = 1
        images = torch.where(labels[:, None, None, None] == 1, sixes.flip(-2, -1), sixes)
    suffix = "6-180-pairs" if pairs else "6-180"
    return ImageSet(images, labels, f"{data.name}{suffix}", ("6", "9"))
