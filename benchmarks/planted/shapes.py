"""Shapes for the development set: arrows, keys and Ls of random proportions; drops; tokens."""

import numpy as np
import torch
from benchmarks.planted.glyphs import ink_moments
from benchmarks.planted.originals import Folder, Originals
from PIL import Image, ImageDraw
from torch import Tensor

SIDE = 128
SPAN = 0.75  # of the frame's half-image that half an original covers
KINDS = ("arrow", "key", "L")
TOKENS = ("triangle", "bar", "hexagon")


def shapes(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Arrows, keys and Ls, white on black, each with its own lengths and thickness."""
    kinds = torch.randint(len(KINDS), (count,), generator=generator)
    numbers = torch.rand(count, 3, generator=generator)

    def pictures(at: Tensor) -> Tensor:
        drawn = [_drawn(KINDS[int(kinds[i])], *numbers[i].tolist()) for i in at]
        return torch.stack(drawn)[:, None]

    return Originals(pictures, count, SPAN, kinds)


def drops(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """One drop, pointed above and round below."""
    return _same(("drop",), count, generator)


def tokens(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Triangles, bars and hexagons, which some turns leave as they are."""
    return _same(TOKENS, count, generator)


def _same(which: tuple[str, ...], count: int, generator: torch.Generator) -> Originals:
    drawn = torch.stack([_drawn(kind, 0.5, 0.5, 0.5) for kind in which])[:, None]
    chosen = torch.randint(len(which), (count,), generator=generator)
    return Originals(lambda at: drawn[chosen[at]], count, SPAN, chosen)


_CORNERS = {
    "triangle": [(0.5 + 0.36 * x, 0.5 + 0.36 * y) for x, y in ((0, -1), (0.87, 0.5), (-0.87, 0.5))],
    "hexagon": [
        (0.5 + 0.33 * x, 0.5 + 0.33 * y)
        for x, y in ((1, 0), (0.5, 0.87), (-0.5, 0.87), (-1, 0), (-0.5, -0.87), (0.5, -0.87))
    ],
}


def _drawn(kind: str, first: float, second: float, third: float) -> Tensor:
    """One shape (SIDE, SIDE) around its centre of mass; three numbers give some proportions."""
    picture = Image.new("L", (4 * SIDE, 4 * SIDE))
    draw = ImageDraw.Draw(picture)
    unit = 4 * SIDE

    def box(x0: float, y0: float, x1: float, y1: float) -> None:
        draw.rectangle((x0 * unit, y0 * unit, x1 * unit, y1 * unit), fill=255)

    thick = 0.05 + 0.05 * first
    if kind == "arrow":
        head, length = 0.18 + 0.1 * second, 0.25 + 0.15 * third
        box(0.2, 0.5 - thick, 0.5 + length / 2, 0.5 + thick)
        tip = [(0.5 + length / 2, 0.5 - head), (0.88, 0.5), (0.5 + length / 2, 0.5 + head)]
        draw.polygon([(x * unit, y * unit) for x, y in tip], fill=255)
    elif kind == "key":
        ring, teeth = 0.12 + 0.06 * second, 0.08 + 0.1 * third
        draw.ellipse(
            [v * unit for v in (0.32 - ring, 0.5 - ring, 0.32 + ring, 0.5 + ring)], fill=255
        )
        box(0.32, 0.5 - thick / 2, 0.86, 0.5 + thick / 2)
        box(0.7, 0.5, 0.7 + thick, 0.5 + teeth)
        box(0.86 - thick, 0.5, 0.86, 0.5 + 1.4 * teeth)
    elif kind == "drop":
        draw.ellipse([v * unit for v in (0.28, 0.36, 0.72, 0.8)], fill=255)
        draw.polygon([(x * unit, y * unit) for x, y in ((0.5, 0.12), (0.3, 0.5), (0.7, 0.5))], 255)
    elif kind == "bar":
        box(0.17, 0.41, 0.83, 0.59)
    elif kind in _CORNERS:
        draw.polygon([(x * unit, y * unit) for x, y in _CORNERS[kind]], fill=255)
    else:
        foot, height = 0.25 + 0.2 * second, 0.5 + 0.15 * third
        box(0.35, 0.5 - height / 2, 0.35 + 2 * thick, 0.5 + height / 2)
        box(0.35, 0.5 + height / 2 - 2 * thick, 0.35 + foot, 0.5 + height / 2)
    values = torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)
    mean = ink_moments(values)[0] * unit / 2  # from the middle to the centre of mass, y up
    centred = values.roll((round(mean[1]), -round(mean[0])), (0, 1))
    return centred.unflatten(1, (SIDE, 4)).unflatten(0, (SIDE, 4)).mean((1, 3))
