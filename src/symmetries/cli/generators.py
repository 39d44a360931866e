"""``symmetries generators``: symmetries of tables, networks, trajectories and pictures."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from symmetries.cli import options
from symmetries.cli.shown import escape, plain_table

if TYPE_CHECKING:
    from symmetries.results import GeneratorResult

COMPARED = 256  # rows on which an ONNX file is compared with its conversion


@options.command
def generators(
    data: str,
    *,
    target: str | None = None,
    model: str | None = None,
    fields: str = "affine",
    law: str | None = None,
    epsilon: float | None = None,
    level: float = 0.95,
    degree: Annotated[int | None, typer.Option(min=1)] = None,
    time_step: float | None = None,
    vectors: Annotated[int, typer.Option(min=1)] = 1,
    output: options.Output,
    seed: options.Seed = 0,
) -> None:
    """Find the continuous symmetries of a function of vectors, name them, say how sure that is.

    Writes generators.json (the numbers) and report.html (a page to look at).

    [dim]Example:[/] symmetries generators table.csv --target energy --out out/energy

    Options:
        data: An .npz file (x and y, or trajectories of shape N x T x d), a .csv file, or
            pictures: the name of a data set, a folder or a file.
        target: Columns of a .csv file that are outputs, with commas.
        model: A function of x instead of y: module:callable or .onnx.
        fields: Family that is searched: affine, linear, quadratic or cubic; for pictures fourier
            or colour, too.
        law: What a symmetry leaves as it is: invariant, equivariant, dynamics or density. By
            default it follows from the data.
        epsilon: Largest defect of a symmetry. By default 0.005 for models, 0.01 for fits and 0.1
            for pictures.
        level: Confidence level of all that is said.
        degree: Degree of the polynomials that are fitted. By default it is chosen on held-out data.
        time_step: Time between two states of a trajectory.
        vectors: Number of vectors that stand side by side in a row, and that one field moves
            together.
    """
    import torch

    from symmetries.analysis.lie_generators import describe_generators
    from symmetries.analysis.picture_generators import (
        describe_picture_generators,
        refuse_table_options,
    )
    from symmetries.analysis.stored_models import load_function
    from symmetries.analysis.tables import is_table, read_table
    from symmetries.cli.runs import begin
    from symmetries.data import load

    machine = options.Machine(seed=seed)
    run = begin("generators", output.folder("generators", data), machine, output)
    run = replace(run, place=torch.device("cpu"))  # small matrices in float64
    with run.folder() as into:
        names = [name.strip() for name in (target or "").split(",") if name.strip()]
        if is_table(data):
            table = read_table(data, target=names, time_step=time_step)
            some = table.x[:: -(-len(table.x) // COMPARED)]  # spread over the table
            function = None if model is None else load_function(model, some)
            result = describe_generators(
                table, function, fields, law, epsilon, level, degree, vectors, run.session()
            )
        else:
            refuse_table_options(target=target, law=law, degree=degree, time_step=time_step)
            images = load(data)
            spread = images.images[:: -(-len(images) // COMPARED)].double()
            function = None if model is None else load_function(model, spread)
            result = describe_picture_generators(
                images, function, fields, epsilon, level, run.session()
            )
        result.save(into / "generators.json")
        result.to_html(into / "report.html")
    run.show(result, _table(result), ("generators.json", "report.html"))


def _table(result: "GeneratorResult") -> Table:
    from symmetries.report.generator_report import defect_text, dimension_text, interval_text

    title = f"{result.answer} (dimension {dimension_text(result)})"
    rows = [
        (escape(part.text), defect_text(part.defect), interval_text(part.low, part.high))
        for part in result.generators
    ]
    table = plain_table(("generator",), ("defect", "interval"), rows)
    table.title, table.title_justify, table.title_style = escape(title), "left", "bold"
    table.caption, table.caption_justify = _caption(result), "left"
    first = len(result.generators)
    following = () if result.reason else result.spectrum[first : first + 1]
    for next_one in following:
        words = f"next field: {next_one.verdict}"
        interval = interval_text(next_one.low, next_one.high)
        table.add_row(words, defect_text(next_one.defect), interval, style="dim")
    return table


def _caption(result: "GeneratorResult") -> str | None:
    from symmetries.report.generator_report import unseen_text

    if not result.spectrum or result.reason:
        return None
    text = (
        "Defect: change along a field, relative to random directions; a symmetry has at most "
        f"{result.epsilon:g}."
    )
    return f"{text} {unseen_text(result)}" if result.dimension[0] else text
