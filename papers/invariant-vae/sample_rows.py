"""Rows of new images for the tables of this page."""

from collections.abc import Sequence
from typing import Any

from vae_rows import KINDS_OF, average, of, with_scatter

Row = dict[str, Any]
SEEN = ("prior", "fitted", "reconstructed", "test")


def likeness_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Shares of new images, and of test images, that a classifier of digits is sure of."""
    return [
        [*said(same), *(share(same, f"sure_of_{name}") for name in SEEN)]
        for same in alike(of(rows, part="samples"))
    ]


def code_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Bounds with prior and density; how rare a digit is; how near training images are."""
    lines = []
    for same in alike(of(rows, part="samples")):
        components = " / ".join(str(row["components"]) for row in same)
        bounds = [f"{average(same, key):.1f}" for key in ("bound", "bound_fitted")]
        rarest = [{"share": min(row["classes_of_fitted"])} for row in same]
        near = [f"{average(same, f'nearest_{key}'):.3f}" for key in ("fitted", "reconstructed")]
        counts = [f"{same[0]['codes']:,}", components]
        lines.append([*said(same), *counts, *bounds, share(rarest, "share"), *near])
    return lines


def alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that differ in their seed alone, together; most noise first."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    order = sorted(rows, key=lambda row: (-row["least_noise"], KINDS_OF[row["kind"]], row["seed"]))
    for row in order:
        key = tuple(row[name] for name in ("kind", "added", "least_noise", "steps", "size"))
        found.setdefault(key, []).append(row)
    return list(found.values())


def said(rows: Sequence[Row]) -> list[str]:
    """Which model it is."""
    row = rows[0]
    return [row["kind"], f"±{row['added']:g}", f"{row['least_noise']:g}"]


def share(rows: Sequence[Row], key: str) -> str:
    """The mean of an entry over seeds, and its standard deviation."""
    return f"{with_scatter(rows, key, 100)} %"
