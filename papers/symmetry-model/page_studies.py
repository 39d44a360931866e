"""Tables of ablations and small studies on this page; ``page.py`` puts them beside its own."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def study_tables(studies: Row, goal: Row, table: Table) -> dict[str, str]:
    """A table for each study that was run, by name, in the order of the page."""
    made: dict[str, tuple[str, list[str], Callable[[Sequence[Row]], list[list[str]]]]] = {
        "settling": ("settling", SETTLING_HEAD, lambda rows: settling_rows(rows, goal)),
        "moments": ("moments", MOMENTS_HEAD, moment_rows),
        "presets": ("presets", PRESETS_HEAD, preset_rows),
        "sharp": ("sharp", SHARP_HEAD, sharp_rows),
        "few-images": ("few", FEW_HEAD, few_rows),
        "collapse": ("collapse", COLLAPSE_HEAD, collapse_rows),
    }
    return {
        name: table(head, rows_of(studies[study]["rows"]))
        for study, (name, head, rows_of) in made.items()
        if study in studies
    }


def span(values: Sequence[float], form: str) -> str:
    """Mean, and the range where there are several."""
    shown = format(mean(values), form)
    if len(values) == 1:
        return shown
    return f"{shown} ({format(min(values), form)} to {format(max(values), form)})"


def reading(part: Sequence[Any]) -> str:
    """A width, its floor and the verdict in a cell."""
    return f"{part[0]:.3g}, floor {part[1]:.2g}: {part[2]}"


MOMENTS_HEAD = ["data", "moments", "turns", "shift_x", "shift_y", "rotation", "agreement"]


def moment_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The quick preset, by what f is given."""
    body = []
    for row in rows:
        given = [row["data"], row["moments"], "forgiven" if row["turns"] else "-"]
        cells = [reading(row["found"][name]) for name in ("shift_x", "shift_y", "rotation")]
        body.append([*given, *cells, f"{row['agreement']:.4f}"])
    return body


PRESETS_HEAD = ["data", "settling", "rotation", "shift_x", "shift_y", "orbit variance", "next eta"]


def preset_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The quick preset by how it settles, seeds beside each other."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row["data"], row["settling"]), []).append(row)
    body = []
    for key, mine in parts.items():
        cells = [
            " / ".join(reading(row["found"][name]) for row in mine)
            for name in ("rotation", "shift_x", "shift_y")
        ]
        cells += [
            span([row["orbit"] for row in mine], ".3f"),
            span([row["next"] for row in mine], ".1%"),
        ]
        body.append([*key, *cells])
    return body


FEW_HEAD = ["images", "eta", "steps, dropout", "width90", "on test images", "floor", "warned"]


def few_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What p learns from few images."""
    body = []
    for row in rows:
        steps = f"{row['generative_steps']}, {row['feature_dropout']}"
        widths = [f"{row[name][0]:.0f}" for name in ("learned", "test")]
        floor, warned = f"{row['learned'][1]:.0f}", "yes" if row["warned"] else "-"
        body.append([f"{row['images']:,}", row["eta"], steps, *widths, floor, warned])
    return body


SHARP_HEAD = ["data", "90 % of what was planted", "one resampling", "two"]
SHARP_HEAD += [f"two, noise {noise:g}" for noise in (0.35, 0.5, 0.7)]


def sharp_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The width of the rotation by what p is shown."""
    body = []
    for name in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == name]
        planted, *widths = (
            " and ".join(f"{width:.0f}" for width in found)
            for found in (mine[0]["planted"], *(row["width90"] for row in mine))
        )
        body.append([name, planted, *widths])
    return body


COLLAPSE_HEAD = ["against it", "seeds", "content kept", "mass of prototypes", "warned"]


def collapse_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What keeps prototypes from becoming empty: the mean over seeds, and the range."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["variant"], []).append(row)
    return [
        [
            name,
            str(len(mine)),
            span([row["content_kept"] for row in mine], ".0%"),
            span([row["mass"] for row in mine], ".2f"),
            f"{sum(row['warned'] for row in mine)} of {len(mine)}",
        ]
        for name, mine in parts.items()
    ]


SETTLING_HEAD = ["settling", "steps", "orbit variance", "next eta after 1", "larger over its goal"]


def settling_rows(rows: Sequence[Row], goal: Row) -> list[list[str]]:
    """Candidates on held-out images, and what they were chosen by."""
    body = []
    for row in rows:
        orbit, after = row["orbit_0"]["ratio"], row["iterated"][1]
        score = max(orbit / goal["orbit_variance"], after / goal["iterated"])
        body.append(
            [row["variant"], f"{row['steps']:,}", f"{orbit:.4f}", f"{after:.2%}", f"{score:.2f}"]
        )
    return body


ABLATION_HEAD = [
    "task",
    "variant",
    "steps",
    "seeds",
    "orbit variance",
    "refine=2",
    "next eta after 1",
    "after 5",
    "content kept",
    "angles of hearts' prototypes, moved hearts: 50 %, 90 % within",
]


def ablation_rows(rows: Sequence[Row], note: str = "") -> list[list[str]]:
    """First stage alone, one thing changed at a time: the mean over seeds, and the range."""
    parts: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        key = row["task"], row["variant"], row["stages"]["inference"]["steps"]
        parts.setdefault(key, []).append(row)
    body = []
    for (task, variant, steps), mine in parts.items():
        cells = [
            span([row[name]["ratio"] for row in mine], ".3f") if name in mine[0] else "-"
            for name in ("orbit_variance_refine_0", "orbit_variance_refine_2")
        ]
        cells += [span([row["iterated"][n] for row in mine], ".1%") for n in (1, 5)]
        cells.append(span([row["content_kept"] for row in mine], ".0%"))
        angles = [
            span([row["heart_prototypes"][f"moved_{k}"] for row in mine], ".0f")
            for k in ("median", "90_percent")
            if "heart_prototypes" in mine[0]
        ]
        counts = [f"{steps:,}", str(len(mine))]
        body.append([task, variant + note, *counts, *cells, ", ".join(angles) or "-"])
    return body
