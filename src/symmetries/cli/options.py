"""Options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A data set by name (symmetries data list), a file, or a folder."
    ),
]
GroupName = Annotated[
    str,
    typer.Option("--group", help="A group, or a comma-separated list: rotation,translation."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write into a folder that exists.")]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Where data files lie; else $SYMMETRIES_DATA, else a cache."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
