"""The development set: cells on which rules are chosen, so that the design stays a test.

No cell of the design has its contents, its widths (but for full turns and none), its sizes, its
numbers of pictures or its seeds (from 100 on). Cells are dealt as those of the design are. Some
follow other laws than the uniform one: normal, one-sided, or with two modes.

    python -m benchmarks.planted --method orbit-quick --cells development --data DIR
    python -m benchmarks.planted --method orbit-quick --cells development:drops/,/affine/
"""

import hashlib
import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.planted.contents import Content
from benchmarks.planted.design import MOST_VALUES, Deck, askable, group_names, truth
from benchmarks.planted.development_contents import OTHERS
from benchmarks.planted.planting import TAIL
from benchmarks.planted.truth import Natural

SEED = 125
COUNTS = (350, 800, 2_000, 8_000)
_DEGREE = math.pi / 180
_PARAMETERS = {
    "shift": ("shift_x", "shift_y"),
    "scales": ("scale_x", "scale_y"),
    "flip": ("flip_x",),
}
_LEVELS: dict[str, tuple[float, ...]] = {
    "rotation": tuple(angle * _DEGREE for angle in (10, 15, 35, 80, 120, 180)),
    "turn": (math.pi,),
    "shift": (0.05, 0.13, 0.3),
    "zoom": (0.06, 0.2, 0.35),
    "scales": (0.07, 0.18, 0.35),
    "shear": (0.07, 0.2, 0.35),
    "hue": tuple(angle * _DEGREE for angle in (15, 50, 120, 180)),
    "flip": (0.15, 0.35, 0.5),
}
# For each content what is planted, and how often.
_DEALT: dict[str, dict[str, int]] = {
    "other letters": {
        **{"none": 2, "rotation": 3, "shift": 2, "zoom": 2, "scales": 2, "shear": 2, "flip": 2},
        **{"rotation+shift": 4, "rotation+zoom": 3, "rotation+flip": 2},
    },
    "noisy letters": {"none": 2, "rotation": 2, "shift": 1, "zoom": 1, "rotation+shift": 1},
    "letters after JPEG": {"none": 2, "rotation": 2, "shift": 1, "zoom": 1, "shear": 1},
    "blue letters": {"none": 1, "hue": 3, "hue+rotation": 2, "rotation": 1},
    "shapes": {"none": 1, "rotation": 3, "shift": 2, "rotation+shift": 3},
    "drops": {
        **{"none": 1, "rotation": 3, "shift": 1, "zoom": 1, "shear": 1, "scales": 1},
        **{"rotation+shift": 2, "rotation+zoom": 2},
    },
    "tokens": {"none": 1, "turn": 1, "shift": 2, "zoom": 1, "turn+shift": 1},
    "mnist 4, 5, 7": {"rotation": 3, "shift": 1, "rotation+shift": 2},
    "clothes": {"rotation": 3, "shift": 1, "rotation+shift": 2},
    "cifar100, round window": {"none": 2, "rotation": 3, "hue": 2, "flip": 1},
    "cifar100, full frame": {"none": 1, "rotation": 2, "hue": 2},
    "moon": {"none": 1, "turn": 1},
    "text page": {"none": 1, "turn": 1},
    "retina": {"turn": 1, "hue": 2},
    "deep field": {"turn": 1},
    "binary fields": {"none": 1, "turn": 1, "flip": 1, "shift": 1},
}
# Content, parameter, its h (see draw_planted), law, pixels, pictures.
_LAWS = (
    ("other letters", "rotation", 50 * _DEGREE, "normal", 28, 2_000),
    ("shapes", "rotation", 25 * _DEGREE, "normal", 20, 800),
    ("clothes", "rotation", 70 * _DEGREE, "one-sided", 28, 2_000),
    ("other letters", "rotation", 130 * _DEGREE, "one-sided", 20, 800),
    ("other letters", "rotation", 70 * _DEGREE, "two modes", 28, 2_000),
    ("drops", "rotation", 60 * _DEGREE, "two modes", 20, 2_000),
    ("shapes", "shift_x", 0.2, "normal", 28, 2_000),
    ("other letters", "zoom", 0.35, "one-sided", 28, 800),
)
# Content, what is planted, pixels and pictures of further cells that ask for affine maps.
_AFFINE: tuple[tuple[str, dict[str, float], int, int], ...] = (
    ("other letters", {"scale_x": 0.07, "scale_y": 0.07}, 28, 2_000),
    ("other letters", {"scale_x": 0.18, "scale_y": 0.18}, 40, 8_000),
    ("other letters", {"shear": 0.07}, 28, 8_000),
    ("other letters", {"shear": 0.2}, 28, 2_000),
    ("other letters", {"rotation": 35 * _DEGREE}, 28, 800),
    ("drops", {"scale_x": 0.18, "scale_y": 0.18}, 40, 800),
    ("drops", {"shear": 0.07}, 40, 8_000),
    ("drops", {"shear": 0.2}, 40, 2_000),
    ("drops", {"rotation": math.pi}, 20, 2_000),
    ("drops", {"rotation": 35 * _DEGREE, "shift_x": 0.13, "shift_y": 0.13}, 20, 800),
)


