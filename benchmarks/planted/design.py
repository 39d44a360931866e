"""The design: which cells are fitted, and what is true of each; fixed before the first run.

    python -m benchmarks.planted.design            # write design.json anew, from the seed
    python -m benchmarks.planted.design --check    # compare it with what stands there

The rule. Every content is crossed with every transformation that may be planted into it, twice. For
each such cell the size and the number of pictures are dealt from a shuffled deck of all pairs that
the content allows, and the group that is asked for from a shuffled deck of those that contain the
planted transformation, so that within a content each occurs as often as any other, give or take
one. About one cell in four is fitted again with another seed. Cells are in an order in which every
beginning of the list is balanced over contents, so that a run that ends early is a fair sample. The
cells of ``small`` come first; they are given, not dealt, and need no files and little time.
"""

import argparse
import hashlib
import json
import math
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.planted.contents import CONTENTS, Content
from benchmarks.planted.truth import (
    CANNOT,
    FINITE,
    expected_width,
    shown_width,
    verdict,
)

from symmetries.groups import parse_group

FILE = Path(__file__).with_name("design.json")
SEED = 25
DRAWS = 2  # cells of each content and transformation
REPEATED = 4  # one cell in so many is fitted with a second seed
MOST = 400  # fits of a method
COUNTS = (300, 1_000, 3_000, 10_000, 50_000)
MOST_VALUES = 1.6e8  # count x channels x pixels
ESTIMATED = 3.0  # widths are scored if planted is so many times as wide as an estimate of natural

_LEVELS: dict[str, dict[str, dict[str, float]]] = {
    "rotation": {
        "narrow": {"rotation": math.radians(20)},
        "wide": {"rotation": math.radians(60)},
        "full": {"rotation": math.pi},
    },
    "shift": {
        "narrow": {"shift_x": 0.08, "shift_y": 0.08},
        "wide": {"shift_x": 0.2, "shift_y": 0.2},
    },
    "zoom": {"narrow": {"zoom": 0.1}, "wide": {"zoom": 0.3}},
    "scales": {
        "narrow": {"scale_x": 0.1, "scale_y": 0.1},
        "wide": {"scale_x": 0.25, "scale_y": 0.25},
    },
    "shear": {"narrow": {"shear": 0.1}, "wide": {"shear": 0.3}},
    "hue": {
        "narrow": {"hue": math.radians(30)},
        "wide": {"hue": math.radians(90)},
        "full": {"hue": math.pi},
    },
    "flip": {"narrow": {"flip_x": 0.25}, "full": {"flip_x": 0.5}},
}
_ASKED = ("rotation", "translation", "zoom", "scale", "shear", "hue", "flip_x")
_WIDER = ("rotation,translation", "rotation,zoom", "similarity", "affine")
_JOINT = ("rotation,flip_x", "hue,rotation")

_SMALL = (
    ("letters", "none", "rotation", 24, 1_000),
    ("letters", "rotation-narrow", "rotation", 24, 1_000),
    ("letters", "rotation-wide", "rotation", 24, 1_000),
    ("letters", "rotation-full", "rotation", 24, 1_000),
    ("hearts", "rotation-wide", "rotation", 16, 1_000),
    ("digits", "rotation-wide", "rotation", 16, 700),
    ("random fields", "none", "rotation", 16, 1_000),
    ("coloured letters", "hue-wide", "hue", 16, 1_000),
    ("letters", "zoom-wide", "zoom", 24, 1_000),
    ("letters", "none", "flip_x", 24, 1_000),
    ("letters", "flip-full", "flip_x", 24, 1_000),
    ("letters", "rotation-wide+shift-wide", "rotation,translation", 24, 1_000),
)


def half_widths(transformation: str) -> dict[str, float]:
    """What a name plants: half-widths by parameter; for flips the share of mirrored pictures.

    Example:
        >>> half_widths("zoom-wide+flip-full")
        {'zoom': 0.3, 'flip_x': 0.5}
    """
    found: dict[str, float] = {}
    for part in () if transformation == "none" else transformation.split("+"):
        kind, level = part.split("-")
        found |= _LEVELS[kind][level]
    return found


