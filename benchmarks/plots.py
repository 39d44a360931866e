"""Draws the pictures of the documentation's page of benchmarks from the stored results.

python benchmarks/plots.py
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PICTURES = HERE.parent / "docs" / "_static"
BLUE, RED, ORANGE = "#2a6f97", "#d1495b", "#edae49"


def growth(result: dict[str, Any]) -> plt.Figure:
    """Milliseconds and megabytes over size, one panel for each case, with the slope of theory."""
    rows = result["rows"]
    path = HERE / "results" / f"{result['name'].replace('growth', 'growth_memory')}.json"
    memory = json.loads(path.read_text())["rows"] if path.exists() else rows
    columns = 3
    lines = -(-len(rows) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(9, 2.5 * lines), layout="constrained")
    for panel, row, held in zip(axes.flat, rows, memory, strict=False):
        sizes, times = row["sizes"], row["milliseconds"]
        panel.loglog(sizes, times, "o-", color=BLUE, ms=3)
        guide = [times[-1] * (size / sizes[-1]) ** row["theory"] for size in sizes]
        panel.loglog(sizes, guide, ":", color="0.5")
        panel.set_title(row["what"], fontsize=9)
        panel.set_xlabel(row["over"], fontsize=8)
        panel.set_ylim(0.5 * min(times), 4 * max(times))
        text = f"exponent {row['exponent']:.2f}, theory {row['theory']:g}"
        panel.text(0.04, 0.9, text, transform=panel.transAxes, fontsize=7.5, color=BLUE)
        if "MB" in held:
            add_memory(panel, held)
        some = sizes[:: max(2, len(sizes) // 2)]
        panel.set_xticks(some, [f"{size:,}" for size in some])
        panel.minorticks_off()
        panel.tick_params(labelsize=7)
    for panel in axes.flat[len(rows) :]:
        panel.set_visible(False)
    for panel in axes[:, 0]:
        panel.set_ylabel("milliseconds", fontsize=8, color=BLUE)
    return figure


def add_memory(panel: plt.Axes, held: dict[str, Any]) -> None:
    """Megabytes over size, on an axis of their own."""
    text = f"exponent {held['exponent']:.2f}, theory {held['theory']:g}"
    panel.text(0.04, 0.8, text, transform=panel.transAxes, fontsize=7.5, color=RED)
    beside = panel.twinx()
    beside.loglog(held["sizes"], held["MB"], "s--", color=RED, ms=2, lw=0.8)
    beside.set_ylim(0.5 * min(held["MB"]), 4 * max(held["MB"]))
    beside.minorticks_off()
    beside.tick_params(labelsize=6, colors=RED)
    beside.set_ylabel("MB", fontsize=7, color=RED)


def kernels(result: dict[str, Any]) -> plt.Figure:
    """Each kernel, forward and backward: floor, ours and torch's, on one axis of time."""
    rows = [row for row in result["rows"] if row.get("part") in ("both", "step")]
    figure, axis = plt.subplots(figsize=(8, 0.28 * len(rows) + 1), layout="constrained")
    places = range(len(rows), 0, -1)
    styles = (
        ("floor (us)", "floor", "|", "0.3"),
        ("ours (us)", "this library", "o", BLUE),
        ("torch (us)", "torch", "s", RED),
        ("torch, eager (us)", "torch, one by one", "D", RED),
        ("kornia (us)", "kornia, one by one", "^", ORANGE),
        ("naive (us)", "naive, one by one", "x", "0.5"),
    )
    for column, label, marker, colour in styles:
        points = [(row[column], y) for row, y in zip(rows, places, strict=True) if column in row]
        if points:
            axis.scatter(*zip(*points, strict=True), label=label, marker=marker, color=colour, s=22)
    axis.set_xscale("log")
    axis.set_yticks(list(places), [row["what"] for row in rows], fontsize=7)
    axis.set_xlabel(f"microseconds, forward and backward, {result['device']}", fontsize=8)
    axis.grid(axis="x", alpha=0.3)
    axis.legend(fontsize=7.5, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def main() -> None:
    """Draw what there are results for."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    pictures = {"growth-cpu": growth, "growth-cuda": growth}
    pictures |= {"kernels-cuda": kernels, "kernels_layers-cuda": kernels}
    for name, draw in pictures.items():
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            draw(json.loads(path.read_text())).savefig(PICTURES / f"{name}.png", dpi=110)
            print(f"drew {name}.png")


if __name__ == "__main__":
    main()
