"""Options that commands share, alone and in bundles.

A command takes a bundle as one parameter, ``training: Training``; :func:`unbundled` gives typer the
options in it one by one. So each option is written once, with its name, help and default.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A data set by name (symmetries data list), a file, or a folder."
    ),
]


def group_or_file(text: str | None) -> str | None:
    """The name of a group; the file of a learned one is read, and its group written as text."""
    if text is None or not text.endswith(".json"):
        return text
    from symmetries.analysis.lie_generators import load_group
    from symmetries.groups.names import group_name

    return group_name(load_group(text, pictures=True))


GroupName = Annotated[
    str,
    typer.Option(
        "--group",
        help="A group, or a comma-separated list: rotation,translation; or a generators.json.",
        callback=group_or_file,
    ),
]
Fill = Annotated[
    float | None,
    typer.Option(
        "--fill", min=0, max=1, help="Background value from 0 to 1; else found at the borders."
    ),
]
DATA, RESULT, RUN = "Reading DATA", "Result", "Run"  # panels of --help
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Where data files lie; else $SYMMETRIES_DATA, else a cache.",
        rich_help_panel=DATA,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="No progress bar and no table.", rich_help_panel=RESULT)
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RESULT)
]
Seed = Annotated[
    int, typer.Option("--seed", help="Seed of everything random.", min=0, rich_help_panel=RUN)
]
Device = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=RUN)
]


@dataclasses.dataclass(frozen=True)
class Reading:
    """How DATA is read."""

    folder: Folder = None
    resize: Annotated[
        str | None,
        typer.Option(
            "--resize",
            metavar="SIZE",
            help="Resize images: 32, or 48x32 (width x height).",
            rich_help_panel=DATA,
        ),
    ] = None
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out pictures that cannot be read, and say which.",
            rich_help_panel=DATA,
        ),
    ] = False

    def words(self) -> list[str]:
        """The options that give the same again."""
        return given(folder=self.folder, resize=self.resize, skip_bad=self.skip_bad)


@dataclasses.dataclass(frozen=True)
class Output:
    """Where results go, and what is shown of them."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder to write to. [default: out/COMMAND-DATA]",
            show_default=False,
            rich_help_panel=RESULT,
        ),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Write into a folder that exists.", rich_help_panel=RESULT
        ),
    ] = False
    quiet: Quiet = False
    json: Json = False

    def folder(self, command: str, data: str) -> Path:
        """The folder: as given, or named after the command and its data."""
        return self.out or Path("out") / f"{command}-{_stem(data)}"


def _stem(data: str) -> str:
    """What to call data in the name of a folder."""
    try:
        stem = Path(data).expanduser().resolve().stem
    except (OSError, RuntimeError, ValueError):  # no path: what reads it says so
        stem = ""
    return stem[:60] or "data"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where and how numbers are computed."""

    device: Device = "auto"
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="32-true, 64-true, bf16-true or bf16-mixed.",
            rich_help_panel=RUN,
        ),
    ] = "32-true"
    devices: Annotated[
        int,
        typer.Option("--devices", help="Processes per node.", min=1, rich_help_panel=RUN),
    ] = 1
    nodes: Annotated[
        int, typer.Option("--nodes", help="Number of nodes.", min=1, rich_help_panel=RUN)
    ] = 1
    seed: Seed = 0
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with a run that was interrupted.", rich_help_panel=RUN
        ),
    ] = False

    def words(self) -> list[str]:
        """The options that give the same again, without those that have their usual value."""
        usual = {"device": "auto", "precision": "32-true", "devices": 1, "nodes": 1}
        differing = {
            name: getattr(self, name)
            for name, value in usual.items()
            if getattr(self, name) != value
        }
        return given(seed=self.seed, **differing)


Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="quick, default or paper. Without it: default on a GPU, quick on a CPU.",
        show_default=False,
    ),
]

Command = TypeVar("Command", bound=Callable[..., None])


def given(**values: object) -> list[str]:
    """Options as words: without those that are None or False.

    Example:
        >>> given(seed=1, skip_bad=True, resize=None)
        ['--seed', '1', '--skip-bad']
    """
    words = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def unbundled(command: Command) -> Command:
    """The command with every bundle in its parameters replaced by the options in it."""
    signature = inspect.signature(command)
    bundles: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    parameters = []
    for name, parameter in signature.parameters.items():
        if name not in bundles:
            parameters.append(parameter)
            continue
        for field in dataclasses.fields(bundles[name]):
            parameters.append(
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=field.type,
                )
            )

    @functools.wraps(command)
    def flat(**options: Any) -> None:  # noqa: ANN401 - what typer gives
        for name, kind in bundles.items():
            fields = [field.name for field in dataclasses.fields(kind)]
            options[name] = kind(**{field: options.pop(field) for field in fields})
        command(**options)

    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return flat  # type: ignore[return-value]
