"""Figures of densities and widths: curves, steps, ridges, intervals and tiny shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from symmetries.report.figures import ACCENT, DASHED, INK, MUTED, SPAN, WASH, panel, shortened


def density(
    values: Sequence[float],
    *,
    ticks: Sequence[tuple[float, str]],
    bars: bool = False,
    steps: bool = False,
    level: float | None = None,
) -> Figure:
    """Draw a density as a filled curve, or as bars, over an axis from 0 to 1 that spans ``SPAN``.

    Args:
        values: one per bin, or per bar.
        ticks: positions on the axis and their labels.
        bars: if True, draw bars.
        steps: if True, draw the bins as steps, with the edges that they have.
        level: position of a vertical line to compare with.
    """
    figure, axes = panel(1.25, (SPAN[0], 0.22, SPAN[1] - SPAN[0], 0.76))
    middles = (np.arange(len(values)) + 0.5) / len(values)
    if bars:
        axes.bar(middles, values, 0.82 / len(values), color=WASH, edgecolor=ACCENT)
    elif steps:
        edges = np.linspace(0, 1, len(values) + 1)
        axes.stairs(values, edges, fill=True, color=WASH)
        axes.stairs(values, edges, color=ACCENT)
    else:
        x, y = np.concatenate(([0.0], middles, [1.0])), _ended(values)
        axes.fill_between(x, 0, y, color=WASH, linewidth=0)
        axes.plot(x, y, color=ACCENT)
    if level is not None:
        axes.axvline(level, color=MUTED, linewidth=0.9, linestyle=DASHED)
    _bare(axes, ticks, 1.08 * max([*values, 1e-12]))
    return figure


def box(low: float, high: float, *, ticks: Sequence[tuple[float, str]]) -> Figure:
    """Draw a uniform density on an interval of an axis from 0 to 1 that spans ``SPAN``.

    Args:
        low: start of the interval.
        high: end of the interval.
        ticks: positions on the axis and their labels.
    """
    figure, axes = panel(1.25, (SPAN[0], 0.22, SPAN[1] - SPAN[0], 0.76))
    axes.fill_between((low, high), 0, 1, color=WASH, linewidth=0)
    axes.plot((0, low, low, high, high, 1), (0, 0, 1, 1, 0, 0), color=ACCENT)
    _bare(axes, ticks, 1.08)
    return figure


def ridges(
    rows: Sequence[Sequence[float]],
    names: Sequence[str],
    notes: Sequence[str],
    *,
    ticks: Sequence[tuple[float, str]],
) -> Figure:
    """Draw densities above each other, each with a name on the left and a note on the right.

    Args:
        rows: one density per row, over the same bins, the first on top.
        names: one per row.
        notes: one per row.
        ticks: positions on the axis from 0 to 1 and their labels.
    """
    count, step, overlap = len(rows), 0.3, 1.5
    height = 0.3 + step * (count + overlap - 1) + 0.06
    figure, axes = panel(height, (0.2, 0.28 / height, 0.62, 1 - 0.34 / height))
    most = max(max(row) for row in rows) or 1.0
    for place, (row, name, note) in enumerate(zip(rows, names, notes, strict=True)):
        base = float(count - 1 - place)
        x = np.concatenate(([0.0], (np.arange(len(row)) + 0.5) / len(row), [1.0]))
        y = base + overlap * _ended(row) / most
        axes.fill_between(x, base, y, color=WASH, linewidth=0, zorder=place)
        axes.plot(x, y, color=ACCENT, linewidth=1.2, zorder=place)
        style: dict[str, Any] = {"va": "bottom", "size": 8, "clip_on": False}
        axes.text(-0.03, base, shortened(name), ha="right", color=INK, **style)
        axes.text(1.03, base, note, ha="left", color=MUTED, **style)
    _bare(axes, ticks, count - 1 + overlap * 1.02)
    return figure


def sparkline(values: Sequence[float]) -> Markup:
    """Draw a density as a tiny filled shape of steps, without axes.

    Example:
        >>> sparkline([0.0, 1.0]).startswith('<svg viewBox="0 0 100 24"')
        True
    """
    most = max([*values, 1e-12])
    width = 100 / len(values)
    path = ["M0 24"]
    for place, value in enumerate(values):
        path.append(f"V{24 - 22 * value / most:.1f}H{(place + 1) * width:.1f}")
    shape = " ".join([*path, "V24Z"])
    fill = f"fill:var(--wash, {WASH});stroke:var(--accent, {ACCENT});stroke-width:0.8"
    head = '<svg viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(
        f'{head}<path d="{shape}" style="{fill}" vector-effect="non-scaling-stroke"/></svg>'
    )


def intervals(
    rows: Sequence[tuple[str, float, float, float]],
    notes: Sequence[str],
    *,
    level: float,
    least: float = 0.0,
) -> Figure:
    """Draw values with intervals, one row each, and a vertical line to compare them with.

    Args:
        rows: name, value, low and high end.
        notes: text on the right of each row.
        level: where the line is.
        least: where the axis begins.
    """
    count = len(rows)
    height = 0.34 + 0.24 * count
    figure, axes = panel(height, (0.2, 0.28 / height, 0.5, 1 - 0.34 / height))
    for place, ((name, value, low, high), text) in enumerate(zip(rows, notes, strict=True)):
        y = float(count - 1 - place)
        axes.plot((low, high), (y, y), color=WASH, linewidth=5)
        axes.plot((value,), (y,), "o", color=ACCENT, markersize=4)
        style: dict[str, Any] = {"va": "center", "size": 8, "clip_on": False}
        style["transform"] = axes.get_yaxis_transform()
        axes.text(-0.03, y, shortened(name), ha="right", color=INK, **style)
        axes.text(1.03, y, text, ha="left", color=MUTED, **style)
    axes.axvline(level, color=MUTED, linewidth=0.9, linestyle=DASHED, zorder=0)
    most = max(level, *(row[3] for row in rows))
    axes.set_xlim(least, most + 0.08 * max(most - least, 1e-6))
    axes.set_ylim(-0.6, count - 0.4)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=4)
    return figure


def _ended(values: Sequence[float]) -> NDArray[np.float64]:
    """Return values at the centres of bins, with the first and the last repeated at the ends."""
    return np.concatenate((values[:1], values, values[-1:])).astype(np.float64)


def _bare(axes: Axes, ticks: Sequence[tuple[float, str]], top: float) -> None:
    """Reduce axes to the ticks at the bottom."""
    axes.set_xlim(0, 1)
    axes.set_ylim(0, top)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xticks([position for position, _ in ticks], [label for _, label in ticks])
