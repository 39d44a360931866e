"""``symmetries fit``: a classifier that learns how much invariance its task has."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape, plain_table

if TYPE_CHECKING:
    from symmetries.results import FitResult


@options.command
def fit(
    data: options.Data,
    *,
    method: str = "invariant",
    group: Annotated[
        str | None, typer.Option(show_default=False, callback=options.group_or_file)
    ] = None,
    half_width: float | None = None,
    network: Annotated[str | None, typer.Option(show_default=False)] = None,
    preset: options.Preset = None,
    fill: options.Fill = None,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Train a classifier that learns from the training set alone how invariant it should be.

    Writes metrics.json (test accuracy, evidence, half-widths), report.html and model/.

    [dim]Example:[/] symmetries fit digits --method invariant --group rotation --out out/fit

    Options:
        method: invariant: learns how far each transformation may go. plain: no invariance.
            augmented: trained on images transformed by up to --half-width. relaxed: a
            convolutional network whose layers learn how equivariant to be.
        group: A group, such as rotation,translation or c4. By default rotation, or c4 for the
            method relaxed.
        half_width: Of the augmentation, as a share of each range, from 0 to 1. By default 1.
        network: A network to average over transformations: cnn, resnet, or a model of torchvision
            or timm. By default a shallow one with random features.
    """
    from symmetries.analysis.classifiers import check_method, default_group
    from symmetries.analysis.fits import describe_classifier, read_and_train
    from symmetries.analysis.progress import progress_bar
    from symmetries.cli.runs import begin

    check_method(method, half_width, network)
    chosen = group or default_group(method)
    run = begin("fit", output.folder("fit", data), machine, output, preset)

    session = run.session(reading)
    train = partial(read_and_train, data, method, chosen, session, fill, half_width, network)
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        train()
        return
    with run.folder() as into:
        found = train()
        classifier = found[2]
        with progress_bar("report", total=3, quiet=run.quiet) as advance:
            result = describe_classifier(*found, method, run.place, run.info())
            result.save(into / "metrics.json")
            advance("numbers")
            classifier.save(into / "model")
            advance("model")
            result.to_html(into / "report.html")
            advance("page")
    run.show(result, table(result), ("metrics.json", "report.html", "model"), result.warnings)


def table(result: "FitResult") -> Table:
    """Return the table that the command prints."""
    from symmetries.report.fit_words import answer_text

    low, high = (100 * end for end in result.accuracy_interval)
    shown = plain_table(())
    shown.add_row("accuracy", f"{100 * result.accuracy:.1f} %  ({low:.1f} to {high:.1f})")
    if result.plain_accuracy is not None:
        shown.add_row("  without transformations", f"{100 * result.plain_accuracy:.1f} %")
    if result.elbo is not None:
        name = "ELBO" if result.network is None else "log evidence"
        shown.add_row(f"{name} per example", f"{result.elbo:.3f}")
    for row in result.relaxation:
        shown.add_row(f"{escape(row.layer)} relaxed in {row.coordinate}", f"{row.value:.3f}")
    for part in result.invariance if result.method == "invariant" else ():
        text = answer_text(part)
        shown.add_row(f"invariant to {escape(part.name)}", text)
    return shown