def cells() -> tuple[list[dict[str, Any]], str]:
    """All cells, as :func:`benchmarks.planted.design.load` gives those of the design."""
    found: list[dict[str, Any]] = []
    for name, dealt in _DEALT.items():
        content, chance = OTHERS[name], random.Random(f"{SEED}/{name}")
        pairs = [(size, min(number, content.most)) for size in content.sizes for number in COUNTS]
        most = MOST_VALUES / content.channels
        deck = Deck(sorted({(s, n) for s, n in pairs if n * s * s <= most}), chance)
        for kinds, times in dealt.items():
            levels = {
                kind: Deck(_LEVELS[kind], chance) for kind in kinds.split("+") if kind != "none"
            }
            names = {p for kind in levels for p in _parameters(kind)}
            groups = Deck(askable(content, names), chance)
            for _ in range(times):
                halves = {kind: level.deal() for kind, level in levels.items()}
                planted = {p: half for kind, half in halves.items() for p in _parameters(kind)}
                found.append(
                    make_cell(100 + len(found), content, planted, groups.deal(), *deck.deal())
                )
    for name, parameter, half, law, size, count in _LAWS:
        asked = "translation" if parameter.startswith("shift") else parameter
        cell = make_cell(100 + len(found), OTHERS[name], {parameter: half}, asked, size, count, law)
        found.append(cell)
    for name, planted, size, count in _AFFINE:
        found.append(make_cell(100 + len(found), OTHERS[name], planted, "affine", size, count))
    return found, hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _parameters(kind: str) -> tuple[str, ...]:
    return _PARAMETERS.get(kind, ("rotation" if kind == "turn" else kind,))


def make_cell(
    seed: int,
    content: Content,
    planted: Mapping[str, float],
    asked: str,
    size: int,
    count: int,
    law: str = "uniform",
) -> dict[str, Any]:
    """A cell with its truth, as the design has them."""
    plain = content.name.replace(", ", "-").replace(" ", "-")
    moved = "+".join(f"{name}-{half:.3g}" for name, half in planted.items()) or "none"
    moved += "" if law == "uniform" else f"-{law.replace(' ', '-')}"
    words = (plain, moved, asked.replace(",", "."), size, count, f"seed{seed}")
    return {
        "id": "/".join(map(str, words)),
        "content": content.name,
        "planted": {name: round(half, 6) for name, half in planted.items()},
        "asked": asked,
        "size": size,
        "count": count,
        "seed": seed,
        "asymmetric": all(name in content.asymmetric for name in group_names(asked)),
        "small": False,
        "truth": _truth(content, planted, asked, size, law),
        "law": law,
    }


def _truth(
    content: Content, planted: Mapping[str, float], asked: str, size: int, law: str
) -> dict[str, Any]:
    """What is expected, see :func:`benchmarks.planted.design.truth`, for any law.

    A one-sided law, and two modes, have the width of a uniform law within h / 2 of its middle.
    """
    if law == "normal":
        (name, half), *_ = planted.items()
        natural = {**content.natural, name: Natural(sd=half / TAIL)}
        found = truth(replace(content, natural=natural), {}, asked, size)
        found[name]["score_width"] = True
        return found
    share = 1.0 if law == "uniform" else 0.5
    return truth(content, {name: share * half for name, half in planted.items()}, asked, size)
