"""``symmetries audit``: is a classifier really invariant?"""

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper

if TYPE_CHECKING:
    from symmetries.actions import ImageAction
    from symmetries.auditing import AuditResult, DriftRow
    from symmetries.cli.inputs import Source
    from symmetries.cli.models import Loaded
    from symmetries.cli.runs import Run
    from symmetries.data import ImageSet

PART = 50  # examples that are kept at a time, should the run be interrupted
DRIFT_EXAMPLES = {"quick": 30, "default": 100, "paper": 500}
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Test images, and steps of the integrated gradients.
PRESETS = {"quick": (200, 20), "default": (500, 50), "paper": (None, 50)}


@options.unbundled
def audit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The model/ of symmetries fit, an .onnx file, module:callable, or (with --trust) "
            "a .pt2 file of torch.export or a TorchScript file.",
        ),
    ],
    data: options.Data,
    *,
    group: options.GroupName = "c4",
    drift: Annotated[
        str | None,
        typer.Option(
            "--drift-to",
            "--drift",
            metavar="DATA",
            help="Also measure on the way to these data, into which the images are blended.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="quick (200 test images, 20 steps of integration), default (500, 50) or paper "
            "(all, 50). Without it: default on a GPU, quick on a CPU.",
            show_default=False,
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option("--examples", help="Test images, in place of the preset's.", min=2),
    ] = None,
    fill: Annotated[
        float | None,
        typer.Option(
            "--fill",
            min=0,
            max=1,
            help="Background value from 0 to 1; else the model's own, or found at the borders.",
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Load .pt2 and TorchScript, which can run code in the file."),
    ] = False,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Measure how invariant a classifier is: its outputs, where it looks, layer by layer.

    Writes audit.json and report.html.

    [dim]Example:[/] symmetries audit out/fit-digits/model digits --group c4
    """
    from symmetries.cli.inputs import Source
    from symmetries.cli.parts import stop_processes
    from symmetries.cli.runs import begin

    words = [model, data, *options.given(group=group, drift_to=drift, examples=examples)]
    words += [*options.given(fill=fill, trust=trust), *reading.words()]
    run = begin("audit", words, output.folder("audit", data), machine, output, preset)
    source = Source(data, reading)
    away = None if drift is None else Source(drift, reading)
    if is_helper(run.processes):  # another process of the same run: it measures its share
        measure(*prepare(model, trust, source, group, examples, fill, run), run)
        stop_processes()
        return
    with run.folder() as into:
        result = write(model, trust, source, away, group, examples, fill, run, into)
    run.show(result, table(result), ("audit.json", "report.html"))


def prepare(
    name: str,
    trust: bool,
    source: "Source",
    group: str,
    examples: int | None,
    fill: float | None,
    run: "Run",
) -> "tuple[Loaded, ImageSet, ImageAction]":
    """The model, the images that it is measured on, and how they are moved."""
    from symmetries.actions import ImageAction
    from symmetries.auditing.models import untouched
    from symmetries.cli.classifiers import unlabelled
    from symmetries.cli.discover import spread_indices
    from symmetries.cli.inputs import around
    from symmetries.cli.models import check_batches, load_classifier
    from symmetries.groups import parse_group

    images = source.splits()[1]
    if images.labels is None:
        raise unlabelled(source.data)
    wanted = examples or PRESETS[run.preset][0] or len(images)
    images = images.subset(spread_indices(len(images), wanted))
    some = images.images[:16].to(run.place)
    model = load_classifier(name, trust, run.place, run.machine.precision, some)
    if model.labels is not None:
        images = with_labels(images, model.labels)
    with untouched(model.call):
        check_batches(model.call, some)
    value = around(images, model.fill if fill is None else fill, run)
    return model, images, ImageAction(parse_group(group), fill=value)


def with_labels(images: "ImageSet", labels: tuple[int, ...]) -> "ImageSet":
    """The images whose label is among these, with its position there as their label."""
    import torch

    from symmetries._validation.checks import invalid

    known = torch.tensor(labels)
    match = images.labels[:, None] == known  # type: ignore[index]  # checked before
    kept = match.any(1)
    if int(kept.sum()) < 2:
        remedy = "audit it on data with the classes that it was fitted to"
        raise invalid("data", "images of classes that the model knows", "fewer than 2", remedy)
    if not bool(kept.all()):
        text = f"{int((~kept).sum())} images of classes that the model does not know are left out"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    chosen = images.subset(kept)
    names = chosen.class_names or tuple(str(label) for label in range(chosen.classes))
    return replace(
        chosen,
        labels=match[kept].long().argmax(1),
        class_names=tuple(names[label] for label in labels if label < len(names)),
    )


def measure(
    model: "Loaded", images: "ImageSet", action: "ImageAction", run: "Run"
) -> "AuditResult":
    """Every measure that the model allows."""
    from symmetries.auditing import audit as measured
    from symmetries.cli.models import unfit
    from symmetries.cli.parts import Parts
    from symmetries.cli.progress import progress_bar

    inputs = images.images.to(run.place)
    labels = images.labels.to(run.place)  # type: ignore[union-attr]  # checked before
    parts = -(-len(images) // PART)
    with progress_bar("audit", total=parts, quiet=run.quiet or is_helper(run.processes)) as advance:
        try:
            return measured(
                model.call,
                (inputs, labels),
                action,
                steps=PRESETS[run.preset][1],
                baseline=action.fill,
                layers=None if model.layers and not is_helper(run.processes) else (),
                gradients=model.without_gradients is None,
                over=Parts(run, PART, advance, images, model.digest),
                seed=run.seed,
                progress=False,
            )
        except AssertionError as error:  # an exported program that takes only so many images
            raise unfit(error, inputs) from error


def write(
    name: str,
    trust: bool,
    source: "Source",
    away: "Source | None",
    group: str,
    examples: int | None,
    fill: float | None,
    run: "Run",
    into: Path,
) -> "AuditResult":
    """Measure, draw, and write everything ``into`` a folder."""
    from symmetries._utils.text import printable
    from symmetries.cli.audit_pictures import draw
    from symmetries.cli.progress import progress_bar
    from symmetries.cli.runs import summary
    from symmetries.report import audit_page, render

    model, images, action = prepare(name, trust, source, group, examples, fill, run)
    result = measure(model, images, action, run)
    with progress_bar("report", total=3, quiet=run.quiet) as advance:
        rows = () if away is None else drift_rows(model, images, away, action, run)
        advance("drift")
        looks = model.without_gradients is None
        pictures = draw(model.call, images, action, run.place, run.seed, looks)
        advance("pictures")
        result = result.model_copy(
            update={
                "drift": rows,
                "model": printable(name),
                "data": summary(images),
                "run": run.info(),
            }
        )
        result.save(into / "audit.json")
        html = render(audit_page(result.model_dump(), pictures, model.without_gradients))
        (into / "report.html").write_text(html, encoding="utf-8")
        advance("page")
    return result


def drift_rows(
    model: "Loaded",
    images: "ImageSet",
    away: "Source",
    action: "ImageAction",
    run: "Run",
) -> "tuple[DriftRow, ...]":
    """The measures as the images are blended into others of the same classes."""
    from symmetries.auditing import drift_curve
    from symmetries.auditing.run import drift_row
    from symmetries.auditing.saliency import saliency_map
    from symmetries.cli.discover import spread_indices
    from symmetries.data import drift

    few = images.subset(spread_indices(len(images), DRIFT_EXAMPLES[run.preset]))
    second = drift(few, away.splits()[1], 1.0)
    first, last = (part.images.to(run.place) for part in (few, second))
    labels = few.labels.to(run.place)  # type: ignore[union-attr]  # checked before
    curve = drift_curve(
        model.call,
        first,
        last,
        labels,
        action,
        betas=BETAS,
        saliency=partial(saliency_map, steps=PRESETS[run.preset][1], baseline=action.fill),
        gradients=model.without_gradients is None,
        seed=run.seed,
    )
    return tuple(drift_row(point) for point in curve)


def table(result: "AuditResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.audits import MEASURES

    shown = Table("measure", box=None, pad_edge=False, header_style="dim")
    shown.add_column("value", justify="right")
    shown.add_column("± standard error", justify="right")
    shown.add_column("resampling alone", justify="right")
    for name, meaning in MEASURES.items():
        measure = getattr(result, name)
        if measure is None:
            shown.add_row(meaning, "[dim]needs gradients[/]", "", "")
            continue
        alone = "" if measure.discretisation is None else f"{measure.discretisation:.3g}"
        shown.add_row(meaning, f"{measure.mean:.3g}", f"{measure.standard_error:.2g}", alone)
    return shown
