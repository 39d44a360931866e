"""Report of ``symmetries generators``: the name first, then the spectrum, generators and orbits."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from symmetries.report import figures
from symmetries.report.figures import ACCENT, INK, MUTED, RULE
from symmetries.report.page import Answer, Block, Page, Section, Table
from symmetries.report.page_blocks import drawing, run_facts
from symmetries.results.generators import GeneratorResult
from symmetries.results.pictures import OrbitCurves

SHOWN = 60  # defects of the figure
MOST_BRACKETS = 10  # generators whose brackets are shown
FLOOR = 1e-16  # smallest defect that the figure shows
COLOURS = {"symmetric": ACCENT, "not symmetric": MUTED, "cannot be told": INK}
MARKS = {"symmetric": "o", "not symmetric": "s", "cannot be told": "D"}


def defect_text(value: float) -> str:
    """Return a defect for a table.

    Example:
        >>> defect_text(0.01234), defect_text(3e-16)
        ('0.012', '3e-16')
    """
    return f"{value:.2g}"


def interval_text(low: float, high: float) -> str:
    """Return an interval for a table."""
    return f"{defect_text(low)} to {defect_text(high)}"


def dimension_text(result: GeneratorResult) -> str:
    """Return the dimension of the algebra, or the range that it is in, with the level."""
    least, most = result.dimension
    number = f"{least}" if least == most else f"{least} to {most}"
    return f"{number} at {100 * result.level:g} %"


def unseen_text(result: GeneratorResult) -> str:
    """Return the largest share of the data in which violations may go unnoticed (rule of three).

    With n independent points, a region that holds more than 3 / n of the distribution is reached
    with 95 %.
    """
    judging = max(1, (result.data.units or result.data.count) // 2)
    text = (
        f"{judging:,} rows or units judge: a violation in a region that holds less than "
        f"{300 / judging:.2g} % of the distribution can be missed"
    )
    if result.fit is not None:
        text += f", and one that varies faster than polynomials of degree {result.fit.degree}"
    return f"{text}."


def generator_page(result: GeneratorResult) -> Page:
    """Return the page for a result of ``symmetries generators``."""
    data = result.data
    what = f"{data.trajectories} trajectories, " if data.trajectories else ""
    least, most = result.dimension
    tone = "full" if least else ("absent" if most == 0 else "")
    return Page(
        title=f"Symmetries of {data.name}: {result.answer}",
        lede=(
            f"{what}{_counted(result)}; {_source(result)}. "
            f"Among all {result.fields} fields, those along which the function changes by at most "
            f"{100 * result.epsilon:g} % of what it changes along random directions:"
        ),
        answers=[
            Answer("algebra", result.answer, tone),
            Answer("dimension", dimension_text(result)),
        ],
        sections=_sections(result),
        settings={
            "data": f"{data.name}, {data.count:,} rows",
            "fields": f"{result.fields}, {result.law}",
            "epsilon": f"{result.epsilon:g} at {100 * result.level:g} %",
            **run_facts(result.run),
        },
        rerun=result.run.command,
        note=_note(result),
    )


def _of_pictures(result: GeneratorResult) -> bool:
    return result.fields == "colour" or result.fields.startswith("planar")


def _counted(result: GeneratorResult) -> str:
    if _of_pictures(result):
        return f"{result.data.count:,} pictures"
    return f"{result.data.count:,} points of {len(result.data.inputs)} coordinates"


def _source(result: GeneratorResult) -> str:
    kinds = {
        "invariant": "fields that leave it as it is",
        "equivariant": "fields that it turns into linear maps of its outputs",
        "density": "fields whose flow keeps the distribution",
        "dynamics": "fields whose flow carries solutions into solutions",
    }
    if _of_pictures(result) and result.law == "density":
        return f"{result.source}; fields that leave their means as they are"
    what = "the log-density" if result.law == "density" else "the function"
    made = f"{what} is {'the model' if result.fit is None else f'a {result.source}'}"
    return f"{made}; {kinds[result.law]}"


def _note(result: GeneratorResult) -> str:
    notes = list(result.warnings)
    if result.fit is not None and result.law != "density":
        notes.append(
            f"The fit leaves {100 * result.fit.unexplained:.2g} % of the variance unexplained. "
            "What is said holds for functions that vary no faster than such polynomials."
        )
    if result.dimension[0]:
        notes.append(unseen_text(result))
    if result.ignored:
        notes.append(
            f"The function does not depend on {result.ignored} of {result.span} directions (up to "
            "epsilon); every motion along them is a symmetry, and only translations are listed."
        )
    units = result.data.units
    if units is not None and units < result.data.count and result.data.trajectories is None:
        notes.append(
            f"Rows belong to {units:,} units (rows with the same inputs, if none were given), "
            "which are split and resampled as a whole."
        )
    if result.span < len(result.data.inputs):
        notes.append(f"The data fills {result.span} of {len(result.data.inputs)} dimensions.")
    if result.coordinates:
        notes.append(result.coordinates)
    if result.closure > 0.01:
        notes.append(f"Brackets of the generators leave their span by {result.closure:.2g}.")
    return " ".join(notes)


def _sections(result: GeneratorResult) -> list[Section]:
    sections = []
    if result.spectrum:
        text = (
            "One mark for each independent field, with its interval. Filled circles are certified "
            "as symmetries, squares are certified not to be, and diamonds cannot be told. A wide "
            f"gap around the line is a clear answer{_gap_text(result)}."
        )
        alt = f"Defects of {len(result.spectrum)} fields, ascending."
        drawn = drawing(partial(spectrum_figure, result), "spectrum", alt)
        sections.append(Section("The spectrum of defects", text, blocks=[drawn]))
    if result.generators:
        sections.append(Section("Generators", _algebra_text(result), blocks=[_table(result)]))
        constants = structure_constants(result)
        if constants is not None:
            text = "The bracket of each generator (row) with each (column), as matrices."
            blocks: list[Block] = [bracket_table(constants)]
            sections.append(Section("The algebra's table", text, blocks=blocks))
    curves: OrbitCurves | None = result.pictures
    if curves is not None and curves.panels:
        blocks = [
            drawing(partial(orbit_figure, curves, i), f"orbit{i}", f"Orbits of {panel[0]}.")
            for i, panel in enumerate(curves.panels)
        ]
        what = "Points of the plane" if _of_pictures(result) else "Some of the data"
        text = f"{what}, and how each generator moves them."
        sections.append(Section("Orbits through the data", text, blocks=blocks, columns=True))
    return sections


def gap(result: GeneratorResult) -> float | None:
    """By what factor the defect grows from the last certified field to the next."""
    least = result.dimension[0]
    if not 0 < least < len(result.spectrum):
        return None
    return result.spectrum[least].defect / max(result.spectrum[least - 1].defect, FLOOR)


def _gap_text(result: GeneratorResult) -> str:
    factor = gap(result)
    if factor is None:
        return ""
    words = f"a factor of {factor:.2g}" if factor < 1000 else "a factor above 1,000"
    return f"; here it is {words}, at the vertical line"


def _algebra_text(result: GeneratorResult) -> str:
    together = f"The intervals of the defects hold together at {100 * result.level:g} %."
    if result.generators[0].matrix is None:  # brackets of other fields leave their family
        return f"Fields that were certified: {result.name}. {together}"
    levi = " + ".join(result.levi) if result.levi else "none"
    return (
        f"The algebra {result.name}: simple parts {levi}, radical of dimension {result.radical}, "
        f"closed under brackets up to {defect_text(result.closure)}. {together}"
    )


def _table(result: GeneratorResult) -> Table:
    several = len(result.generators) > 1
    rows = [
        (
            f"G{i}: {g.text}" if several else g.text,
            defect_text(g.defect),
            interval_text(g.low, g.high),
        )
        for i, g in enumerate(result.generators, 1)
    ]
    return Table(("field", "defect", "interval"), rows)


def structure_constants(result: GeneratorResult) -> NDArray[np.float64] | None:
    """C with [G_i, G_j] = sum_l c_ijl G_l, (k, k, k), of generators with largest entries of 1.

    None for one generator, for more than 10, and where brackets leave the span by more than 0.1.
    """
    matrices = [part.matrix for part in result.generators if part.matrix is not None]
    if not 1 < len(matrices) <= MOST_BRACKETS or result.closure > 0.1:
        return None
    g = np.array(matrices)
    g = g / np.abs(g).max((1, 2), keepdims=True)
    products = np.einsum("iab,jbc->ijac", g, g)
    brackets = (products - products.swapaxes(0, 1)).reshape(len(g) ** 2, -1)
    solved = np.linalg.lstsq(g.reshape(len(g), -1).T, brackets.T, rcond=None)[0]
    return np.asarray(solved.T.reshape(len(g), len(g), len(g)))


def bracket_table(constants: NDArray[np.float64]) -> Table:
    """Return the brackets of generators as text; terms below 0.05 are left out."""
    names = [f"G{i + 1}" for i in range(len(constants))]

    def words(row: NDArray[np.float64]) -> str:
        text = ""
        for value, name in zip(row, names, strict=True):
            if abs(value) >= 0.05:
                number = f"{abs(value):.2g}"
                sign = "-" if value < 0 else "+"
                text += f" {sign} {'' if number == '1' else number + ' '}{name}"
        text = text.strip().removeprefix("+ ")
        return text.replace("- ", "-", 1) if text.startswith("- ") else text or "0"

    rows = [(name, *map(words, row)) for name, row in zip(names, constants, strict=True)]
    return Table(("", *names), rows)


def spectrum_figure(result: GeneratorResult) -> Figure:
    """Defects in ascending order on a logarithmic scale, with epsilon and the gap around it."""
    shown = result.spectrum[:SHOWN]
    seen = [value for part in shown for value in (part.low, part.defect) if value > FLOOR]
    floor = max(min([*seen, result.epsilon]) / 3, FLOOR)
    with figures.style():
        figure = Figure(figsize=(6.4, 2.6), layout="constrained")
        axes = figure.add_subplot()
        least = result.dimension[0]
        for index, part in enumerate(shown, 1):
            colour = COLOURS[part.verdict]
            ends = [max(part.low, floor), max(part.high, floor)]
            axes.plot([index, index], ends, color=colour, linewidth=1.0)
            hollow = part.verdict != "symmetric"
            axes.plot(
                index,
                max(part.defect, floor),
                MARKS[part.verdict],
                markersize=4.5,
                color=colour,
                markerfacecolor="none" if hollow else colour,
            )
        axes.axhline(result.epsilon, color=ACCENT, linestyle="dotted", linewidth=1.0)
        axes.annotate(
            f"epsilon {result.epsilon:g}",
            (1, result.epsilon),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=ACCENT,
        )
        if 0 < least < len(shown):
            axes.axvline(least + 0.5, color=RULE, linewidth=0.8)
        axes.set_yscale("log")
        axes.set_ylim(bottom=floor)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("field")
        axes.set_ylabel("defect")
        axes.set_xlim(0.3, len(shown) + 0.7)
    return figure


def orbit_figure(curves: OrbitCurves, index: int) -> Figure:
    """Return orbits of one generator through points, in the two coordinates that it moves most."""
    text, labels, points, lines = curves.panels[index]
    with figures.style():
        figure = Figure(figsize=(3.0, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for line in lines:
            axes.plot(line[:, 0], line[:, 1], color=ACCENT, linewidth=0.8, alpha=0.6)
        axes.plot(points[:, 0], points[:, 1], "o", color=INK, markersize=2.5)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[-1])
        axes.set_title(figures.shortened(text, 44), fontsize=8)
        axes.set_aspect("equal", "datalim")
    return figure
