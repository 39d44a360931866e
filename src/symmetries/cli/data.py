"""``symmetries data``: list, describe and fetch data sets."""

import typer
from rich.console import Console

from symmetries.cli import options
from symmetries.cli.shown import check_stdout, escape, plain_table, write_json

data = typer.Typer(no_args_is_help=True, help="List, describe and fetch data sets.")


@data.command("list")
def list_sets(json: options.Json = False) -> None:
    """Show the data sets that have a name.

    [dim]Example:[/] symmetries data list
    """
    from symmetries.data import NAMES

    if json:
        write_json(dict(NAMES))
        return
    check_stdout()
    table = plain_table(("name", "what it is"))
    for name, meaning in NAMES.items():
        table.add_row(escape(name), escape(meaning))
    Console(emoji=False).print(table)


@data.command("describe")
@options.command
def describe(data: options.Data, *, json: options.Json = False, reading: options.Reading) -> None:
    """Show what is in a data set: sizes, classes, pixel values.

    [dim]Example:[/] symmetries data describe digits
    """
    from symmetries.analysis.inputs import read_images
    from symmetries.analysis.provenance import data_summary

    images = read_images(data, **reading.arguments())
    found = data_summary(images)
    facts = {
        **found.model_dump(exclude={"classes"}),
        "classes": len(found.classes),
        "mean": round(float(images.images.mean()), 4),
        "std": round(float(images.images.std()), 4),
    }
    if json:
        write_json(facts)
        return
    check_stdout()
    console = Console(emoji=False)
    table = plain_table(("", ""))
    for name, value in facts.items():
        table.add_row(name, escape(f"{value:,}" if isinstance(value, int) else str(value)))
    if images.labels is None:
        table.add_row("labels", "none")
    console.print(table)
    if images.labels is not None:
        counts = images.labels.bincount(minlength=len(found.classes)).tolist()
        table = plain_table(("class", "images"))
        for name, count in zip(found.classes, counts, strict=True):
            table.add_row(escape(name), f"{count:,}")
        console.print(table)


@data.command("fetch")
@options.command
def fetch(name: str, *, folder: options.Folder = None) -> None:
    """Fetch the files of a public data set, checked by SHA-256.

    [dim]Example:[/] symmetries data fetch mnist --folder data

    Options:
        name: mnist, fashion-mnist, cifar10 or cifar100.
    """
    from symmetries.data import download

    for path in download(name, folder):
        Console(emoji=False).print(f"have [bold]{escape(str(path))}[/]", soft_wrap=True)
