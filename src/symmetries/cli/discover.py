"""``symmetries discover``: which transformations occur in data, and how much."""

from functools import partial
from typing import TYPE_CHECKING

from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape

if TYPE_CHECKING:
    from symmetries.results import SymmetryResult

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
    from symmetries.analysis.discovery import describe_symmetries, train_symmetry_model
    from symmetries.analysis.progress import progress_bar
    from symmetries.cli.inputs import reading_arguments
    from symmetries.cli.runs import begin

    words = [data, *options.given(group=group, fill=fill), *reading.words()]
    run = begin("discover", words, output.folder("discover", data), machine, output, preset)

    train = partial(
        train_symmetry_model,
        data,
        group,
        run.preset,
        fill=fill,
        seed=run.seed,
        say=run.say,
        reading=reading_arguments(reading),
        **run.training(),
    )
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        train()
        return
    with run.folder() as into:
        images, model, histories = train()
        with progress_bar("report", total=3, quiet=run.quiet) as advance:
            model.save(into / "model")
            advance("model")
            result = describe_symmetries(images, model, histories, run.info())
            result.save(into / "symmetries.json")
            advance("numbers")
            result.to_html(into / "report.html")
            advance("page")
    run.show(result, table(result), ("symmetries.json", "report.html", "model"))


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
