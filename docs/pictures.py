"""Draws pictures of the documentation that are no screenshots.

One digit along every parameter of the affine group; and, given the .npz file that symmetries
augment made of sprites, some of them with new versions.

Run with: .venv/bin/python docs/pictures.py [more.npz]
"""

import sys
from pathlib import Path

import numpy as np
from torch.nn.functional import pad

from symmetries.analysis.orbits import study_orbits
from symmetries.analysis.pictures import for_display
from symmetries.data import load
from symmetries.groups import Affine2
from symmetries.report import figures
from symmetries.report.orbit_report import overview

DIGIT = "5"
MARGIN = 2  # pixels of background around the 8 x 8 digits, so that a turned one fits
STATIC = Path(__file__).parent / "_static"
SHOWN, COPIES = 5, 5


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
        figure = figures.film_strips(np.array(rows)[..., None], titles, labels)
        (STATIC / "augment.png").write_bytes(figures.to_png(figure))


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
    (STATIC / "orbits.png").write_bytes(overview(study.curves, frames))


if __name__ == "__main__":
    if sys.argv[1:]:
        augmented(sys.argv[1])
    else:
        orbits()
