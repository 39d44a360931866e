"""Shapes that are drawn with random proportions: arrows, keys and Ls, for the development set."""

import numpy as np
import torch
from benchmarks.planted.glyphs import ink_moments
from benchmarks.planted.originals import Folder, Originals
from PIL import Image, ImageDraw
from torch import Tensor

SIDE = 128
SPAN = 0.75  # of the frame's half-image that half an original covers
KINDS = ("arrow", "key", "L")


def shapes(count: int, size: int, generator: torch.Generator, folder: Folder) -> Originals:
    """Arrows, keys and Ls, white on black, each with its own lengths and thickness."""
    kinds = torch.randint(len(KINDS), (count,), generator=generator)
    numbers = torch.rand(count, 3, generator=generator)

    def pictures(at: Tensor) -> Tensor:
        drawn = [_drawn(KINDS[int(kinds[i])], *numbers[i].tolist()) for i in at]
        return torch.stack(drawn)[:, None]

    return Originals(pictures, count, SPAN, kinds)


def _drawn(kind: str, first: float, second: float, third: float) -> Tensor:
    """One shape (SIDE, SIDE) around its centre of mass; three numbers give its proportions."""
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
    else:
        foot, height = 0.25 + 0.2 * second, 0.5 + 0.15 * third
        box(0.35, 0.5 - height / 2, 0.35 + 2 * thick, 0.5 + height / 2)
        box(0.35, 0.5 + height / 2 - 2 * thick, 0.35 + foot, 0.5 + height / 2)
    values = torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)
    mean = ink_moments(values)[0] * unit / 2  # from the middle to the centre of mass, y up
    centred = values.roll((round(mean[1]), -round(mean[0])), (0, 1))
    return centred.unflatten(1, (SIDE, 4)).unflatten(0, (SIDE, 4)).mean((1, 3))
