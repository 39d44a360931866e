"""``symmetries wrap``: any frozen model made invariant."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import plain_table

if TYPE_CHECKING:
    from symmetries.results import WrapResult


@options.command
def wrap(
    model: str,
    reference: str,
    *,
    group: options.GroupName = "rotation",
    views: Annotated[int, typer.Option(min=1, max=64)] = 1,
    range: Annotated[str | None, typer.Option(metavar="NAME=VALUE,...")] = None,
    limit: Annotated[float, typer.Option(min=0.0, max=100.0)] = 0.3,
    held_out: Annotated[str | None, typer.Option(metavar="DATA")] = None,
    output_kind: Annotated[str | None, typer.Option("--output", metavar="[NAME:]KIND")] = None,
    inputs: options.OtherInputs = None,
    normalize: options.Normalize = None,
    channels: options.Channels = None,
    preset: Annotated[str | None, typer.Option(show_default=False)] = None,
    fill: options.Fill = None,
    trust: options.Trust = False,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Put a canonicaliser in front of a frozen model, so that moved pictures are answered as usual.

    Writes wrapped.pt2 (torch.export) and wrapped.onnx, which take pictures in [0, 1] and normalise
    them themselves, wrap.json (scores before and after, latency) and report.html. Both files are
    compared with the module on moved pictures before they are written.

    [dim]Example:[/] symmetries wrap net.onnx reference/ --group rotation --out out/wrapped

    Options:
        model: The folder model/ of symmetries fit, an .onnx file, module:callable, or (with
            --trust) a .pt2 file of torch.export.
        reference: Pictures in the poses that the model knows: a data set by name, a file, or a
            folder.
        views: Number of poses of a picture that the model may see.
        range: How far pictures will be moved: rotation=45,shift=2px. By default angles go all
            around, shifts over 15 % of the side and zooms up to 1.5.
        limit: Points, of accuracy or of the output's own score, that pictures in their own pose
            may lose.
        held_out: Pictures like REFERENCE by which the rule is chosen, best those that the model
            has not seen. By default a fifth of REFERENCE.
        output_kind: Kind of the model's output, if it cannot be recognised: logits,
            probabilities, embedding, scalar, sequence, ctc, map, points or boxes.
        preset: Preset of the orbit posterior: quick or default. If it is not given, default on a
            GPU and quick on a CPU.
    """
    from symmetries.analysis.preprocessing import make_preprocessing
    from symmetries.analysis.progress import progress_bar
    from symmetries.analysis.wrap_files import export_checked
    from symmetries.analysis.wrap_results import check_pictures_of, describe_wrapped
    from symmetries.analysis.wrapping import wrap_model
    from symmetries.cli.runs import begin

    run = begin("wrap", output.folder("wrap", reference), machine, output, preset)
    work = partial(
        wrap_model,
        model,
        reference,
        group,
        run.session(reading),
        views=views,
        range=range,
        limit=limit,
        held_out=held_out,
        output=output_kind,
        inputs=inputs,
        preprocessing=make_preprocessing(normalize, channels),
        fill=fill,
        trust=trust,
    )
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        work()
        return
    with run.folder() as into:
        found = work()
        with progress_bar("report", total=3, quiet=run.quiet) as advance:
            files = export_checked(found.module, into, check_pictures_of(found))
            advance("files")
            result = describe_wrapped(found, model, files, run.info)
            result.save(into / "wrap.json")
            advance("numbers")
            result.to_html(into / "report.html")
            advance("page")
    names = (*(file.name for file in result.files), "wrap.json", "report.html")
    run.show(result, table(result), names, result.warnings)


def table(result: "WrapResult") -> Table:
    """Return the table that the command prints."""
    from symmetries.report.wrap_report import HEADER, rows_of, rule_words

    shown = plain_table(HEADER[:1], HEADER[1:], rows_of(result))
    shown.caption, shown.caption_justify = rule_words(result), "left"
    return shown
