"""Report of ``symmetries discover --method two-stage``: prototypes, and how they are moved."""

from collections.abc import Sequence
from functools import partial

from symmetries.report import densities, figures
from symmetries.report.orbit_report import quantity, spread, title
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
from symmetries.report.page_blocks import drawing, orbit_viewer, picture_rows, run_settings
from symmetries.report.words import advice, headline, sentence, width_text
from symmetries.results import ClassSymmetries, SymmetryResult, Transformation
from symmetries.results.pictures import Film, SymmetryPictures

MOST_CLASSES = 12


def prototype_page(result: SymmetryResult) -> Page:
    """Return the page for a two-stage model; without pictures it shows the densities alone."""
    data, parts = result.data, result.transformations
    size = f"{data.width} × {data.height}"
    return Page(
        title=f"Symmetries of {data.name}",
        lede=headline(parts),
        note=f"Learned from {data.count:,} images of {size} pixels, without labels. "
        + advice(parts),
        answers=[Answer(title(part.name), sentence(part), part.verdict) for part in parts],
        sections=[
            *_density_sections(parts, result.pictures),
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
        warnings=[capital(text) for text in result.warnings],
    )


def _density_sections(
    parts: Sequence[Transformation], pictures: SymmetryPictures | None
) -> list[Section]:
    """Return learned densities, under pictures that move where there are pictures."""
    if pictures is None:
        drawings: list[Block] = [
            density_drawing(part, f"Learned density along {name}.", name)
            for name, part in ((title(part.name), part) for part in parts)
        ]
        text = "The learned density of each transformation around the most common pose."
        return [Section("Transformation by transformation", text, blocks=drawings, columns=True)]
    return [
        Section(
            "Pictures and their prototypes",
            "The model sees every picture as a prototype that was moved. On the left a "
            "picture, then the prototype it was led back to, then new versions of it: the "
            "same picture, moved as the data moves its like.",
            blocks=[_gallery(pictures)],
        ),
        Section(
            "Move them yourself",
            "Drag a slider to move the examples. Under it is the learned density, and a "
            "picture fades where the model finds it unlikely. Zero is the most common pose "
            "of each picture.",
            blocks=[
                viewer(part, film, pictures.labels)
                for part, film in zip(parts, pictures.films, strict=True)
            ],
            columns=True,
        ),
    ]


def _step_labels(part: Transformation) -> list[str]:
    """Return labels of the values along a transformation, where no film has any."""
    edges = part.histogram.edges
    if part.unit == "elements":
        return [str(i) for i in range(len(edges) - 1)]
    return [value_text(edge, part) for edge in edges]


def density_drawing(
    part: Transformation, alt: str, name: str = "", steps: Sequence[str] | None = None
) -> Drawing:
    """Return the learned density of a transformation as a drawing."""
    finite = part.unit == "elements"
    ticks = _ticks(part, steps or _step_labels(part))
    values, stairs = part.histogram.density, part.interval is not None
    figure = partial(densities.density, values, ticks=ticks, bars=finite, steps=stairs)
    return drawing(figure, f"density {part.name}", alt, name)


def _gallery(pictures: SymmetryPictures) -> Gallery:
    versions = pictures.gallery.shape[1] - 2
    rows = picture_rows(pictures.labels, pictures.gallery)
    return Gallery((("image", 1), ("prototype", 1), ("new versions", versions)), rows, marked=True)


def viewer(part: Transformation, film: Film, labels: Sequence[str]) -> OrbitViewer:
    """Return examples that move along one transformation, over its density."""
    steps = film.labels or [value_text(value, part) for value in film.values]
    finite, name = part.unit == "elements", title(part.name)
    return orbit_viewer(
        name,
        capital(sentence(part)) + ".",
        film.frames,
        labels,
        steps,
        density_drawing(part, f"Learned density along {name}.", steps=steps),
        start=0 if finite else None,
        span=_slider_span(len(steps)) if finite else figures.SPAN,
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


def largest_classes(
    result: SymmetryResult, most: int
) -> tuple[list[tuple[str, ClassSymmetries]], str]:
    """The classes with most images, in their own order, and a sentence if others are left out."""
    ranked = sorted(result.classes, key=lambda name: -result.classes[name].images)[:most]
    chosen = [(name, found) for name, found in result.classes.items() if name in ranked]
    left_out = len(result.classes) - len(chosen)
    return chosen, f" The {left_out} smallest classes are left out." if left_out else ""


def _class_sections(result: SymmetryResult) -> list[Section]:
    """Build the section on densities by class, with a ridge for each."""
    chosen, note = largest_classes(result, MOST_CLASSES)
    if len(chosen) < 2:
        return []
    drawings: list[Block] = []
    for part in result.transformations:
        edges = part.histogram.edges
        labels = [value_text(edges[i], part) for i in spread(len(edges), 5)]
        places = [i / (len(edges) - 1) for i in spread(len(edges), 5)]
        figure = partial(
            densities.ridges,
            [found.density[part.name] for _, found in chosen],
            [name for name, _ in chosen],
            [width_text(found.width90[part.name], part.unit) for _, found in chosen],
            ticks=[] if part.unit == "elements" else list(zip(places, labels, strict=True)),
        )
        name = title(part.name)
        alt = f"Density of {name} by class."
        drawings.append(drawing(figure, f"ridges {part.name}", alt, name))
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
    share = 100 * (quality.content_kept or 0.0)
    kept = f"{share:.0f} % of the images are recovered from the prototype"
    return run_settings(result.data, result.run, result.group) | {
        "quality": f"{kept} (on {quality.images:,} images)"
    }