def group_names(asked: str) -> tuple[str, ...]:
    """Parameters of a group that is asked for.

    Example:
        >>> group_names("rotation,flip_x")
        ('rotation', 'flip_x')
    """
    return tuple(
        name
        for part in asked.split(",")
        for name in ((part,) if part in FINITE else parse_group(part).names)
    )


def askable(content: Content, planted: set[str]) -> list[str]:
    """Groups that contain what is planted, and of which all is known for the content."""
    every = (*_ASKED, *_WIDER, *_JOINT)
    fitting = []
    for asked in every:
        names = set(group_names(asked))
        if planted <= names and names <= set(content.natural):
            fitting.append(asked)
    if not planted:
        own = set(content.asymmetric) | set(content.invariant) | {"rotation"}
        fitting = [asked for asked in fitting if set(group_names(asked)) & own]
    estimated = {name for name, found in content.natural.items() if found.sd > 0}
    return [asked for asked in fitting if estimated & set(group_names(asked)) <= planted]


def truth(content: Content, planted: Mapping[str, float], asked: str, size: int) -> dict[str, Any]:
    """What is expected of each parameter, given half-widths of what is planted.

    Returns:
        By name: "half", half the width of the uniform density of poses (that of everything where
        every pose is as likely; for flips the share of mirrored pictures); "natural", what the
        content adds; "verdicts" that are right; "width90" as shown; "score_width", whether a width
        far from it is wrong.
    """
    found: dict[str, Any] = {}
    for name in group_names(asked):
        half = planted.get(name, 0.0)
        if name in FINITE:
            found[name] = _finite_truth(content, name, half)
            continue
        natural = content.natural[name]
        everything = name in content.invariant
        periodic = bool(parse_group(name).parameters[0].angle)
        width = math.pi if everything and periodic else half
        own = None if everything and not periodic else expected_width(name, width, natural)
        shown = None if own is None else round(shown_width(name, own, size), 4)
        says = "full" if shown is None or everything else verdict(name, shown, size)
        unscored = shown is None or (natural.sd > 0 and half < ESTIMATED * 1.645 * natural.sd)
        found[name] = {
            "half": round(width, 6),
            "natural": {"half": natural.half, "sd": natural.sd, "known": natural.known},
            "verdicts": [says, CANNOT],
            "width90": shown,
            "score_width": not unscored and says != "absent",
        }
    return found


def _finite_truth(content: Content, name: str, share: float) -> dict[str, Any]:
    share = 0.5 if name in content.invariant else share
    says = {0.0: ["absent"], 0.5: ["full"]}.get(share, ["partial", "full"])
    return {
        "half": share,
        "natural": {"half": 0.0, "sd": 0.0, "known": content.natural[name].known},
        "verdicts": [*says, CANNOT],
        "width90": None,
        "score_width": False,
    }


def cell(
    content: str, transformation: str, asked: str, size: int, number: int, seed: int, small: bool
) -> dict[str, Any]:
    """One cell as the file has it; its id is made of what it is."""
    kind = CONTENTS[content]
    plain = content.replace(", ", "-").replace(" ", "-")
    words = (plain, transformation, asked.replace(",", "."), size, number)
    names = group_names(asked)
    return {
        "id": "/".join(map(str, (*words, f"seed{seed}"))),
        "content": content,
        "transformation": transformation,
        "planted": {n: round(v, 6) for n, v in half_widths(transformation).items()},
        "asked": asked,
        "size": size,
        "count": number,
        "seed": seed,
        "asymmetric": all(name in kind.asymmetric for name in names),
        "small": small,
        "truth": truth(kind, half_widths(transformation), asked, size),
    }


