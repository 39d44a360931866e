"""Report of ``symmetries orbit``: how much each transformation changes an image."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from symmetries.report import figures
from symmetries.report.page import Answer, Block, Drawing, OrbitViewer, Page, Section, Strip
from symmetries.report.page_blocks import drawing, orbit_viewer, run_settings
from symmetries.results import OrbitCurve, OrbitResult
from symmetries.results.pictures import OrbitPictures

STRIP_COLUMNS = 9


def quantity(value: float, unit: str) -> str:
    """Format a number with its unit for display.

    Example:
        >>> quantity(-30.0, "degrees"), quantity(1.25, "factor"), quantity(0.5, "pixels")
        ('\N{MINUS SIGN}30°', '×1.25', '+0.5 px')
    """
    if unit == "factor":
        return f"×{value:.2f}"
    rounded = round(value, 0 if unit == "degrees" else 1)
    number = f"{rounded:+g}" if rounded else "0"
    suffix = {"degrees": "°", "pixels": " px"}.get(unit, f" {unit}")
    return number.replace("-", "\N{MINUS SIGN}") + suffix


def title(name: str) -> str:
    """Return the name of a parameter as a heading."""
    return name.replace("_", " ")


def spread(count: int, columns: int) -> list[int]:
    """Return at most ``columns`` evenly spaced indices below ``count``, including both ends."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, columns))})


def reach_text(curve: OrbitCurve) -> str:
    """Return the interval of :attr:`OrbitCurve.reach` as text."""
    if curve.reach is None:
        return "anywhere in the range shown"
    low, high = (quantity(end, curve.unit) for end in curve.reach)
    return f"{low} to {high}"


def orbit_page(result: OrbitResult) -> Page:
    """Return the page for an orbit result; without pictures it shows the curves alone."""
    data, curves = result.data, result.transformations
    size = f"{data.width} × {data.height}"
    return Page(
        title=f"Orbits of {data.name}",
        lede=(
            f"{data.count:,} images of {size} pixels under {', '.join(map(title, result.group))}. "
            "Within these ranges an image changes less, on average, than it differs from its "
            "nearest neighbour in the data:"
        ),
        answers=[Answer(title(curve.name), reach_text(curve)) for curve in curves],
        sections=_sections(result, result.pictures),
        settings=run_settings(data, result.run, ",".join(result.group))
        | {"nearest neighbour": f"{result.neighbour_distance:.3f} (median distance)"},
        rerun=result.run.command,
    )


def _sections(result: OrbitResult, pictures: OrbitPictures | None) -> list[Section]:
    curves = result.transformations
    meaning = (
        "The curve is how much a pixel changes (root mean square, on a scale from 0 to 1): the "
        "mean over the images, and the middle 80 % of them around it."
    )
    if pictures is None:
        drawings: list[Block] = [
            _drawn(c, result, f"Change along {title(c.name)}.", title(c.name)) for c in curves
        ]
        return [Section("Along the orbit", meaning, blocks=drawings, columns=True)]
    frames = pictures.frames
    return [
        Section(
            "At a glance",
            "One image, one transformation a row, from one end of its range to the other.",
            blocks=[_strip(curve, frames[curve.name][0]) for curve in curves],
        ),
        Section(
            "Move them yourself",
            "Drag a slider to move the examples along their orbit. " + meaning,
            blocks=[_viewer(c, frames[c.name], result, pictures.labels) for c in curves],
            columns=True,
        ),
    ]


def _drawn(curve: OrbitCurve, result: OrbitResult, alt: str, name: str = "") -> Drawing:
    """Return the change of the images along one parameter, with the distance of neighbours."""
    steps = len(curve.values)
    labels = [quantity(value, curve.unit) for value in curve.values]
    figure = partial(
        figures.curve,
        range(steps),
        curve.change,
        curve.change_low,
        curve.change_high,
        level=result.neighbour_distance,
        level_label="nearest neighbour",
        ticks=[(float(i), labels[i]) for i in spread(steps, 5)],
        y_label="change",
    )
    return drawing(figure, curve.name, alt, name)


def _strip(curve: OrbitCurve, frames: NDArray[np.uint8]) -> Strip:
    pictures = [
        (figures.picture_uri(frames[i]), quantity(curve.values[i], curve.unit))
        for i in spread(len(curve.values), STRIP_COLUMNS)
    ]
    return Strip(title(curve.name), pictures)


def _viewer(
    curve: OrbitCurve, frames: NDArray[np.uint8], result: OrbitResult, examples: Sequence[str]
) -> OrbitViewer:
    labels = [quantity(value, curve.unit) for value in curve.values]
    name, text = title(curve.name), f"Changes less than a neighbour differs: {reach_text(curve)}."
    drawn = _drawn(curve, result, f"Change of the images along {name}.")
    return orbit_viewer(name, text, frames, examples, labels, drawn)
