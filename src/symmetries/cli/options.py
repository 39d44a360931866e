"""Options that several commands share, alone and in bundles.

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
    """Return the name of a group; a generators.json is read, and its group returned as text."""
    if text is None or not text.endswith(".json"):
        return text
    from symmetries.analysis.lie_generators import load_group
    from symmetries.groups.names import group_name

    return group_name(load_group(text, pictures=True))


GroupName = Annotated[
    str,
    typer.Option(
        "--group",
        help="A group or a comma-separated list of groups, such as rotation,translation; or the "
        "generators.json of symmetries generators.",
        callback=group_or_file,
    ),
]
Fill = Annotated[
    float | None,
    typer.Option(
        "--fill",
        min=0,
        max=1,
        help="Background value from 0 to 1. By default it is estimated from the image borders.",
    ),
]
DATA, RESULT, RUN = "Reading DATA", "Result", "Run"  # panels of --help
Normalize = Annotated[
    str | None,
    typer.Option(
        "--normalize",
        metavar="MEAN/STD",
        help="Normalisation of the model's inputs: imagenet, or 0.5,0.5,0.5/0.25,0.25,0.25.",
        rich_help_panel=DATA,
    ),
]
Channels = Annotated[
    str | None,
    typer.Option(
        "--channels",
        help="Colour channels that the model expects: rgb or bgr. Grey images get three.",
        rich_help_panel=DATA,
    ),
]
OtherInputs = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="NAME=NUMBER,...",
        help="Other inputs of an ONNX file that has several: scale=1,sr=16000.",
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load .pt2 and TorchScript files, which can run code.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        help="Folder of the data files. By default $SYMMETRIES_DATA, or a cache folder.",
        rich_help_panel=DATA,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", help="Show neither a progress bar nor a table.", rich_help_panel=RESULT
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RESULT)
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.", min=0, rich_help_panel=RUN)]
Device = Annotated[
    str,
    typer.Option(
        "--device", help="Device: auto, cpu, cuda, cuda:1, and so on.", rich_help_panel=RUN
    ),
]


@dataclasses.dataclass(frozen=True)
class Reading:
    """Options for reading DATA."""

    folder: Folder = None
    resize: Annotated[
        str | None,
        typer.Option(
            "--resize",
            metavar="SIZE",
            help="Resize the images to this size: 32, or 48x32 (width x height).",
            rich_help_panel=DATA,
        ),
    ] = None
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Skip pictures that cannot be read, and list them.",
            rich_help_panel=DATA,
        ),
    ] = False

    def words(self) -> list[str]:
        """The command-line words that repeat these options."""
        return given(folder=self.folder, resize=self.resize, skip_bad=self.skip_bad)


@dataclasses.dataclass(frozen=True)
class Output:
    """Options for the output folder and for what is printed."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Output folder. By default out/COMMAND-DATA.",
            show_default=False,
            rich_help_panel=RESULT,
        ),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the results in an output folder that exists already.",
            rich_help_panel=RESULT,
        ),
    ] = False
    quiet: Quiet = False
    json: Json = False

    def folder(self, command: str, data: str) -> Path:
        """Return the output folder: the given one, or one named after the command and its data."""
        return self.out or Path("out") / f"{command}-{_stem(data)}"


def _stem(data: str) -> str:
    """Short name of the data, for the default output folder."""
    try:
        stem = Path(data).expanduser().resolve().stem
    except (OSError, RuntimeError, ValueError):  # no path: what reads it says so
        stem = ""
    return stem[:60] or "data"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Options for the device, the precision and the run."""

    device: Device = "auto"
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="Precision: 32-true, 64-true, bf16-true or bf16-mixed.",
            rich_help_panel=RUN,
        ),
    ] = "32-true"
    devices: Annotated[
        int,
        typer.Option("--devices", help="Number of processes per node.", min=1, rich_help_panel=RUN),
    ] = 1
    nodes: Annotated[
        int, typer.Option("--nodes", help="Number of nodes.", min=1, rich_help_panel=RUN)
    ] = 1
    seed: Seed = 0
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an interrupted run.", rich_help_panel=RUN),
    ] = False

    def words(self) -> list[str]:
        """The command-line words that repeat these options, without those at their default."""
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
        help="Preset: quick, default or paper. If it is not given, default on a GPU and quick on a "
        "CPU.",
        show_default=False,
    ),
]

Command = TypeVar("Command", bound=Callable[..., None])


def given(**values: object) -> list[str]:
    """Return options as command-line words, without those that are None or False.

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
    """Return the command with every bundle among its parameters replaced by its options."""
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
