"""Everyday questions: data that people bring first, and what should come out.

Letters with turns beside other moves, photographs in a round window, histology, bricks, a few
hundred symbols that occur once each (as emoji do), and digits of 8 x 8 pixels. Rules are not chosen
on these cells.

    python -m benchmarks.planted --method orbit-quick --cells everyday --data DIR
"""

import hashlib
import json
import math
from typing import Any

from benchmarks.planted.development import make_cell
from benchmarks.planted.development_contents import content_named

_DEGREE = math.pi / 180
# Content, what is planted (in degrees where it is an angle), group, pixels, pictures.
_ROWS: tuple[tuple[str, dict[str, float], str, int, int], ...] = (
    ("letters", {"rotation": 60}, "rotation", 28, 6_000),
    ("letters", {"rotation": 60}, "rotation", 28, 600),
    ("letters", {"rotation": 60}, "rotation,translation", 28, 2_000),
    ("letters", {"rotation": 20}, "rotation,translation", 28, 2_000),
    ("letters", {"rotation": 180}, "rotation,translation", 28, 2_000),
    ("letters", {"rotation": 45, "zoom": 0.2}, "similarity", 28, 2_000),
    ("letters", {"rotation": 45}, "affine", 28, 2_000),
    ("cifar, round window", {"rotation": 45}, "rotation", 32, 8_000),
    ("cifar, round window", {}, "rotation", 32, 8_000),
    ("cifar, round window", {"hue": 90}, "hue", 32, 8_000),
    ("histology", {"rotation": 180}, "rotation", 32, 2_000),
    ("bricks", {"rotation": 180}, "rotation", 32, 2_000),
    ("bricks", {}, "rotation", 32, 2_000),
    ("symbols", {"rotation": 45}, "rotation", 32, 608),
    ("symbols", {}, "flip_x", 32, 608),
    ("symbols", {"flip_x": 0.5}, "flip_x", 32, 608),
    ("digits", {"rotation": 45}, "rotation,translation", 8, 700),
)


def cells() -> tuple[list[dict[str, Any]], str]:
    """All cells, as :func:`benchmarks.planted.design.load` gives those of the design."""
    found = []
    for number, (name, moves, asked, size, count) in enumerate(_ROWS):
        angles = ("rotation", "hue")
        planted = {n: v * _DEGREE if n in angles else v for n, v in moves.items()}
        found.append(make_cell(500 + number, content_named(name), planted, asked, size, count))
    return found, hashlib.sha256(json.dumps(found).encode()).hexdigest()
