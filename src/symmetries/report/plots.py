"""The main numbers of a result as one matplotlib figure, for notebooks and papers."""

from functools import singledispatch

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from symmetries.report.figures import ACCENT, WASH, style
from symmetries.report.generator_report import spectrum_figure
from symmetries.report.orbit_report import title
from symmetries.results import (
    AuditResult,
    FitResult,
    GeneratorResult,
    OrbitResult,
    PrescribeResult,
    Result,
    SweepResult,
    SymmetryResult,
    WatchResult,
    WrapResult,
)

PANEL = (3.0, 2.0)  # inches
COLUMNS = 3


@singledispatch
def plot(result: Result) -> Figure:
    """Return the main numbers of a result as a figure.

    Args:
        result: of any command.
    """
    raise TypeError(
        f"result: expected a result of a command, got {type(result).__name__}; "
        "see symmetries.results"
    )


@plot.register
def _(result: SymmetryResult) -> Figure:
    figure, panels = _panels(len(result.transformations))
    for axes, part in zip(panels, result.transformations, strict=True):
        edges, density = part.histogram.edges, part.histogram.density
        axes.stairs(density, edges, fill=True, color=WASH)
        axes.stairs(density, edges, color=ACCENT)
        axes.set_xlabel(f"{title(part.name)} ({part.unit})")
        axes.set_title(part.verdict, fontsize=8)
        axes.set_yticks([])
    return figure


@plot.register
def _(result: OrbitResult) -> Figure:
    figure, panels = _panels(len(result.transformations))
    for axes, curve in zip(panels, result.transformations, strict=True):
        axes.fill_between(curve.values, curve.change_low, curve.change_high, color=WASH)
        axes.plot(curve.values, curve.change, color=ACCENT)
        axes.axhline(result.neighbour_distance, linestyle="dotted", linewidth=0.8)
        axes.set_xlabel(f"{title(curve.name)} ({curve.unit})")
    panels[0].set_ylabel("change")
    return figure


@plot.register
def _(result: FitResult) -> Figure:
    curves, units = result.training.half_width, {p.name: p.unit for p in result.invariance}
    if result.relaxation:
        curves = result.training.relaxation
    figure, panels = _panels(max(1, len(curves)))
    for axes, (name, values) in zip(panels, curves.items(), strict=False):
        axes.plot(result.training.step, values, color=ACCENT)
        axes.set_xlabel("step")
        axes.set_ylabel(units.get(name, "ω'"))
        axes.set_title(title(name), fontsize=8)
    figure.suptitle(f"accuracy {100 * result.accuracy:.1f} %", fontsize=9)
    return figure


@plot.register
def _(result: AuditResult) -> Figure:
    shares = {
        "accuracy": result.accuracy,
        "when moved": result.accuracy_moved,
        "saliency": result.saliency_similarity,
    }
    shown = {name: measure for name, measure in shares.items() if measure is not None}
    layers = [layer for layer in result.layers if layer.error is not None]
    figure, panels = _panels(1 + bool(layers))
    means = [measure.mean for measure in shown.values()]
    low = [measure.mean - measure.low for measure in shown.values()]
    high = [measure.high - measure.mean for measure in shown.values()]
    panels[0].bar(list(shown), means, color=WASH, edgecolor=ACCENT, yerr=(low, high))
    panels[0].set_ylim(0, 1)
    if layers:
        names = [layer.name for layer in layers]
        panels[1].barh(names, [layer.error or 0.0 for layer in layers], color=WASH)
        panels[1].invert_yaxis()
        panels[1].set_xlabel("equivariance error")
    return figure


@plot.register
def _(result: SweepResult) -> Figure:
    figure, (axes,) = _panels(1)
    done = [(trial.number, trial.value) for trial in result.trials if trial.value is not None]
    axes.plot([n for n, _ in done], [value for _, value in done], "o", markersize=4, color=ACCENT)
    axes.set_xlabel("run")
    axes.set_ylabel(result.measure)
    return figure


@plot.register
def _(result: GeneratorResult) -> Figure:
    return spectrum_figure(result)


@plot.register
def _(result: PrescribeResult) -> Figure:
    figure, (axes,) = _panels(1)
    names = [
        ", ".join(f"{title(name)} {amount:g}" for name, amount in one.amounts.items())
        for one in result.tried
    ]
    gains = [one.gain for one in result.tried]
    ends = ([gain.mean - gain.low for gain in gains], [gain.high - gain.mean for gain in gains])
    means, places = [gain.mean for gain in gains], range(len(gains))
    axes.errorbar(means, places, xerr=ends, color=ACCENT, marker="o", markersize=3, linestyle="")
    axes.axvline(0, linestyle="dotted", linewidth=0.8)
    axes.set_yticks(list(places), names, size=6)
    axes.set_xlabel("gain (points)")
    return figure


@plot.register
def _(result: WrapResult) -> Figure:
    figure, (axes,) = _panels(1)
    sets = {"as they are": result.untouched, "moved": result.moved}
    for place, both in enumerate(sets.values()):
        for shift, model in ((-0.2, "bare"), (0.2, "wrapped")):
            score = both.bare if model == "bare" else both.wrapped
            ends = ([score.mean - score.low], [score.high - score.mean])
            colour = WASH if model == "bare" else ACCENT
            place_of = [place + shift]
            axes.bar(place_of, [score.mean], 0.36, yerr=ends, color=colour, edgecolor=ACCENT)
            axes.text(place + shift, 0.02, model, ha="center", va="bottom", size=7, rotation=90)
    axes.set_xticks(range(len(sets)), list(sets))
    axes.set_ylabel(result.score)
    return figure


@plot.register
def _(result: WatchResult) -> Figure:
    figure, (axes,) = _panels(1)
    axes.plot(*zip(*(result.trace or ((0, result.evidence),)), strict=True), color=ACCENT)
    axes.axhline(result.limit, linestyle="dotted", linewidth=0.8)
    axes.set_xlabel("pictures of the stream")
    axes.set_ylabel("log10 evidence")
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, three in a row."""
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    with style():
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
        return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
