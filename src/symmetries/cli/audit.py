"""``symmetries audit``: is a model really invariant?"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import plain_table

if TYPE_CHECKING:
    from symmetries.analysis.audits import Subject
    from symmetries.results import AuditResult


@options.command
def audit(
    model: str,
    data: options.Data,
    *,
    group: options.GroupName = "c4",
    range: Annotated[str | None, typer.Option(metavar="NAME=VALUE,...")] = None,
    fast: bool = False,
    output_kind: Annotated[str | None, typer.Option("--output", metavar="NAME[:KIND]")] = None,
    inputs: options.OtherInputs = None,
    drift: Annotated[str | None, typer.Option("--drift-to", "--drift", metavar="DATA")] = None,
    preset: Annotated[str | None, typer.Option(show_default=False)] = None,
    examples: Annotated[int | None, typer.Option(min=2)] = None,
    normalize: options.Normalize = None,
    channels: options.Channels = None,
    fit: Annotated[str, typer.Option(rich_help_panel=options.DATA)] = "stretch",
    fill: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    trust: options.Trust = False,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Measure how invariant a model is: its outputs, where it looks, layer by layer.

    Writes audit.json and report.html.

    [dim]Example:[/] symmetries audit out/fit-digits/model digits --group c4

    Options:
        model: The folder model/ of symmetries fit, an .onnx file, module:callable, or (with
            --trust) a .pt2 file of torch.export or a TorchScript file.
        range: How far a continuous group goes, in degrees, pixels and factors:
            rotation=10,shift=2px,zoom=1.2. By default, the whole group.
        fast: Measure the model's outputs only.
        output_kind: NAME of the model's output, if there are several, and its kind, if it cannot
            be recognised; or KIND alone: logits, probabilities, embedding, map, boxes, points,
            scalar, vector, energy, sequence or ctc.
        drift: Also measure while the images are blended into these data.
        preset: quick (saliency of 200 images in 20 steps), default (500 images, 50 steps) or
            paper (all images, 50 steps). If it is not given, default on a GPU and quick on a CPU.
        examples: Number of images. By default all of them.
        fit: How --resize treats other shapes: stretch, crop or pad.
        fill: Background value from 0 to 1. By default that of the model, or estimated from the
            image borders.
    """
    from symmetries.analysis import audits
    from symmetries.analysis.audit_time import expected_time
    from symmetries.analysis.audited_data import audited_images
    from symmetries.analysis.preprocessing import make_preprocessing
    from symmetries.analysis.progress import progress_bar
    from symmetries.cli.parts import Parts, stop_processes
    from symmetries.cli.runs import begin

    run = begin("audit", output.folder("audit", data), machine, output, preset)
    helper = is_helper(run.processes)
    session = run.session(reading)
    how = session.reading.copy()
    done = make_preprocessing(normalize, channels, how.get("size"), fit)
    how["fit"] = done.fit

    def measure() -> "tuple[Subject, AuditResult]":
        images, notes = audited_images(model, data, **how)
        subject = audits.prepare_audit(
            model,
            images,
            group,
            session,
            range=range,
            output=output_kind,
            inputs=inputs,
            preprocessing=done,
            examples=examples,
            fill=fill,
            trust=trust,
            notes=notes,
            fast=fast,
        )
        text = expected_time(subject, *audits.PRESETS[run.preset])
        if text and not helper:
            run.say(text)
        size = audits.part_size(run.place)
        parts = -(-len(subject.images) // size)
        with progress_bar("audit", total=parts, quiet=run.quiet or helper) as advance:
            over = Parts(run, size, advance, subject.summary.result().sha256, subject.model.digest)
            layers = {"layers": ()} if helper else {}  # only one process looks into layers
            found = audits.measure_invariance(subject, session, over, **layers)
        return subject, found

    if helper:  # another process of the same run: it measures its share
        measure()
        stop_processes()
        return
    with run.folder() as into:
        subject, measured = measure()
        with progress_bar("report", total=2, quiet=run.quiet) as advance:
            other = None if drift is None else audited_images(model, drift, **how)[0]
            result = audits.describe_audit(measured, subject, session, model, other)
            result.save(into / "audit.json")
            advance("numbers")
            result.to_html(into / "report.html")
            advance("page")
    run.show(result, table(result), ("audit.json", "report.html"))
    for line in about(result):
        run.say(line)


def about(result: "AuditResult") -> list[str]:
    """Return lines below the table: ranges of the group, preprocessing of the images, and notes."""
    from symmetries.report.audit_words import logit_words, range_words, weakest_words

    lines = [range_words(result), logit_words(result), weakest_words(result)]
    if result.preprocessing is not None:
        lines.append(f"Images: {result.preprocessing}.")
    return [line for line in (*lines, *(f"Note: {note}." for note in result.notes)) if line]


def table(result: "AuditResult") -> Table:
    """Return the table that the command prints."""
    from symmetries.report.audit_words import measure_rows

    titles = ("value", f"{100 * result.level:.0f} % interval", "resampling alone")
    return plain_table(("measure",), titles, measure_rows(result))
