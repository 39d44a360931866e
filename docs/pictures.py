"""Draws pictures of the documentation that are no screenshots.

One digit along every parameter of the affine group; and, given the .npz file that symmetries
augment made of sprites, some of them with new versions.

Run with: .venv/bin/python docs/pictures.py [more.npz]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch.nn.functional import pad

from symmetries.analysis.orbits import study_orbits
from symmetries.analysis.pictures import for_display
from symmetries.data import load
from symmetries.groups import Affine2
from symmetries.report import figures
from symmetries.report.figures import INK, MUTED
from symmetries.report.orbit_report import quantity, spread, title

DIGIT = "5"
MARGIN = 2  # pixels of background around the 8 x 8 digits, so that a turned one fits
STATIC = Path(__file__).parent / "_static"
SHOWN, COPIES = 5, 5
COLUMNS = 9  # of the digit along a parameter


def augmented(path: str) -> None:
    """Sprites in rows: as given, then new versions."""
    sprites, more = load("sprites"), np.load(path)
    chosen = np.linspace(0, len(sprites) - 1, SHOWN).astype(int)
    rows = []
    for index in chosen:
        given = (sprites.images[index, 0] * 255).round().byte().numpy()
        rows.append([given, *more["images"][more["source"] == index][:COPIES]])
    names = sprites.class_names or [str(i) for i in range(10)]
    titles = [names[int(sprites.labels[index])] for index in chosen]
    labels = [["as given", *["new"] * COPIES]] * SHOWN
    with figures.style():
        save(film_strips(np.array(rows)[..., None], titles, labels), "augment.png")


def orbits() -> None:
    """One digit along every parameter."""
    digits = load("digits")
    chosen = (digits.labels == int(DIGIT)).nonzero()[:1, 0]
    images = pad(digits.images, (MARGIN,) * 4)
    study = study_orbits(
        images, Affine2("affine"), examples=for_display(images[chosen], side=72), sample=2
    )
    frames = {
        name: (frame * 255).round().byte().movedim(2, -1).numpy()
        for name, frame in study.frames.items()
    }
    columns = [spread(len(curve.values), COLUMNS) for curve in study.curves]
    pairs = list(zip(study.curves, columns, strict=True))
    rows = np.stack([frames[curve.name][0, chosen] for curve, chosen in pairs])
    labels = [[quantity(curve.values[i], curve.unit) for i in chosen] for curve, chosen in pairs]
    with figures.style():
        save(film_strips(rows, [title(curve.name) for curve in study.curves], labels), "orbits.png")


def film_strips(
    frames: NDArray[np.uint8], titles: Sequence[str], labels: Sequence[Sequence[str]]
) -> Figure:
    """Draw one row of images per transformation, each image with its value underneath.

    Args:
        frames: (rows, columns, H, W, C).
        titles: one per row.
        labels: one per image.
    """
    rows, columns, height, width, channels = frames.shape
    tile = 0.62
    left, row_height = 0.95, tile * height / width + 0.24
    figure = Figure(figsize=(left + columns * (tile + 0.06), rows * row_height + 0.08))
    total_width, total_height = figure.get_size_inches()
    for row in range(rows):
        top = total_height - 0.06 - row * row_height
        middle = top - tile * height / width / 2
        figure.text(
            (left - 0.14) / total_width,
            middle / total_height,
            titles[row],
            ha="right",
            va="center",
            color=INK,
        )
        for column in range(columns):
            x = left + column * (tile + 0.06)
            size = (tile / total_width, tile * height / width / total_height)
            axes = figure.add_axes(
                (x / total_width, (top - tile * height / width) / total_height, *size)
            )
            picture = frames[row, column, ..., 0] if channels == 1 else frames[row, column]
            axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_axis_off()
            figure.text(
                (x + tile / 2) / total_width,
                (top - tile * height / width - 0.03) / total_height,
                labels[row][column],
                ha="center",
                va="top",
                size=6.5,
                color=MUTED,
            )
    return figure


def save(figure: Figure, name: str) -> None:
    """Write a figure as a PNG file on white."""
    figure.savefig(STATIC / name, dpi=160, facecolor="white")


if __name__ == "__main__":
    if sys.argv[1:]:
        augmented(sys.argv[1])
    else:
        orbits()
