"""Originals that pictures are planted from: drawn, from the library's loaders, or from a wheel.

An original is a picture in its canonical pose, as large as it can be had. What the frame shows of
it is decided by ``span``: half of the original's side covers that many half-images of the frame, so
that 0.5 leaves room around it and 4 shows a part of it, around a centre of its own for every
picture.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from benchmarks.planted.glyphs import SPAN, glyphs, ink_moments
from PIL import Image
from torch import Tensor

from symmetries.data import SpriteFactors, load, render

Folder = str | Path | None
LETTER_COLOUR = (0.9, 0.25, 0.15)
WHEEL = "scikit-image"
SHOWN = 4.0  # span of textures: a frame shows a quarter of their side
MARGIN = 1.0 / SHOWN * 2**0.5  # of a turned frame's corners, in half-sides of the texture
FIELD_SPAN = 2.0


@dataclass(frozen=True)
class Originals:
    """Pictures in their canonical pose, one for each picture to be planted.

    Args:
        pictures: gives originals (n, C, h, w) in [0, 1] for positions (n,).
        count: how many there are.
        span: half-images of the frame that half an original covers.
        labels: (count,) or None.
        centres: (count, 2), x and y in half-sides of the original, of what the frame shows.
    """

    pictures: Callable[[Tensor], Tensor]
    count: int
    span: float
    labels: Tensor | None = None
    centres: Tensor | None = field(default=None)


class Unavailable(RuntimeError):
    """Files or a package that a content needs are not there."""


def characters(*which: str | tuple[str, ...]) -> Callable[..., Originals]:
    """Characters and fonts (see :func:`glyphs`) drawn evenly, white on black."""

    def make(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
        every, labels = glyphs(*which)
        chosen = torch.randint(len(every), (count,), generator=generator)
        return Originals(lambda at: every[chosen[at]], count, SPAN, labels[chosen])

    return make


letters = characters()


def coloured_letters(
    count: int, size: int, generator: torch.Generator, folder: Folder
) -> Originals:
    """The same letters in one saturated colour."""
    plain = letters(count, size, generator, folder)
    colour = torch.tensor(LETTER_COLOUR).reshape(3, 1, 1)
    return Originals(lambda at: plain.pictures(at) * colour, count, plain.span, plain.labels)


def _sprites(shapes: tuple[int, ...]) -> Callable[..., Originals]:
    def make(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
        kinds = np.array(shapes, dtype=np.int64)
        same = [np.full(len(kinds), value) for value in (1.0, 0.0, 0.5, 0.5)]
        drawn = render(SpriteFactors(kinds, *same), 256, supersample=4)
        chosen = torch.randint(len(kinds), (count,), generator=generator)
        middles = torch.tensor(np.array([ink_moments(one[0])[0] for one in drawn])).float()
        return Originals(lambda at: drawn[chosen[at]], count, 1.2, chosen, middles[chosen])

    return make


sprites = _sprites((0, 1, 2))
hearts = _sprites((2,))


def named(
    name: str, span: float, classes: tuple[int, ...] | None = None
) -> Callable[..., Originals]:
    """Pictures of a named set of the library, or of some of its classes, none of them twice."""

    def make(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
        try:
            data = load(name, "train", folder)
        except (FileNotFoundError, ValueError) as error:
            raise Unavailable(f"{name}: {error}") from error
        labels = data.labels
        if labels is None:
            raise ValueError(f"{name}: expected labels, got none; use a set with classes")
        members = torch.arange(len(data))
        if classes is not None:
            members = members[torch.isin(labels, torch.tensor(classes))]
        if len(members) < count:
            raise ValueError(f"count: expected at most {len(members)} for {name}, got {count}")
        chosen = members[torch.randperm(len(members), generator=generator)[:count]]
        labels = labels[chosen]
        return Originals(lambda at: data.images[chosen[at]], count, span, labels)

    return make


def texture(file: str) -> Callable[..., Originals]:
    """Parts of one photograph of scikit-image's wheel, at places of their own."""

    def make(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
        whole = wheel_picture(file, folder)
        room = 1 - MARGIN
        centres = (2 * torch.rand(count, 2, generator=generator) - 1) * room
        return Originals(lambda at: whole.expand(len(at), -1, -1, -1), count, SHOWN, None, centres)

    return make


def wheel_picture(file: str, folder: Folder) -> Tensor:
    """A square picture (C, S, S) in [0, 1] from ``FOLDER/scikit-image``, or the package."""
    places = [] if folder is None else [Path(folder) / WHEEL]
    found = find_spec("skimage")
    if found is not None and found.origin is not None:
        places.append(Path(found.origin).parent / "data")
    for place in places:
        if (place / file).is_file():
            with Image.open(place / file) as picture:
                values = np.asarray(picture, dtype=np.float32) / 255
            values = values[..., None] if values.ndim == 2 else values[..., :3]
            return _middle_square(torch.from_numpy(values.transpose(2, 0, 1).copy()))
    raise Unavailable(f"{file}: expected in the package {WHEEL} or in FOLDER/{WHEEL}; install it")


def _middle_square(picture: Tensor) -> Tensor:
    """The middle of a picture (C, H, W), as large as its shorter side."""
    height, width = picture.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return picture[:, top : top + side, left : left + side]


def random_fields(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Stationary, isotropic Gaussian random fields: every rotation, shift and flip is as likely.

    The spectrum is k^2 exp(-k^2 l^2), with a length l of a twelfth to a sixth of the frame for each
    field, so that next to nothing is as fine as the pixels.
    """
    side = int(FIELD_SPAN * size)
    seeds = torch.randint(2**62, (count,), generator=generator)
    fx, fy = np.meshgrid(np.fft.rfftfreq(side), np.fft.fftfreq(side))
    squared = torch.from_numpy((2 * np.pi) ** 2 * (fx**2 + fy**2)).float()

    def one(seed: int) -> Tensor:
        own = torch.Generator().manual_seed(seed)
        length = size * (1 / 12 + torch.rand((), generator=own) / 12)
        white = torch.fft.rfft2(torch.randn(side, side, generator=own))
        rough = torch.fft.irfft2(
            white * (squared * torch.exp(-squared * length**2)).sqrt(), s=(side, side)
        )
        return (0.5 + 0.18 * rough / rough.std()).clamp(0, 1)

    def pictures(at: Tensor) -> Tensor:
        return torch.stack([one(int(seeds[i])) for i in at])[:, None]

    return Originals(pictures, count, FIELD_SPAN)
