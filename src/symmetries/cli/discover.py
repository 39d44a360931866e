"""``symmetries discover``: which transformations occur in data, and how much."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape

if TYPE_CHECKING:
    from torch import Tensor

    from symmetries.cli.inputs import Source
    from symmetries.cli.portrait import Portrait
    from symmetries.cli.runs import Run
    from symmetries.data import ImageSet
    from symmetries.learners.symmetry_model import SymmetryModel, SymmetrySummary
    from symmetries.report.symmetries import Pictures
    from symmetries.results import ClassSymmetries, RunInfo, SymmetryResult
    from symmetries.training import History

EXAMPLES = 6
VERSIONS = 8
LOOKED_AT = 512
VERDICTS = {"absent": "dim", "partial": "green", "full": "bold green"}


@options.unbundled
def discover(
    data: options.Data,
    *,
    group: options.GroupName = "affine",
    preset: options.Preset = None,
    fill: options.Fill = None,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Find the symmetries of data, without labels: which transformations occur, and how much.

    Writes symmetries.json (the numbers), report.html (a page to look at) and model/ (for
    symmetries augment).

    [dim]Example:[/] symmetries discover digits --group rotation,translation --out out/digits
    """
    from symmetries.cli.inputs import Source
    from symmetries.cli.runs import begin

    source = Source(data, reading)
    words = [data, *options.given(group=group, fill=fill), *reading.words()]
    run = begin("discover", words, output.folder("discover", data), machine, output, preset)
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        fit(source, group, fill, run)
        return
    with run.folder() as partial:
        result = write(source, group, fill, run, partial)
    run.show(result, table(result), ("symmetries.json", "report.html", "model"))


def fit(
    source: "Source", group: str, fill: float | None, run: "Run"
) -> "tuple[ImageSet, SymmetryModel, dict[str, History]]":
    """Load the data and train the model."""
    from symmetries.cli.inputs import around, without_constant
    from symmetries.groups import parse_group
    from symmetries.learners.symmetry_model import SymmetryModel

    parsed = parse_group(group)
    images = without_constant(source.load())
    _, channels, height, width = images.images.shape
    model = SymmetryModel(
        parsed,
        (channels, height, width),
        run.preset,
        fill=around(images, fill, run),
        seed=run.seed,
    )
    histories = model.fit(
        images,
        out=run.checkpoints.folder,
        resume=run.checkpoints.resume,
        device=run.machine.device,
        devices=run.machine.devices,
        nodes=run.machine.nodes,
        precision=run.machine.precision,
        progress=not run.quiet,
    )
    return images, model, histories