def sizes_and_counts(content: Content) -> list[tuple[int, int]]:
    """All pairs that the content and the memory of a machine allow."""
    counts = sorted({min(number, content.most) for number in COUNTS})
    pairs = [(size, number) for size in content.sizes for number in counts]
    return [(s, n) for s, n in pairs if n * content.channels * s * s <= MOST_VALUES]


class Deck:
    """Cards that are dealt in a shuffled order, and shuffled again when all are out."""

    def __init__(self, cards: Sequence[Any], chance: random.Random) -> None:
        self.cards, self.chance, self.left = list(cards), chance, []  # type: ignore[var-annotated]

    def deal(self) -> Any:  # noqa: ANN401 - whatever the cards are
        """The next card."""
        if not self.left:
            self.left = self.chance.sample(self.cards, len(self.cards))
        return self.left.pop()


def make(seed: int = SEED) -> dict[str, Any]:
    """The whole design."""
    small = [cell(*row, 0, True) for row in _SMALL]
    known = {one["id"] for one in small}
    by_content: dict[str, list[dict[str, Any]]] = {}
    for name, content in CONTENTS.items():
        chance = random.Random(f"{seed}/{name}")
        deck = Deck(sizes_and_counts(content), chance)
        cells = []
        for transformation in content.planted:
            groups = Deck(askable(content, set(half_widths(transformation))), chance)
            for _ in range(DRAWS):
                dealt = (name, transformation, groups.deal(), *deck.deal())
                for _ in range(2 if chance.randrange(REPEATED) == 0 else 1):
                    free = (cell(*dealt, seed, False) for seed in count())
                    one = next(one for one in free if one["id"] not in known)
                    cells.append(one)
                    known.add(one["id"])
        chance.shuffle(cells)
        by_content[name] = cells
    ordered = sorted(
        ((i + 0.5) / len(cells), one["id"], one)
        for cells in by_content.values()
        for i, one in enumerate(cells)
    )
    cells = small + [one for _, _, one in ordered]
    if len(cells) > MOST:
        raise ValueError(f"design: expected at most {MOST} fits, got {len(cells)}; draw fewer")
    asymmetric = {c.name: list(c.asymmetric) for c in CONTENTS.values() if c.asymmetric}
    rule = " ".join((__doc__ or "").split("The rule. ")[1].split())
    return {"rule": rule, "seed": seed, "asymmetric": asymmetric, "cells": cells}


def rendered(design: Mapping[str, Any]) -> str:
    """The text of the file: one line for each cell."""
    head = {key: value for key, value in design.items() if key != "cells"}
    lines = ",\n".join("  " + json.dumps(one) for one in design["cells"])
    return json.dumps(head, indent=1)[:-2] + ',\n "cells": [\n' + lines + "\n ]\n}\n"


def digest(text: str) -> str:
    """SHA-256 of a design's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def load() -> tuple[dict[str, Any], str]:
    """The design that stands in the repository, and its digest."""
    text = FILE.read_text()
    return json.loads(text), digest(text)


SETS = ("all", "small", "asymmetric")


def choose(cells: Iterable[Mapping[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """Cells by "all", "small", "asymmetric", or parts of ids with commas between them."""
    every = [dict(one) for one in cells]
    if wanted in SETS:
        return [one for one in every if wanted == "all" or one[wanted]]
    parts = [part.strip() for part in wanted.split(",") if part.strip()]
    found = [one for one in every if any(part in one["id"] for part in parts)]
    if not found:
        raise ValueError(
            f"cells: expected all, small, asymmetric, or parts of ids, got {wanted!r}; see FILE"
        )
    return found


def main() -> None:
    """Write the design, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    text = rendered(make())
    if not parser.parse_args().check:
        FILE.write_text(text)
        print(f"{FILE.name}: {len(json.loads(text)['cells'])} cells, sha256 {digest(text)}")
    elif FILE.read_text() != text:
        sys.exit("design.json is not what the rule gives; it must not change once runs exist")


if __name__ == "__main__":
    main()
