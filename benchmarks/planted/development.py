"""The development set: cells on which rules are chosen, so that the design stays a test.

Other widths, sizes, numbers of pictures, contents and seeds (from 100 on) than any cell of the
design has. ``python -m benchmarks.planted --method orbit-quick --cells development`` fits them.
"""

import hashlib
import json
import math
from typing import Any

from benchmarks.planted.contents import content_named
from benchmarks.planted.design import group_names, truth

_DEGREE = math.pi / 180
_SHIFT = ("shift_x", "shift_y")
# Content, half-widths of what is planted, group that is asked for, pixels, pictures.
_CELLS: tuple[tuple[str, dict[str, float], str, int, int], ...] = (
    ("other letters", {}, "rotation", 20, 800),
    ("other letters", {"rotation": 10 * _DEGREE}, "rotation", 28, 1_500),
    ("other letters", {"rotation": 35 * _DEGREE}, "rotation", 28, 800),
    ("other letters", {"rotation": 80 * _DEGREE}, "rotation", 20, 1_500),
    ("shapes", {}, "rotation", 28, 1_500),
    ("shapes", {"rotation": 35 * _DEGREE}, "rotation", 20, 1_500),
    ("shapes", {"rotation": 120 * _DEGREE}, "rotation", 28, 800),
    ("shapes", {"rotation": math.pi}, "rotation", 20, 800),
    ("shapes", dict.fromkeys(_SHIFT, 0.13), "translation", 20, 1_500),
    ("other letters", dict.fromkeys(_SHIFT, 0.05), "translation", 28, 800),
    ("other letters", dict.fromkeys(_SHIFT, 0.3), "translation", 28, 1_500),
    ("other letters", {"zoom": 0.2}, "zoom", 28, 800),
    ("other letters", {"zoom": 0.4}, "zoom", 20, 1_500),
    ("other letters", {"zoom": 0.05}, "zoom", 28, 1_500),
    ("other letters", {"rotation": 35 * _DEGREE, "shift_x": 0.13, "shift_y": 0.13},
     "rotation,translation", 28, 1_500),
    ("shapes", {}, "rotation,translation", 20, 1_500),
    ("coloured letters", {"hue": 50 * _DEGREE}, "hue", 20, 800),
    ("coloured letters", {"hue": 20 * _DEGREE}, "hue", 28, 1_500),
    ("mnist", {"rotation": 80 * _DEGREE}, "rotation", 20, 1_500),
    ("mnist", {"rotation": 45 * _DEGREE}, "rotation", 28, 4_000),
    ("fashion", {"rotation": 35 * _DEGREE}, "rotation", 28, 1_500),
    ("fashion", {"rotation": 120 * _DEGREE}, "rotation", 28, 4_000),
    ("random fields", {}, "rotation", 24, 1_500),
    ("cifar, round window", {"rotation": 80 * _DEGREE}, "rotation", 20, 4_000),
    ("cifar, round window", {}, "rotation", 28, 4_000),
    ("other letters", {"flip_x": 0.5}, "flip_x", 20, 800),
    ("shapes", {"rotation": 80 * _DEGREE}, "rotation,translation", 28, 800),
    ("other letters", {"rotation": 80 * _DEGREE, "flip_x": 0.5}, "rotation,flip_x", 28, 1_500),
    ("other letters", {"rotation": 35 * _DEGREE, "zoom": 0.2}, "rotation,zoom", 28, 1_500),
    ("other letters", {"scale_x": 0.18, "scale_y": 0.18}, "scale", 28, 1_500),
    ("other letters", {"shear": 0.2}, "shear", 28, 1_500),
    ("other letters", {"rotation": 35 * _DEGREE}, "similarity", 28, 1_500),
    ("other letters", {}, "affine", 28, 1_500),
)  # fmt: skip


def cells() -> tuple[list[dict[str, Any]], str]:
    """All cells, as :func:`benchmarks.planted.design.load` gives those of the design."""
    found = [_cell(100 + number, *row) for number, row in enumerate(_CELLS)]
    return found, hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _cell(
    seed: int, content: str, planted: dict[str, float], asked: str, size: int, count: int
) -> dict[str, Any]:
    kind = content_named(content)
    plain = content.replace(", ", "-").replace(" ", "-")
    moved = "+".join(f"{name}-{half:.3g}" for name, half in planted.items()) or "none"
    words = (plain, moved, asked.replace(",", "."), size, count, f"seed{seed}")
    return {
        "id": "/".join(map(str, words)),
        "content": content,
        "planted": {name: round(half, 6) for name, half in planted.items()},
        "asked": asked,
        "size": size,
        "count": count,
        "seed": seed,
        "asymmetric": all(name in kind.asymmetric for name in group_names(asked)),
        "small": False,
        "truth": truth(kind, planted, asked, size),
    }
