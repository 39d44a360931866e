"""``symmetries prescribe``: how to augment labelled pictures, and what that should bring."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.shown import escape, plain_table

if TYPE_CHECKING:
    from symmetries.results import PrescribeResult


@options.command
def prescribe(
    data: options.Data,
    *,
    model: Annotated[str | None, typer.Option(metavar="MODEL")] = None,
    discovered: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    preset: Annotated[str | None, typer.Option(show_default=False)] = None,
    fill: options.Fill = None,
    trust: options.Trust = False,
    output: options.Output,
    device: options.Device = "auto",
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Find out how to augment labelled pictures: with which moves, how far, for which class.

    Writes prescribe.json (moves, limits by class, predicted gain), report.html (pictures at the
    edges of what is allowed) and augment_LIBRARY.py for symmetries, torchvision, albumentations and
    kornia.

    [dim]Example:[/] symmetries prescribe digits --out out/augmentation

    Options:
        model: A classifier, in any form that symmetries audit takes, whose accuracy along the
            moves is reported.
        discovered: The symmetries.json of symmetries discover. Motions as wide as those that occur
            in the data are then tried, too, and limits of turns count from them.
        preset: quick (convolutional networks) or default (residual ones), 800 steps each, with
            many labels up to 3,200. If it is not given, default on a GPU and quick on a CPU.
    """
    from symmetries.analysis.prescribing import prescription
    from symmetries.cli.runs import begin

    machine = options.Machine(seed=seed, device=device)
    folder = output.folder("prescribe", data)
    run = begin("prescribe", folder, machine, output, preset)
    with run.folder() as into:
        result = prescription(data, model, discovered, fill, trust, run.session(reading))
        result.save(into / "prescribe.json")
        result.to_html(into / "report.html")
        names = [f"augment_{library}.py" for library in result.code]
        for name, text in zip(names, result.code.values(), strict=True):
            (into / name).write_text(text)
    run.show(result, table(result), ("prescribe.json", "report.html", *names), result.warnings)


def table(result: "PrescribeResult") -> Table:
    """Return the table that the command prints."""
    from symmetries.report.prescribe_report import rows_of
    from symmetries.report.wrap_report import points

    rows = (tuple(map(escape, row)) for row in rows_of(result))
    shown = plain_table(("augment with", "range", "but"), rows=rows)
    shown.caption = f"Predicted gain {points(result.gain)}; moved as prescribed "
    shown.caption += f"{points(result.robustness)}."
    shown.caption_justify = "left"
    return shown