def write(
    source: "Source", group: str, fill: float | None, run: "Run", into: Path
) -> "SymmetryResult":
    """Train, measure, draw, and write everything ``into`` a folder."""
    from symmetries.cli.progress import progress_bar
    from symmetries.report import render, symmetry_page

    images, model, histories = fit(source, group, fill, run)
    with progress_bar("report", total=4, quiet=run.quiet) as advance:
        model.save(into / "model")
        advance("model")
        looked_at = images.subset(spread_indices(len(images), LOOKED_AT))
        summary = model.summary(looked_at, most=LOOKED_AT, seed=run.seed)
        advance("widths")
        result, pictures = describe(images, looked_at, model, summary, histories, run.info())
        advance("pictures")
        result.save(into / "symmetries.json")
        html = render(symmetry_page(result, pictures))
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def spread_indices(count: int, most: int) -> list[int]:
    """At most ``most`` positions spread evenly over ``count``.

    Example:
        >>> spread_indices(10, 4), spread_indices(3, 4)
        ([0, 2, 5, 7], [0, 1, 2])
    """
    return [i * count // min(count, most) for i in range(min(count, most))]


def describe(
    images: "ImageSet",
    looked_at: "ImageSet",
    model: "SymmetryModel",
    summary: "SymmetrySummary",
    histories: "dict[str, History]",
    info: "RunInfo",
) -> "tuple[SymmetryResult, Pictures]":
    """The numbers and the pictures of a fitted model."""
    from symmetries.cli import portrait
    from symmetries.cli.runs import summary as data_summary
    from symmetries.groups import group_name
    from symmetries.results import Histogram, Quality, SymmetryResult, Transformation

    inputs = looked_at.images.to(model.device)
    portraits = portrait.portraits(model, summary, inputs, model.seed)
    transformations = tuple(
        Transformation(
            name=part.name,
            unit=part.unit,
            width90=part.width90,
            noise_floor=part.noise_floor,
            verdict=part.verdict,
            histogram=Histogram(edges=found.shown, density=mean_density(found, part.unit)),
        )
        for part, found in zip(summary.transformations, portraits, strict=True)
    )
    result = SymmetryResult(
        group=group_name(model.group),
        data=data_summary(images),
        transformations=transformations,
        classes=_classes(looked_at, summary, portraits),
        quality=Quality(
            images=summary.images,
            content_kept=summary.content_kept,
            losses={stage: history.last for stage, history in histories.items()},
        ),
        run=info,
    )
    return result, _pictures(images, model, summary)


def mean_density(found: "Portrait", unit: str, chosen: "Tensor | None" = None) -> tuple[float, ...]:
    """The density averaged over images, smooth enough to draw."""
    from symmetries.cli.portrait import smoothed

    density = found.density if chosen is None else found.density[chosen]
    mean = density.mean(0)
    kept = mean if unit == "elements" else smoothed(mean, reach=1)
    return tuple(float(f"{value:.4g}") for value in kept.tolist())


def _classes(
    images: "ImageSet", summary: "SymmetrySummary", portraits: "list[Portrait]"
) -> "dict[str, ClassSymmetries]":
    from symmetries.cli.runs import summary as data_summary
    from symmetries.results import ClassSymmetries

    if images.labels is None:
        return {}
    names = data_summary(images).classes
    pairs = list(zip(summary.transformations, portraits, strict=True))
    found = {}
    for label in sorted(set(images.labels.tolist())):
        chosen = images.labels == label
        key = names[label]
        found[key] = ClassSymmetries(
            images=int(chosen.sum()),
            width90={part.name: part.per_class[key] for part, _ in pairs},
            density={part.name: mean_density(p, part.unit, chosen) for part, p in pairs},
        )
    return found


def _pictures(images: "ImageSet", model: "SymmetryModel", summary: "SymmetrySummary") -> "Pictures":
    from symmetries.cli import portrait
    from symmetries.cli.orbit import (
        element_labels,
        example_indices,
        example_labels,
        for_display,
        to_bytes,
    )
    from symmetries.report.symmetries import Film, Pictures

    chosen = example_indices(images, EXAMPLES)
    examples = images.images[chosen].to(model.device)
    shown = for_display(examples)
    films = []
    side = max(model.shape[1:])
    for index, found in enumerate(portrait.portraits(model, summary, examples, model.seed)):
        values, frames, weights = portrait.orbit_frames(model, examples, shown, found, index)
        numbers = values.tolist()
        if summary.transformations[index].unit != "elements":
            parameter = model.group.parameters[index]
            numbers = [parameter.display(value, side)[0] for value in numbers]
        names = element_labels(model.group)
        films.append(Film(numbers, to_bytes(frames), weights.numpy(), names))
    rows = portrait.gallery(model, examples, shown, VERSIONS, model.seed)
    return Pictures(example_labels(images, chosen), to_bytes(rows), films)


def table(result: "SymmetryResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.words import width_text

    shown = Table("transformation", box=None, pad_edge=False, header_style="dim")
    shown.add_column("90 % width", justify="right")
    shown.add_column("noise floor", justify="right")
    shown.add_column("verdict")
    for part in result.transformations:
        shown.add_row(
            escape(part.name),
            width_text(part.width90, part.unit),
            width_text(part.noise_floor, part.unit),
            f"[{VERDICTS[part.verdict]}]{part.verdict}[/]",
        )
    return shown
