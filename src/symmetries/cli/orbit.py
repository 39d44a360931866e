"""``symmetries orbit``: images along the orbits of a group, as a page."""

from typing import TYPE_CHECKING

from rich.table import Table

from symmetries.cli import options
from symmetries.cli.shown import escape, plain_table

if TYPE_CHECKING:
    from symmetries.results import OrbitResult


@options.command
def orbit(
    data: options.Data,
    *,
    group: options.GroupName = "affine",
    fill: options.Fill = None,
    output: options.Output,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    reading: options.Reading,
) -> None:
    """Draw the orbits of images under a group, and how much each transformation changes them.

    Writes orbit.json (the numbers) and report.html (a page to look at).

    [dim]Example:[/] symmetries orbit digits --group rotation,translation --out out/digits
    """
    from symmetries.analysis.orbits import describe_orbits
    from symmetries.cli.runs import begin

    machine = options.Machine(device=device, seed=seed)
    run = begin("orbit", output.folder("orbit", data), machine, output)
    with run.folder() as into:
        result = describe_orbits(data, group, fill, run.session(reading))
        result.save(into / "orbit.json")
        result.to_html(into / "report.html")
    run.show(result, _table(result), ("orbit.json", "report.html"))


def _table(result: "OrbitResult") -> Table:
    from symmetries.report.orbit_report import reach_text

    rows = [(escape(curve.name), reach_text(curve)) for curve in result.transformations]
    return plain_table(("transformation",), ("changes less than a neighbour differs",), rows)
