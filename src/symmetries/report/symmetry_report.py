"""Report of ``symmetries discover``: which transformations occur in data, and how widely."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from symmetries.report import densities, figures
from symmetries.report.orbit_report import title
from symmetries.report.page import Answer, Block, Card, Cards, Gallery, Page, Section, Table
from symmetries.report.page_blocks import drawing, picture_rows, run_settings
from symmetries.report.prototype_report import (
    capital,
    density_drawing,
    largest_classes,
    prototype_page,
    viewer,
)
from symmetries.report.words import (
    ends_text,
    headline,
    interval_text,
    remarks,
    sentence,
    share_text,
    width_text,
)
from symmetries.results import SymmetryResult, Transformation
from symmetries.results.pictures import Portrait, PosePictures

MOST_CLASSES = 20


def symmetry_page(result: SymmetryResult) -> Page:
    """Return the page for a symmetry result; without pictures it shows the densities alone."""
    if result.method == "two-stage":
        return prototype_page(result)
    data, parts = result.data, result.transformations
    size = f"{data.width} × {data.height}"
    note = f"Learned from {data.count:,} images of {size} pixels, without labels."
    return Page(
        title=f"Symmetries of {data.name}",
        lede=headline(parts),
        note=" ".join([note, *remarks(result)]),
        answers=[
            Answer(title(part.name), answer_text(part), part.verdict.replace("cannot be ", "un"))
            for part in parts
        ],
        sections=[
            *_density_sections(parts, result.pictures),
            *_picture_sections(parts, result.pictures),
            *_class_sections(result),
            *_width_sections(parts),
            *_check_sections(result),
            _numbers(parts),
        ],
        settings=_settings(result),
        rerun=result.run.command,
        warnings=[capital(text) for text in result.warnings],
    )


def answer_text(part: Transformation) -> str:
    """Return one transformation in words, with the interval of its width.

    Example:
        >>> from symmetries.results import Histogram
        >>> part = Transformation(name="rotation", unit="degrees", width90=64, noise_floor=3,
        ...     interval=(60, 70), verdict="partial", histogram=Histogram(edges=(), density=()))
        >>> answer_text(part)
        'rotated by about ±32° (90 % width 60° to 70°)'
    """
    text = sentence(part)
    if part.verdict != "partial" or part.interval is None or part.poses > 1:
        return text
    return f"{text} (90 % width {interval_text(part)})"


def _density_sections(
    parts: Sequence[Transformation], pictures: PosePictures | None
) -> list[Section]:
    """Return the mean densities, under pictures that move where there are pictures."""
    told = (
        "The density is the mean over the pictures whose pose can be told, each laid on the centre "
        "of the smallest set that holds 90 % of its own density: poses that are equally likely "
        "within a range look like a box. Zero is the middle of the poses that occur."
    )
    if any(part.poses > 1 for part in parts):
        told += " Several separate poses are counted from each picture as it is, at zero."
    if pictures is None:
        drawings: list[Block] = [
            density_drawing(part, f"Density of {title(part.name)}.", title(part.name))
            for part in parts
        ]
        return [Section("How far the pictures go", told, blocks=drawings, columns=True)]
    blocks = [
        viewer(part, film, pictures.labels)
        for part, film in zip(parts, pictures.films, strict=True)
    ]
    text = "Drag a slider to move the examples; one fades where its own density is low. "
    return [Section("How far the pictures go", text + told, blocks=blocks, columns=True)]


def _picture_sections(
    parts: Sequence[Transformation], pictures: PosePictures | None
) -> list[Section]:
    if pictures is None:
        return []
    versions = pictures.gallery.shape[1] - 1
    rows = picture_rows(pictures.labels, pictures.gallery)
    units = {part.name: part.unit for part in parts}
    return [
        Section(
            "New versions",
            "On the left a picture as it is, then new versions of it, moved as the data moves its "
            "like: drawn from its own density, by a fit that has not seen it.",
            blocks=[Gallery((("image", 1), ("new versions", versions)), rows)],
        ),
        Section(
            "The surest and the least sure",
            "The pictures whose poses are known best and worst, by fits that have not seen them, "
            "with the density of each on the whole range, around its own centre. A width is read "
            "from sure pictures only: a picture that looks alike in every pose tells nothing.",
            blocks=[
                _cards("The surest", pictures.surest, units),
                _cards("The least sure", pictures.least_sure, units),
            ],
        ),
    ]


def _cards(name: str, portraits: Sequence[Portrait], units: Mapping[str, str]) -> Cards:
    cards = []
    for one in portraits:
        drawings = [
            (
                densities.sparkline(one.densities[part]),
                f"{title(part)} {width_text(one.widths[part], unit)}",
            )
            for part, unit in units.items()
        ]
        cards.append(Card(figures.picture_uri(one.picture), one.label, drawings))
    return Cards(name, cards)


def _class_sections(result: SymmetryResult) -> list[Section]:
    """Return widths by class with their intervals, the largest classes only."""
    chosen, note = largest_classes(result, MOST_CLASSES)
    if len(chosen) < 2:
        return []
    drawings: list[Block] = []
    for part in result.transformations:
        own = [(name, found) for name, found in chosen if part.name in found.width90]
        if not own:
            continue
        rows = [(name, found.width90[part.name], *found.interval[part.name]) for name, found in own]
        notes = [ends_text(found.interval[part.name], part.unit) for _, found in own]
        least = 1.0 if part.unit in ("factor", "elements") else 0.0
        figure = partial(densities.intervals, rows, notes, level=part.width90, least=least)
        name = title(part.name)
        alt = f"Width of {name} by class."
        drawings.append(drawing(figure, f"classes {part.name}", alt, name))
    text = (
        "The 90 % width of the pictures of each class whose pose can be told, with its interval; "
        "the dashed line is the width over all classes."
    )
    return [Section("Class by class", text + note, blocks=drawings, columns=True)]


def _width_sections(parts: Sequence[Transformation]) -> list[Section]:
    """Return histograms of the widths of all pictures."""
    drawings: list[Block] = []
    for part in parts:
        if part.widths is None:
            continue
        edges = part.widths.edges
        places = [0, (len(edges) - 1) // 2, len(edges) - 1]
        ticks = [(i / (len(edges) - 1), width_text(edges[i], part.unit)) for i in places]
        level = _place(part.width90, edges, part.unit)
        values = part.widths.density
        figure = partial(densities.density, values, ticks=ticks, steps=True, level=level)
        name = title(part.name)
        alt = f"Widths of {name} of all pictures."
        caption = f"Told from {share_text(part)} of the pictures."
        drawings.append(drawing(figure, f"widths {part.name}", alt, name, caption))
    if not drawings:
        return []
    text = (
        "How wide the density of each picture is, whether its pose can be told or not. The dashed "
        "line is the width of those that can be told: the answer above. Pictures to the right of "
        "it tell less."
    )
    return [Section("All pictures", text, blocks=drawings, columns=True)]


def _place(value: float, edges: Sequence[float], unit: str) -> float:
    """Return where a value lies between the first and the last edge, from 0 to 1."""
    low, high = edges[0], edges[-1]
    if unit == "factor":
        value, low, high = math.log(value), math.log(low), math.log(high)
    return min(max((value - low) / max(high - low, 1e-12), 0.0), 1.0)


def _check_sections(result: SymmetryResult) -> list[Section]:
    """Return what the self-test planted, and what it recovered."""
    heading = "Does the method work on these data?"
    if result.check is None:
        text = "This was not tested: the run was made without its self-test."
        return [Section(heading, text)]
    rows = [
        (
            title(row.name),
            width_text(row.planted, row.unit),
            width_text(row.expected, row.unit),
            width_text(row.recovered, row.unit) if row.visible else "invisible",
        )
        for row in result.check.planted
    ]
    text = (
        f"{result.check.sentence} Known transformations were planted into the pictures, all "
        "parameters at once, a narrow and a wide one, and looked for again. What should be found "
        "is what was planted on top of what the data had; shifts on a background take the place of "
        "those that the data had, as contents would leave the frame. Transformations of data that "
        "have nearly all of them already are invisible, and so are shifts without room."
    )
    header = ("transformation", "planted", "should be found", "was found")
    return [Section(heading, text, blocks=[Table(header, rows)])]


def _numbers(parts: Sequence[Transformation]) -> Section:
    header = ("transformation", "90 % width", "interval", "pictures used", "resolution", "verdict")
    rows = [
        (
            title(part.name),
            width_text(part.width90, part.unit),
            interval_text(part),
            share_text(part),
            width_text(part.noise_floor, part.unit),
            part.verdict,
        )
        for part in parts
    ]
    text = (
        "The width is that of the smallest set that holds 90 % of the density of poses, the median "
        "over the pictures whose pose can be told: one fit chooses these, and another that has not "
        "seen them reads their width. The interval comes from resampling pictures and fits, and "
        "from what the self-test missed. Widths below the resolution cannot be told from zero."
    )
    return Section("The numbers", text, blocks=[Table(header, rows)])


def _settings(result: SymmetryResult) -> dict[str, str]:
    quality = result.quality
    found = run_settings(result.data, result.run, result.group)
    gain = "" if quality.gain is None else f", {quality.gain:.2f} nats gained over chance"
    return found | {"quality": f"read from {quality.images:,} images{gain}"}
