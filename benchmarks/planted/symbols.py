"""Symbols of a font, in two colours each: a few hundred contents of which none occurs twice."""

from functools import lru_cache

import torch
from benchmarks.planted.originals import Folder, Originals
from matplotlib import font_manager, ft2font
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

FONT = "DejaVu Sans"
BLOCKS = ((0x10A0, 0x10FF), (0x2190, 0x21FF), (0x2300, 0x23FF), (0x2600, 0x27BF), (0x2900, 0x297F))
SIDE, POINTS = 128, 96


@lru_cache(maxsize=1)
def _drawn() -> Tensor:
    """Symbols (M, 1, SIDE, SIDE) that a font has, white on black."""
    path = font_manager.findfont(FONT)
    known = ft2font.FT2Font(path).get_charmap()
    font = ImageFont.truetype(path, POINTS)
    drawn = []
    for code in (c for first, last in BLOCKS for c in range(first, last + 1) if c in known):
        picture = Image.new("L", (SIDE, SIDE))
        ImageDraw.Draw(picture).text((SIDE / 2, SIDE / 2), chr(code), 255, font, anchor="mm")
        drawn.append(torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8))
    return (torch.stack(drawn).float() / 255).reshape(-1, 1, SIDE, SIDE)


def symbols(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Different symbols in colours of their own, two for each, from the left to the right."""
    every = _drawn()
    chosen = torch.randperm(len(every), generator=generator)[:count]
    ends = torch.rand(2, len(chosen), 3, 1, 1, generator=generator)
    across = torch.linspace(0, 1, SIDE)

    def pictures(at: Tensor) -> Tensor:
        first, last = ends[:, at]
        return every[chosen[at]] * (first + (last - first) * across)

    return Originals(pictures, len(chosen), 0.9)


def on_white(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Light ink on black as dark ink on white."""
    return 1 - pictures
