"""Figures of curves over training or over a fraction, labelled at their ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from symmetries.report.figures import ACCENT, DASHED, INK, MUTED, SPAN, panel, shortened


def shares(x: Sequence[float], lines: Mapping[str, Sequence[float]]) -> Figure:
    """Draw one or two curves of fractions between 0 and 1, each with its name at its end.

    Args:
        x: positions from 0 to 1.
        lines: curves by name; the first is solid, the second dashed.
    """
    figure, axes = panel(1.75, (SPAN[0], 0.16, 0.6, 0.8))
    styles = ((ACCENT, "solid"), (MUTED, DASHED))
    ends = sorted(((values[-1], name) for name, values in lines.items()))
    apart = spaced([value for value, _ in ends], 0.14)  # keeps the names from overlapping
    places = {name: place for place, (_, name) in zip(apart, ends, strict=True)}
    for (name, values), (colour, dashes) in zip(lines.items(), styles, strict=False):
        axes.plot(x, values, color=colour, linestyle=dashes, marker="o", markersize=2.5)
        axes.text(1.03, places[name], name, color=colour, va="center", size=8, clip_on=False)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    axes.set_yticks([0, 0.5, 1])
    return figure


def history(
    steps: Sequence[float], values: Sequence[float], *, y_label: str, x_label: str = "step"
) -> Figure:
    """Draw a number over the steps of training, or over something else."""
    figure, axes = panel(1.75, (0.13, 0.24, 0.83, 0.72))
    axes.plot(steps, values, color=ACCENT)
    axes.set_xlabel(x_label, labelpad=1)
    axes.set_ylim(0, 1.1 * max([*values, 1e-9]))
    axes.set_xlim(0, max(steps))
    axes.locator_params(axis="both", nbins=4)
    axes.set_ylabel(y_label)
    return figure


def histories(
    steps: Sequence[int], lines: Mapping[str, Sequence[float]], *, y_label: str
) -> Figure:
    """Draw several numbers over the steps of training, each with its name at its end.

    Args:
        steps: steps of training.
        lines: curves by name, distinguished by their dashes.
        y_label: label of the vertical axis.
    """
    figure, axes = panel(1.95, (0.13, 0.22, 0.64, 0.74))
    top = 1.1 * max(1e-9, *(max(values) for values in lines.values()))
    dashes = ("solid", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)))
    names = sorted(lines, key=lambda name: lines[name][-1])
    places = spaced([lines[name][-1] for name in names], 0.12 * top)
    for number, (name, values) in enumerate(lines.items()):
        axes.plot(steps, values, color=ACCENT, linestyle=dashes[number % len(dashes)])
        place = places[names.index(name)]
        label: dict[str, Any] = {"va": "center", "size": 8, "clip_on": False, "color": INK}
        axes.text(1.03 * max(steps), place, shortened(name, 16), **label)
    axes.set_xlabel("step", labelpad=1)
    axes.set_ylim(0, top)
    axes.set_xlim(0, max(steps))
    axes.locator_params(axis="both", nbins=4)
    axes.set_ylabel(y_label)
    return figure


def spaced(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending positions at least ``gap`` apart, as little as possible.

    Example:
        >>> spaced([0.0, 0.1, 3.0], 1.0)
        [-0.45, 0.55, 3.0]
    """
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place])
        while len(clusters) > 1:
            below, above = _ends(clusters[-2], gap)[1], _ends(clusters[-1], gap)[0]
            if above - below >= gap:
                break
            last = clusters.pop()
            clusters[-1] += last
    found: list[float] = []
    for cluster in clusters:
        low, _ = _ends(cluster, gap)
        found += [round(low + gap * i, 12) for i in range(len(cluster))]
    return found


def _ends(cluster: Sequence[float], gap: float) -> tuple[float, float]:
    """Return the first and the last of a cluster's positions, ``gap`` apart about their mean."""
    middle, half = sum(cluster) / len(cluster), gap * (len(cluster) - 1) / 2
    return middle - half, middle + half
