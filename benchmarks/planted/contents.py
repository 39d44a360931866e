"""Contents of the benchmark, and what is known about each of them before anything is planted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.planted import originals
from benchmarks.planted.originals import Originals
from benchmarks.planted.shapes import shapes
from benchmarks.planted.truth import STILL, Natural

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


def _drawn(sizes: Natural) -> dict[str, Natural]:
    still = dict.fromkeys(("rotation", *SHIFTS, "shear"), STILL)
    return {**still, **dict.fromkeys(("zoom", *SCALES), sizes)}


_LETTERS = _drawn(LETTER_SIZES)
_FIELD = dict.fromkeys(("rotation", *SHIFTS, "flip_x"), STILL)
_PHOTO = {"rotation": UPRIGHT, "hue": UPRIGHT, "flip_x": UPRIGHT}
_AFFINE = ("rotation", *SHIFTS, "zoom", *SCALES, "shear")


def _measured(degrees: float, x: float, y: float) -> dict[str, Natural]:
    parts = {"rotation": math.radians(degrees), "shift_x": x, "shift_y": y}
    return {name: Natural(sd=round(sd, 4), known=False) for name, sd in parts.items()}


# Standard deviations within a class, measured by ``natural.py``. Clothes are taken upright: that
# pictures of a class agree best when they are turned by 9 degrees (standard deviation) says more
# about their shapes than about how they lie.
_DIGITS = _measured(5.4, 0.044, 0.037)
_MNIST = _measured(16.3, 0.014, 0.015)
_FASHION = {**_measured(8.7, 0.025, 0.041), "rotation": UPRIGHT}

_ALL = (
    Content(
        "letters",
        originals.letters,
        channels=1,
        sizes=(16, 24, 32, 64, 128),
        most=50_000,
        natural={**_LETTERS, "flip_x": STILL},
        planted=(*_DRAWN, *_FLIPPED),
        asymmetric=(*_AFFINE, "flip_x"),
    ),
    Content(
        "coloured letters",
        originals.coloured_letters,
        channels=3,
        sizes=(16, 24, 32, 64),
        most=50_000,
        natural={**_LETTERS, "hue": STILL},
        planted=("none", *_COLOURED, "rotation-wide"),
        asymmetric=("hue", *_AFFINE),
    ),
    Content(
        "hearts",
        originals.hearts,
        channels=1,
        sizes=(16, 32, 64),
        most=10_000,
        natural=_drawn(SPRITE_SIZES),
        planted=_DRAWN,
        asymmetric=_AFFINE,
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
        natural=_MNIST,
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
        natural=_FASHION,
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
        natural=_PHOTO,
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
        natural=_PHOTO,
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
        natural=_FIELD,
        planted=("none", "rotation-full", "flip-full", "shift-wide"),
        invariant=("rotation", *SHIFTS, "flip_x"),
    ),
)
CONTENTS = {content.name: content for content in _ALL}
# Of the development set only: no cell of the design has them.
_OTHERS = (
    Content(
        "other letters",
        originals.characters("LehtrQ?&5D", ("DejaVuSerif", "DejaVuSansMono-Bold", "cmtt10")),
        channels=1,
        sizes=(20, 28, 40),
        most=50_000,
        natural={**_LETTERS, "flip_x": STILL},
        planted=(),
        asymmetric=(*_AFFINE, "flip_x"),
    ),
    Content(
        "shapes",
        shapes,
        channels=1,
        sizes=(20, 28, 40),
        most=50_000,
        natural={"rotation": STILL, **dict.fromkeys(SHIFTS, UPRIGHT)},
        planted=(),
        asymmetric=("rotation", *SHIFTS),
    ),
)
OTHERS = {content.name: content for content in _OTHERS}


def content_named(name: str) -> Content:
    """The content of that name, of the design or of the development set."""
    return CONTENTS[name] if name in CONTENTS else OTHERS[name]
