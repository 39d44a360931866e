"""Pictures with planted turns: letters and signs from matplotlib's fonts, fields, any others."""

import math
import string
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from symmetries.actions.resample import warp

FONTS = Path(matplotlib.__file__).parent / "mpl-data" / "fonts" / "ttf"
UPRIGHT = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif"),
    *("DejaVuSerif-Bold", "STIXGeneral", "STIXGeneralBol", "cmr10", "cmss10", "cmtt10", "cmb10"),
)
FINER = 4  # pixels drawn for each pixel, along both axes


def letters(
    n: int, turn: float, *, side: int = 28, zoom: float = 0.0, shift: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Letters (n, 1, side, side) in twelve fonts of several sizes, and their angles in degrees.

    Turned by angles within ``turn`` degrees, zoomed by factors within exp(+- zoom), moved by up to
    ``shift`` half-images, all drawn larger and shrunk afterwards.
    """
    rng = np.random.default_rng(seed)
    big = side * FINER
    images = np.zeros((n, 1, side, side), np.float32)
    angles = np.zeros(n)
    drawn: dict[tuple[str, str, int], Image.Image] = {}
    for i in range(n):
        letter, font = rng.choice(list(string.ascii_letters)), rng.choice(UPRIGHT)
        size = round(int(rng.integers(30, 39)) * big / 70)
        key = (letter, font, size)
        if key not in drawn:
            drawn[key] = _glyph(letter, font, size, big)
        angles[i] = rng.uniform(-turn, turn)
        moves = (rng.uniform(-zoom, zoom), *rng.uniform(-shift, shift, 2))
        images[i, 0] = np.asarray(
            _placed(drawn[key], angles[i], *moves).resize((side, side), Image.BOX)
        )
    return torch.from_numpy(images) / 255, torch.from_numpy(angles)


def signs(n: int, turn: float, *, side: int = 32, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Up to n different coloured signs and faces (n, 3, side, side), and their angles."""
    rng = np.random.default_rng(seed)
    big = side * FINER
    codes = [*range(0x1F600, 0x1F650), *range(0x2600, 0x2700), *range(0x2701, 0x27C0)]
    codes += [*range(0x1F42D, 0x1F43F), *range(0x2190, 0x2200), *range(0x2300, 0x2400)]
    images, angles = [], []
    missing = np.asarray(_glyph("\uffff", "DejaVuSans", round(big * 0.7), big))
    for code in codes:
        sign = _glyph(chr(code), "DejaVuSans", round(big * 0.7), big)
        drawn = np.asarray(sign)
        if len(images) == n or not drawn.any() or np.array_equal(drawn, missing):
            continue
        angle = rng.uniform(-turn, turn)
        grey = np.asarray(_placed(sign, angle).resize((side, side), Image.BOX), np.float32) / 255
        colour = rng.uniform(0.2, 1.0, 3).astype(np.float32)
        images.append(grey[None] * colour[:, None, None])
        angles.append(angle)
    return torch.from_numpy(np.stack(images)), torch.tensor(angles)


def fields(n: int, side: int, *, bits: int = 8, channels: int = 1, seed: int = 0) -> Tensor:
    """Stationary, isotropic random fields (n, channels, side, side): every pose is as likely.

    Drawn on a grid three times as fine and on a torus twice as large, averaged over pixels.
    """
    generator = torch.Generator().manual_seed(seed)
    finer, size = 3, side * 6
    frequency = torch.fft.fftfreq(size) * finer  # cycles per pixel
    radius = torch.hypot(frequency[:, None], frequency[None])
    amplitude = torch.where(radius < 0.5, 1 / (radius + 0.06), torch.zeros(()))
    parts = []
    for start in range(0, n, 64):
        count = min(64, n - start) * channels
        noise = torch.randn(count, size, size, generator=generator)
        field = torch.fft.ifft2(torch.fft.fft2(noise) * amplitude).real[:, : 3 * side, : 3 * side]
        small = torch.nn.functional.avg_pool2d(field[:, None], finer)
        parts.append(small.reshape(-1, channels, side, side))
    x = torch.cat(parts)
    x = (0.5 + 0.18 * (x - x.mean()) / x.std()).clamp(0, 1)
    levels = 2**bits - 1
    return (x * levels).round() / levels


def turned(images: Tensor, turn: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pictures (N, C, H, W) turned by angles within ``turn`` degrees, and the angles."""
    generator = torch.Generator().manual_seed(seed)
    angles = turn * (2 * torch.rand(len(images), generator=generator) - 1)
    if not turn:
        return images, angles
    c, s = torch.cos(angles.deg2rad()), torch.sin(angles.deg2rad())
    zero = torch.zeros_like(c)
    theta = torch.stack((c, s, zero, -s, c, zero), -1).reshape(-1, 2, 3)
    parts = [
        warp(x, t, interpolation="bicubic", padding="reflect")
        for x, t in zip(images.split(4096), theta.split(4096), strict=True)
    ]
    return torch.cat(parts).clamp(0, 1), angles


def _glyph(text: str, font: str, size: int, side: int) -> Image.Image:
    image = Image.new("L", (side, side))
    face = ImageFont.truetype(str(FONTS / f"{font}.ttf"), size)
    ImageDraw.Draw(image).text((side / 2, side / 2), text, fill=255, font=face, anchor="mm")
    return image


def _placed(
    image: Image.Image, angle: float, zoom: float = 0.0, right: float = 0.0, up: float = 0.0
) -> Image.Image:
    turned = image.rotate(angle, Image.BICUBIC)
    if not (zoom or right or up):
        return turned
    side = image.size[0]
    middle, factor = side / 2, math.exp(-zoom)
    x, y = middle + right * middle, middle - up * middle
    rows = (factor, 0, middle - factor * x, 0, factor, middle - factor * y)
    return turned.transform((side, side), Image.AFFINE, rows, Image.BICUBIC)
