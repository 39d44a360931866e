"""Report of ``symmetries discover``: which transformations occur in data, and how widely."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symmetries.report import figures
from symmetries.report.orbits import quantity, run_settings, spread, title
from symmetries.report.page import (
    Answer,
    Block,
    Drawing,
    Gallery,
    OrbitViewer,
    Page,
    Section,
    Table,
)
from symmetries.report.words import advice, headline, sentence, width_text
from symmetries.results import SymmetryResult, Transformation

MOST_CLASSES = 12


@dataclass(frozen=True)
class Film:
    """Examples moved along one parameter.

    Args:
        values: (S,) offsets from the most common pose, in the unit of the parameter.
        frames: (E, S, H, W, C) images.
        weights: (E, S) density as a fraction of the largest of each example.
        labels: names of the steps, for finite groups.
    """

    values: Sequence[float]
    frames: NDArray[np.uint8]
    weights: NDArray[np.float64]
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Pictures:
    """All images of the page.

    Args:
        labels: a name for each of the E examples.
        gallery: (E, 2 + V, H, W, C): example, prototype, new versions.
        films: one per transformation.
    """

    labels: Sequence[str]
    gallery: NDArray[np.uint8]
    films: Sequence[Film]


def symmetry_page(result: SymmetryResult, pictures: Pictures) -> Page:
    """Build the page for a symmetry result.

    Args:
        result: the numbers.
        pictures: images of some examples.
    """
    data, parts = result.data, result.transformations
    size = f"{data.width} × {data.height}"
    viewers = [
        _viewer(part, film, pictures.labels)
        for part, film in zip(parts, pictures.films, strict=True)
    ]
    return Page(
        title=f"Symmetries of {data.name}",
        lede=headline(parts),
        note=f"Learned from {data.count:,} images of {size} pixels, without labels. "
        + advice(parts),
        answers=[Answer(title(part.name), sentence(part), part.verdict) for part in parts],
        sections=[
            Section(
                "Images and their prototypes",
                "The model describes every image as a transformed prototype. On the left is an "
                "image, then its prototype, then new versions of it: the same image, transformed "
                "as similar images in the data are.",
                blocks=[_gallery(pictures)],
            ),
            Section(
                "Interactive densities",
                "Drag a slider to move the examples. Below it is the learned density, and an "
                "image fades where the model considers it unlikely. Zero is the most common pose "
                "of each image.",
                blocks=viewers,
                columns=True,
            ),
            *_class_sections(result),
            Section(
                "The numbers",
                "A set of this width holds 90 % of the learned distribution. The noise floor is "
                "the same width for repeated predictions on one image, which the method cannot "
                "resolve. A transformation narrower than twice the noise floor counts as absent, "
                "unless it is an angle that is practically uniform.",
                blocks=[_table(result)],
            ),
        ],
        settings=_settings(result),
        rerun=result.run.command,
    )


def _gallery(pictures: Pictures) -> Gallery:
    versions = pictures.gallery.shape[1] - 2
    rows = [
        (label, [figures.picture_uri(frame) for frame in row])
        for label, row in zip(pictures.labels, pictures.gallery, strict=True)
    ]
    return Gallery((("image", 1), ("prototype", 1), ("new versions", versions)), rows, marked=True)


def _viewer(part: Transformation, film: Film, labels: Sequence[str]) -> OrbitViewer:
    steps = film.labels or [value_text(value, part) for value in film.values]
    finite = part.unit == "elements"
    with figures.style(salt=f"density {part.name}"):
        svg = figures.to_svg(
            figures.density(part.histogram.density, ticks=_ticks(part, steps), bars=finite)
        )
    name = title(part.name)
    _, _, height, width, _ = film.frames.shape
    return OrbitViewer(
        title=name,
        text=capital(sentence(part)) + ".",
        sheet=figures.data_uri(figures.encode_png(figures.contact_sheet(film.frames))),
        examples=labels,
        steps=steps,
        start=0 if finite else len(steps) // 2,
        curve=Drawing(svg, alt=f"Learned density along {name}."),
        span=_slider_span(len(steps)) if finite else figures.SPAN,
        tile=(width, height),
        weights=[[round(float(w), 3) for w in row] for row in film.weights],
    )


def _slider_span(steps: int) -> tuple[float, float]:
    """Return the span of a slider that ends at the centres of the first and the last bar."""
    left, right = figures.SPAN
    half = (right - left) / steps / 2
    return left + half, right - half


def _ticks(part: Transformation, steps: Sequence[str]) -> list[tuple[float, str]]:
    """Return positions on the axis from 0 to 1 with their labels."""
    count = len(steps)
    if part.unit == "elements":
        return [((i + 0.5) / count, steps[i]) for i in spread(count, 8)]
    return [(i / (count - 1), steps[i]) for i in spread(count, 5)]


def value_text(value: float, part: Transformation) -> str:
    """Format a value of a transformation as a label."""
    return f"{value:.0f}" if part.unit == "elements" else quantity(value, part.unit)


def capital(text: str) -> str:
    """Capitalise a sentence."""
    return text[:1].upper() + text[1:]


def _class_sections(result: SymmetryResult) -> list[Section]:
    """Build the section on densities by class, with a ridge for each."""
    ranked = sorted(result.classes.items(), key=lambda item: -item[1].images)[:MOST_CLASSES]
    names = {name for name, _ in ranked}
    chosen = [(name, found) for name, found in result.classes.items() if name in names]
    if len(chosen) < 2:
        return []
    drawings: list[Block] = []
    for part in result.transformations:
        edges = part.histogram.edges
        labels = [value_text(edges[i], part) for i in spread(len(edges), 5)]
        places = [i / (len(edges) - 1) for i in spread(len(edges), 5)]
        with figures.style(salt=f"ridges {part.name}"):
            svg = figures.to_svg(
                figures.ridges(
                    [found.density[part.name] for _, found in chosen],
                    [name for name, _ in chosen],
                    [width_text(found.width90[part.name], part.unit) for _, found in chosen],
                    ticks=[] if part.unit == "elements" else list(zip(places, labels, strict=True)),
                )
            )
        name = title(part.name)
        drawings.append(Drawing(svg, alt=f"Density of {name} by class.", title=name))
    left_out = len(result.classes) - len(chosen)
    note = f" The {left_out} smallest classes are left out." if left_out else ""
    text = "The learned density in each class, and its 90 % width."
    return [Section("Class by class", text + note, blocks=drawings, columns=True)]


def _table(result: SymmetryResult) -> Table:
    return Table(
        header=("transformation", "90 % width", "noise floor", "verdict"),
        rows=[
            (
                title(part.name),
                width_text(part.width90, part.unit),
                width_text(part.noise_floor, part.unit),
                part.verdict,
            )
            for part in result.transformations
        ],
    )


def _settings(result: SymmetryResult) -> dict[str, str]:
    quality = result.quality
    kept = f"{100 * quality.content_kept:.0f} % of the images are recovered from the prototype"
    return run_settings(result.data, result.run, result.group) | {
        "quality": f"{kept} (on {quality.images:,} images)"
    }
