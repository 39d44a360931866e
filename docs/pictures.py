"""Draws the picture of the README: one digit along every parameter of the affine group.

Run with: .venv/bin/python docs/pictures.py
"""

from pathlib import Path

from torch.nn.functional import pad

from symmetries.cli.orbit import for_display
from symmetries.data import load
from symmetries.groups import Affine2
from symmetries.orbits import study_orbits
from symmetries.report.orbits import overview

DIGIT = "5"
MARGIN = 2  # pixels of background around the 8 x 8 digits, so that a turned one fits
TARGET = Path(__file__).parent / "_static" / "orbits.png"


def main() -> None:
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
    TARGET.write_bytes(overview(study.curves, frames))


if __name__ == "__main__":
    main()
