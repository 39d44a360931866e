"""Contents of the benchmark, and what is known about each of them before anything is planted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.planted import originals
from benchmarks.planted.originals import Originals
from benchmarks.planted.truth import STILL, Natural
from torch import Generator, Tensor

LETTER_SIZES = Natural(half=math.log(38 / 30) / 2)  # letters of 30 to 38 points
SPRITE_SIZES = Natural(half=0.1)
UPRIGHT = Natural(known=False)  # pictures of that kind are taken upright; nobody measured it
ASYMMETRIC_DIGITS = (2, 3, 4, 5, 7)  # 0, 1 and 8 turn into themselves, 6 and 9 into each other
SHIFTS = ("shift_x", "shift_y")
SCALES = ("scale_x", "scale_y")


@dataclass(frozen=True)
class Content:
    """One kind of picture.

    Args:
        name: in the design.
        make: its originals, from count, size, generator and the folder of data.
        channels: 1 or 3.
        sizes: pixels per side that cells may ask for.
        most: pictures that there are, or that make sense.
        natural: how it varies by itself, by parameter; others are never asked for.
        asymmetric: parameters whose pose can be told from a picture.
        invariant: parameters along which every pose is as likely, whatever is planted.
        planted: names of transformations that may be planted, see ``design.TRANSFORMATIONS``.
        round: whether pictures are shown in a round window.
        supersample: k x k points for each pixel.
        magnify: how much originals are enlarged, by a cubic, before points are read off linearly.
        finish: what a camera or a file adds to the pictures, given them and a generator.
        files: what ``--data`` must hold, or the package that must be installed.
    """

    name: str
    make: Callable[..., Originals]
    channels: int
    sizes: tuple[int, ...]
    most: int
    natural: Mapping[str, Natural]
    planted: tuple[str, ...]
    asymmetric: tuple[str, ...] = ()
    invariant: tuple[str, ...] = ()
    round: bool = False
    supersample: int = 4
    magnify: int = 1
    finish: Callable[[Tensor, Generator], Tensor] | None = None
    files: str = field(default="")


_TURNS = ("none", "rotation-narrow", "rotation-wide", "rotation-full")
_HUES = ("hue-narrow", "hue-wide", "hue-full")
_SHIFTS = ("shift-narrow", "shift-wide")
_DRAWN = (
    *_TURNS,
    *_SHIFTS,
    *("zoom-narrow", "zoom-wide", "scales-narrow", "scales-wide", "shear-narrow", "shear-wide"),
    *("rotation-narrow+shift-narrow", "rotation-wide+shift-wide", "rotation-full+shift-wide"),
    *("rotation-narrow+zoom-narrow", "rotation-wide+zoom-wide", "rotation-full+zoom-wide"),
)
_FLIPPED = ("flip-narrow", "flip-full", "rotation-wide+flip-full", "rotation-full+flip-full")
_COLOURED = (*_HUES, "hue-wide+rotation-wide", "hue-full+rotation-narrow")


def drawn_naturals(sizes: Natural) -> dict[str, Natural]:
    """Of what is drawn: sizes vary, nothing else does."""
    still = dict.fromkeys(("rotation", *SHIFTS, "shear"), STILL)
    return {**still, **dict.fromkeys(("zoom", *SCALES), sizes)}


LETTERS = drawn_naturals(LETTER_SIZES)
FIELD = dict.fromkeys(("rotation", *SHIFTS, "flip_x"), STILL)
PHOTO = {"rotation": UPRIGHT, "hue": UPRIGHT, "flip_x": UPRIGHT}
AFFINE = ("rotation", *SHIFTS, "zoom", *SCALES, "shear")


def measured_naturals(degrees: float, x: float, y: float) -> dict[str, Natural]:
    """Standard deviations of rotation, in degrees, and of shifts."""
    parts = {"rotation": math.radians(degrees), "shift_x": x, "shift_y": y}
    return {name: Natural(sd=round(sd, 4), known=False) for name, sd in parts.items()}


# Standard deviations within a class, measured by ``natural.py``. Clothes are taken upright: that
# pictures of a class agree best when they are turned by 9 degrees (standard deviation) says more
# about their shapes than about how they lie.
_DIGITS = measured_naturals(5.4, 0.044, 0.037)
MNIST = measured_naturals(16.3, 0.014, 0.015)
FASHION = {**measured_naturals(8.7, 0.025, 0.041), "rotation": UPRIGHT}

_ALL = (
    Content(
        "letters",
        originals.letters,
        channels=1,
        sizes=(16, 24, 32, 64, 128),
        most=50_000,
        natural={**LETTERS, "flip_x": STILL},
        planted=(*_DRAWN, *_FLIPPED),
        asymmetric=(*AFFINE, "flip_x"),
    ),
    Content(
        "coloured letters",
        originals.coloured_letters,
        channels=3,
        sizes=(16, 24, 32, 64),
        most=50_000,
        natural={**LETTERS, "hue": STILL},
        planted=("none", *_COLOURED, "rotation-wide"),
        asymmetric=("hue", *AFFINE),
    ),
    Content(
        "hearts",
        originals.hearts,
        channels=1,
        sizes=(16, 32, 64),
        most=10_000,
        natural=drawn_naturals(SPRITE_SIZES),
        planted=_DRAWN,
        asymmetric=AFFINE,
    ),
    Content(
        "sprites",
        originals.sprites,
        channels=1,
        sizes=(16, 32, 64),
        most=10_000,
        natural={"rotation": STILL, **dict.fromkeys(SHIFTS, STILL), "zoom": SPRITE_SIZES},
        planted=("none", "rotation-full", *_SHIFTS, "zoom-wide", "rotation-full+shift-wide"),
        asymmetric=(*SHIFTS, "zoom"),
    ),
    Content(
        "digits",
        originals.named("digits", 0.7, ASYMMETRIC_DIGITS),
        channels=1,
        sizes=(16,),
        most=700,
        natural=_DIGITS,
        planted=("rotation-wide", "rotation-full", "shift-wide", "rotation-wide+shift-wide"),
        asymmetric=("rotation", *SHIFTS),
        magnify=8,
    ),
    Content(
        "mnist",
        originals.named("mnist", 0.7, ASYMMETRIC_DIGITS),
        channels=1,
        sizes=(16, 24, 40),
        most=25_000,
        natural=MNIST,
        planted=(
            *("rotation-wide", "rotation-full", "shift-wide"),
            *("rotation-wide+shift-wide", "rotation-full+shift-wide"),
        ),
        asymmetric=("rotation", *SHIFTS),
        magnify=4,
        files="mnist",
    ),
    Content(
        "fashion",
        originals.named("fashion-mnist", 0.55),
        channels=1,
        sizes=(32, 48),
        most=50_000,
        natural=FASHION,
        planted=("rotation-wide", "rotation-full", "shift-wide", "rotation-wide+shift-wide"),
        asymmetric=("rotation", *SHIFTS),
        magnify=4,
        files="fashion-mnist",
    ),
    Content(
        "cifar, round window",
        originals.named("cifar10", 1.0),
        channels=3,
        sizes=(16, 24, 32),
        most=50_000,
        natural=PHOTO,
        planted=(*_TURNS, *_COLOURED, "flip-full", "rotation-wide+flip-full"),
        invariant=("flip_x",),
        round=True,
        supersample=2,
        magnify=4,
        files="cifar10",
    ),
    Content(
        "cifar, full frame",
        originals.named("cifar10", 2**0.5),
        channels=3,
        sizes=(16, 22),
        most=50_000,
        natural=PHOTO,
        planted=(*_TURNS, *_HUES),
        invariant=("flip_x",),
        supersample=2,
        magnify=4,
        files="cifar10",
    ),
    Content(
        "bricks",
        originals.texture("brick.png"),
        channels=1,
        sizes=(32, 64, 128),
        most=3_000,
        natural={"rotation": UPRIGHT},
        planted=("none", "rotation-full"),
        files="scikit-image",
    ),
    Content(
        "grass",
        originals.texture("grass.png"),
        channels=1,
        sizes=(32, 64, 128),
        most=3_000,
        natural={"rotation": UPRIGHT},
        planted=("rotation-full",),
        files="scikit-image",
    ),
    Content(
        "gravel",
        originals.texture("gravel.png"),
        channels=1,
        sizes=(32, 64, 128),
        most=3_000,
        natural={"rotation": UPRIGHT},
        planted=("rotation-full",),
        files="scikit-image",
    ),
    Content(
        "histology",
        originals.texture("ihc.png"),
        channels=3,
        sizes=(32, 64, 128),
        most=3_000,
        natural={"rotation": UPRIGHT, "hue": UPRIGHT},
        planted=("rotation-full", *_HUES),
        files="scikit-image",
    ),
    Content(
        "random fields",
        originals.random_fields,
        channels=1,
        sizes=(16, 32, 64),
        most=10_000,
        natural=FIELD,
        planted=("none", "rotation-full", "flip-full", "shift-wide"),
        invariant=("rotation", *SHIFTS, "flip_x"),
    ),
)
CONTENTS = {content.name: content for content in _ALL}
