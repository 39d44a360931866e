"""Rows of VAE, AugVAE and InvVAE (Figure 9) for the tables of this page."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from statistics import stdev
from typing import Any

Row = dict[str, Any]
Verdict = Callable[[bool], str]
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE")
KINDS_OF = {kind: place for place, kind in enumerate((*KINDS, "joint"))}
EQUAL = "20k+"  # steps and networks that VAE, fixed augmentation and AugVAE have in common
BOUNDS = {
    "bound": "on x",
    "prototype_bound": "on the prototype",
}


def of(rows: Sequence[Row], **wanted: Any) -> list[Row]:  # noqa: ANN401 - values of rows
    """The rows that have these entries."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def names_of(kind: str) -> dict[str, str]:
    """The bounds that a kind of model has, and what they are called."""
    if kind == "InvVAE":
        return {key: f"{kind}, {name}" for key, name in BOUNDS.items()}
    return {"bound": kind}


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Of the settings tried for a kind, a set and a seed, the best on images held out."""
    tried: dict[tuple[Any, ...], list[Row]] = {}
    names = ("source", "kind", "added", "size", "seed")
    for row in rows:
        tried.setdefault(tuple(row[name] for name in names), []).append(row)
    return [max(same, key=itemgetter("bound_held_out")) for same in tried.values()]


def efficiency(rows: Sequence[Row], sizes: Sequence[int] = ()) -> tuple[list[str], list[list[str]]]:
    """Bounds by kind, rotation and size."""
    sizes = sizes or sorted({row["size"] for row in rows})
    lines = []
    for added, source in sorted({(row["added"], row["source"]) for row in rows}):
        for kind in KINDS:
            same = of(rows, added=added, source=source, kind=kind)
            for key, name in names_of(kind).items() if same else ():
                lines.append([f"±{added:g}", name, *cells(same, sizes, key)])
    return ["added", "model", *(f"{size:,} images" for size in sizes)], lines


def cells(rows: Sequence[Row], sizes: Sequence[int], key: str) -> list[str]:
    """Bound, reconstruction error and setting for each size; means over seeds."""
    error = "prototype_error" if key == "prototype_bound" else "reconstruction_error"
    texts = []
    for size in sizes:
        same = of(rows, size=size)
        if not same:
            texts.append("not run")
            continue
        settings = " or ".join(sorted({setting(row) for row in same}))
        said = f"{1e3 * average(same, error):.1f}; {settings}"
        texts.append(f"{with_scatter(same, key)} ({said})")
    return texts


def setting(row: Row) -> str:
    """Thousands of steps; whether there was a third convolution, and four times the units."""
    third, wide = len(row.get("channels", ())) > 2, row.get("hidden", 256) > 256
    return f"{row['steps'] / 1000:g}k" + "+" * third + " wide" * wide


def alike_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Cells of Figure 9 whose VAE, fixed augmentation and AugVAE have equal networks and steps.

    A symmetry model of all images that AugVAE learns from ("own") goes before one of fewer.
    """
    same = [row for row in rows if setting(row) == EQUAL and not row.get("live")]
    lines = []
    for added, size in sorted({(row["added"], row["size"]) for row in same}):
        line = [f"±{added:g}", f"{size:,}"]
        for kind in KINDS[:3]:
            found = of(same, added=added, size=size, kind=kind)
            found = of(found, own=True) or found
            line.append(with_scatter(found, "bound") if found else "not run")
        lines.append(line)
    return lines


def with_scatter(rows: Sequence[Row], key: str, unit: float = 1.0) -> str:
    """The mean of an entry, and its standard deviation if there are several rows."""
    spread = f" ± {unit * stdev(row[key] for row in rows):.1f}" if len(rows) > 1 else ""
    return f"{unit * average(rows, key):.1f}{spread}"


def average(rows: Sequence[Row], key: str) -> float:
    """The mean of an entry."""
    return float(sum(row[key] for row in rows) / len(rows))


def stage_rows(results: Row) -> list[list[str]]:
    """How InvVAE changes from 0 to 180 degrees, before and after what was found on the way."""
    now = of(results["rows"], part="figure9")
    vaes = [row for row in now if row["kind"] != "InvVAE"]
    stages = {
        "as they come, digits not shifted": results["not_shifted"]["rows"],
        "as they come": [*vaes, *results["unframed"]["rows"]],
        "framed": [*vaes, *results["one_proposal"]["rows"]],
        "framed, eta proposed for each z": now,
    }
    lines = []
    for name, rows in stages.items():
        best = chosen(rows)
        for size in sorted({row["size"] for row in of(best, kind="InvVAE")}):
            gap = change(best, "VAE", (180.0, size), (0.0, size))
            found = [
                change(best, "InvVAE", (180.0, size), (0.0, size), key)
                for key in ("prototype_bound", "bound")
            ]
            if gap is not None and None not in found:
                said = [f"{value:+.1f}" for value in (gap, 0.1 * gap, *found)]
                lines.append([name, f"{size:,}", *said])
    return lines


def change(
    grid: Sequence[Row], kind: str, to: tuple[float, int], at: tuple[float, int], key: str = "bound"
) -> float | None:
    """The difference of means over runs, from one (added, size) to another."""
    ends = [[r for r in of(grid, kind=kind, added=a, size=n) if key in r] for a, n in (to, at)]
    return average(ends[0], key) - average(ends[1], key) if all(ends) else None
