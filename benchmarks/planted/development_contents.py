"""Contents of the development set: none of them is in the design.

Other characters and fonts, shapes that are drawn, other classes of MNIST and Fashion-MNIST, CIFAR's
hundred classes instead of its ten, other photographs of scikit-image's wheel, fields of black and
white; and letters as scanners and files leave them, on noisy white paper or after JPEG.
"""

import io
import math

import numpy as np
import torch
from benchmarks.planted import originals
from benchmarks.planted.contents import (
    AFFINE,
    CONTENTS,
    FASHION,
    FIELD,
    LETTERS,
    MNIST,
    PHOTO,
    SHIFTS,
    UPRIGHT,
    Content,
    drawn_naturals,
)
from benchmarks.planted.originals import Folder, Originals
from benchmarks.planted.shapes import drops, shapes, tokens
from benchmarks.planted.symbols import on_white, symbols
from benchmarks.planted.truth import STILL, Natural
from PIL import Image
from torch import Tensor

NOISE = 0.04  # standard deviation of white paper
QUALITY = 50  # of JPEG
BLUE = torch.tensor((0.2, 0.35, 0.9)).reshape(3, 1, 1)
DROP_SIZES = Natural(half=0.07)


def noisy_white(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Dark ink on white paper with noise."""
    noise = NOISE * torch.randn(pictures.shape, generator=generator)
    return (0.95 - 0.8 * pictures + noise).clamp(0, 1)


def compressed(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Grey pictures after JPEG."""
    found = []
    for picture in (pictures[:, 0] * 255).round().byte().numpy():
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
        found.append(np.asarray(Image.open(file), dtype=np.float32) / 255)
    return torch.from_numpy(np.stack(found))[:, None]


def binary_fields(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Random fields in which what is above the mean is light, with an edge of about a pixel."""
    plain = originals.random_fields(count, size, generator, folder)

    def pictures(at: Tensor) -> Tensor:
        return torch.sigmoid(12 * (plain.pictures(at) - 0.5)) * 0.8 + 0.1

    return Originals(pictures, count, plain.span)


def blue_letters(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Other letters in one saturated blue."""
    plain = _characters(count, size, generator, folder)
    return Originals(lambda at: plain.pictures(at) * BLUE, count, plain.span, plain.labels)


_characters = originals.characters(
    "LehtrQ?&5D", ("DejaVuSerif", "DejaVuSansMono-Bold", "cmtt10", "STIXGeneralItalic")
)
_letters = {
    "make": _characters,
    "channels": 1,
    "most": 50_000,
    "natural": {**LETTERS, "flip_x": STILL},
    "planted": (),
    "asymmetric": (*AFFINE, "flip_x"),
}
_photo = {
    "channels": 3,
    "most": 50_000,
    "natural": PHOTO,
    "planted": (),
    "invariant": ("flip_x",),
    "supersample": 2,
    "magnify": 4,
    "files": "cifar100",
}


def _texture(name: str, file: str, channels: int, sizes: tuple[int, ...]) -> Content:
    natural = {"rotation": UPRIGHT} | ({"hue": UPRIGHT} if channels == 3 else {})
    make = originals.texture(file)
    return Content(name, make, channels, sizes, 2_500, natural, (), files="scikit-image")


_OTHERS = (
    Content("other letters", sizes=(14, 20, 28, 40, 96), **_letters),  # type: ignore[arg-type]
    Content("noisy letters", sizes=(20, 28, 48), finish=noisy_white, **_letters),  # type: ignore[arg-type]
    Content("letters after JPEG", sizes=(28, 48), finish=compressed, **_letters),  # type: ignore[arg-type]
    Content(
        "blue letters",
        blue_letters,
        channels=3,
        sizes=(14, 20, 28, 48),
        most=50_000,
        natural={**LETTERS, "hue": STILL},
        planted=(),
        asymmetric=("hue", *AFFINE),
    ),
    Content(
        "shapes",
        shapes,
        channels=1,
        sizes=(14, 20, 28, 40),
        most=8_000,
        natural={"rotation": STILL, **dict.fromkeys(SHIFTS, UPRIGHT)},
        planted=(),
        asymmetric=("rotation", *SHIFTS),
    ),
    Content(
        "drops",
        drops,
        channels=1,
        sizes=(14, 20, 40),
        most=8_000,
        natural=drawn_naturals(DROP_SIZES),
        planted=(),
        asymmetric=AFFINE,
    ),
    Content(
        "tokens",
        tokens,
        channels=1,
        sizes=(18, 28, 48),
        most=8_000,
        natural={"rotation": STILL, **dict.fromkeys(SHIFTS, STILL), "zoom": DROP_SIZES},
        planted=(),
        asymmetric=(*SHIFTS, "zoom"),
    ),
    Content(
        "mnist 4, 5, 7",
        originals.named("mnist", 0.75, (4, 5, 7)),
        channels=1,
        sizes=(20, 28),
        most=12_000,
        natural=MNIST,
        planted=(),
        asymmetric=("rotation", *SHIFTS),
        magnify=4,
        files="mnist",
    ),
    Content(
        "clothes",
        originals.named("fashion-mnist", 0.6, (0, 5, 7, 8, 9)),
        channels=1,
        sizes=(28, 40),
        most=25_000,
        natural=FASHION,
        planted=(),
        asymmetric=("rotation", *SHIFTS),
        magnify=4,
        files="fashion-mnist",
    ),
    Content(
        "cifar100, round window",
        originals.named("cifar100", 1.0),
        sizes=(20, 28),
        round=True,
        **_photo,  # type: ignore[arg-type]
    ),
    Content(
        "cifar100, full frame",
        originals.named("cifar100", math.sqrt(2)),
        sizes=(18, 22),
        **_photo,  # type: ignore[arg-type]
    ),
    _texture("moon", "moon.png", 1, (28, 48, 96)),
    _texture("text page", "page.png", 1, (28, 40)),
    _texture("retina", "retina.jpg", 3, (28, 48, 96)),
    _texture("deep field", "hubble_deep_field.jpg", 3, (28, 48)),
    Content(
        "binary fields",
        binary_fields,
        channels=1,
        sizes=(20, 28, 48),
        most=8_000,
        natural=FIELD,
        planted=(),
        invariant=("rotation", *SHIFTS, "flip_x"),
    ),
    Content(
        "symbols",
        symbols,
        channels=3,
        sizes=(32,),
        most=608,
        natural={"rotation": UPRIGHT, "flip_x": UPRIGHT},
        planted=(),
        finish=on_white,
    ),
)
OTHERS = {content.name: content for content in _OTHERS}


def content_named(name: str) -> Content:
    """The content of that name, of the design or of the development set."""
    return CONTENTS[name] if name in CONTENTS else OTHERS[name]
