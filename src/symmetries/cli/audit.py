"""``symmetries audit``: is a classifier really invariant?"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper

if TYPE_CHECKING:
    from symmetries.analysis.audits import Subject
    from symmetries.results import AuditResult


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
    from symmetries.analysis import audits
    from symmetries.analysis.inputs import read_splits
    from symmetries.analysis.progress import progress_bar
    from symmetries.cli.inputs import reading_arguments
    from symmetries.cli.parts import Parts, stop_processes
    from symmetries.cli.runs import begin

    words = [model, data, *options.given(group=group, drift_to=drift, examples=examples)]
    words += [*options.given(fill=fill, trust=trust), *reading.words()]
    run = begin("audit", words, output.folder("audit", data), machine, output, preset)
    helper = is_helper(run.processes)
    how = reading_arguments(reading)

    def measure() -> "tuple[Subject, AuditResult]":
        subject = audits.prepare_audit(
            model,
            read_splits(data, **how)[1],
            group,
            examples=examples or audits.PRESETS[run.preset][0],
            fill=fill,
            trust=trust,
            device=run.place,
            precision=run.machine.precision,
            say=run.say,
        )
        parts = -(-len(subject.images) // audits.PART)
        with progress_bar("audit", total=parts, quiet=run.quiet or helper) as advance:
            over = Parts(run, audits.PART, advance, subject.images, subject.model.digest)
            layers = {"layers": ()} if helper else {}  # only one process looks into layers
            found = audits.measure_invariance(
                subject, run.preset, seed=run.seed, over=over, **layers
            )
        return subject, found

    if helper:  # another process of the same run: it measures its share
        measure()
        stop_processes()
        return
    with run.folder() as into:
        subject, measured = measure()
        with progress_bar("report", total=2, quiet=run.quiet) as advance:
            other = None if drift is None else read_splits(drift, **how)[1]
            result = audits.describe_audit(measured, subject, run.preset, run.info(), model, other)
            result.save(into / "audit.json")
            advance("numbers")
            result.to_html(into / "report.html")
            advance("page")
    run.show(result, table(result), ("audit.json", "report.html"))


def table(result: "AuditResult") -> Table:
    """The table that the command prints."""
    from symmetries.report.audit_report import MEASURES

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
