"""The ``symmetries`` command line: one file per command, each of which calls the library."""

from typing import Annotated

import typer

from symmetries import __version__
from symmetries.cli.audit import audit
from symmetries.cli.augment import augment
from symmetries.cli.data import data
from symmetries.cli.discover import discover
from symmetries.cli.errors import EXIT_CODES, Commands
from symmetries.cli.fit import fit
from symmetries.cli.generators import generators
from symmetries.cli.orbit import orbit
from symmetries.cli.prescribe import prescribe
from symmetries.cli.reproduce import reproduce
from symmetries.cli.sweep import sweep
from symmetries.cli.watch import watch
from symmetries.cli.wrap import wrap

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    + ".",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"symmetries {__version__}")
        raise typer.Exit


@app.callback()
def symmetries(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (before the command).")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn the symmetries of data, build them into models, measure them, sample from them."""


for command in (
    discover,
    fit,
    audit,
    augment,
    generators,
    orbit,
    prescribe,
    reproduce,
    sweep,
    watch,
    wrap,
):
    app.command()(command)
app.add_typer(data, name="data")
