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
Resize = Annotated[
    str | None,
    typer.Option("--resize", metavar="SIZE", help="Resize images: 32, or 48x32 (width x height)."),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out pictures that cannot be read, and say which.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.", min=0)]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
Precision = Annotated[
    str, typer.Option("--precision", help="32-true, 64-true, bf16-true or bf16-mixed.")
]
Devices = Annotated[int, typer.Option("--devices", help="Processes per node.", min=1)]
Nodes = Annotated[int, typer.Option("--nodes", help="Number of nodes.", min=1)]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="quick, default or paper. Without it: default on a GPU, quick on a CPU.",
        show_default=False,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
