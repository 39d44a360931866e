"""``symmetries discover``: which transformations occur in data, and how much."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.resuming import is_helper
from symmetries.cli.shown import escape, plain_table

if TYPE_CHECKING:
    from symmetries.results import SymmetryResult

VERDICTS = {"absent": "dim", "partial": "green", "full": "bold green", "cannot be told": "yellow"}


@options.command
def discover(
    data: options.Data,
    *,
    group: options.GroupName = "affine",
    method: str = "orbit",
    check: Annotated[bool, typer.Option("--check/--no-check")] = True,
    preset: options.Preset = None,
    fill: options.Fill = None,
    output: options.Output,
    machine: options.Machine,
    reading: options.Reading,
) -> None:
    """Find the symmetries of data, without labels: which transformations occur, and how much.

    Writes symmetries.json (the numbers), report.html (a page to look at) and model/ (for
    symmetries augment). Warnings stand at the top of all of them.

    [dim]Example:[/] symmetries discover digits --group rotation,translation --out out/digits

    Options:
        method: orbit: learns the density of poses along the orbit of each picture. two-stage:
            learns prototypes and their transformations, as in the paper.
        check: Plant known transformations and report what is recovered. It doubles the time.
    """
    from symmetries.analysis.discovery import METHODS, search_symmetries
    from symmetries.analysis.progress import progress_bar
    from symmetries.cli.runs import begin

    run = begin("discover", output.folder("discover", data), machine, output, preset)

    session = run.session(reading)
    train = partial(search_symmetries, data, group, session, method, check, fill)
    if is_helper(run.processes):  # another process of the same run: it trains and writes nothing
        train()
        return
    with run.folder() as into:
        found = train()
        with progress_bar("report", total=3, quiet=run.quiet) as advance:
            found.model.save(into / "model")
            advance("reads widths" + " and tests itself" * (check and method == METHODS[0]))
            result = found.describe(run.info)
            result.save(into / "symmetries.json")
            advance("numbers")
            result.to_html(into / "report.html")
            advance("page")
    run.show(result, table(result), ("symmetries.json", "report.html", "model"), result.warnings)


def table(result: "SymmetryResult") -> Table:
    """Return the table that the command prints."""
    from symmetries.report.words import interval_text, remarks, share_text, width_text

    orbit = result.method == "orbit"
    names = ("90 % width", "interval", "pictures used") if orbit else ("90 % width", "noise floor")
    shown = plain_table(("transformation",), names)
    shown.add_column("verdict")
    for part in result.transformations:
        floor = width_text(part.noise_floor, part.unit)
        steps = f", in steps of {360 / part.poses:.3g}°" if part.poses > 1 else ""
        cells = (interval_text(part), share_text(part)) if orbit else (floor,)
        shown.add_row(
            escape(part.name),
            width_text(part.width90, part.unit),
            *cells,
            f"[{VERDICTS[part.verdict]}]{part.verdict}{steps}[/]",
        )
    if found := remarks(result):
        shown.caption, shown.caption_justify = "\n".join(map(escape, found)), "left"
    return shown
