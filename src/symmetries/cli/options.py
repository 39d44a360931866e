"""Options that several commands share, alone and in bundles.

A command takes a bundle as one parameter, ``reading: Reading``; :func:`command` gives typer the
options in it one by one. So each option is written once, with its name, help and default.
"""

import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin

import typer
from typer.models import ArgumentInfo

if TYPE_CHECKING:
    from symmetries.analysis import inputs

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
    """How DATA is read.

    Options:
        resize: Resize the images to this size: 32, or 48x32 (width x height).
        skip_bad: Skip pictures that cannot be read, and list them.
    """

    panel: ClassVar[str] = DATA

    folder: Folder = None
    resize: Annotated[str | None, typer.Option(metavar="SIZE")] = None
    skip_bad: bool = False

    def arguments(self) -> "inputs.Reading":
        """Return the arguments of :func:`symmetries.analysis.inputs.read_images`."""
        size = None if self.resize is None else parse_size(self.resize)
        return {"folder": self.folder, "size": size, "skip_bad": self.skip_bad}


def parse_size(text: str) -> tuple[int, int]:
    """Return (height, width) from "32" or "48x32" (width x height).

    Example:
        >>> parse_size("32"), parse_size("48x32")
        ((32, 32), (32, 48))
    """
    from symmetries._validation.checks import invalid, short

    found = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", text.strip().lower())
    if found is None or any(part is not None and int(part) == 0 for part in found.groups()):
        raise invalid("--resize", "a size such as 32 or 48x32", short(text), "width x height")
    width = int(found[1])
    return int(found[2] or width), width


@dataclasses.dataclass(frozen=True)
class Output:
    """The output folder, and what is printed.

    Options:
        out: Output folder. By default out/COMMAND-DATA.
        overwrite: Replace the results in an output folder that exists already.
    """

    panel: ClassVar[str] = RESULT

    out: Annotated[Path | None, typer.Option(show_default=False)] = None
    overwrite: bool = False
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
    """The device, the precision and the run.

    Options:
        precision: Precision: 32-true, 64-true, bf16-true or bf16-mixed.
        devices: Number of processes per node.
        nodes: Number of nodes.
        resume: Resume an interrupted run.
    """

    panel: ClassVar[str] = RUN

    device: Device = "auto"
    precision: str = "32-true"
    devices: Annotated[int, typer.Option(min=1)] = 1
    nodes: Annotated[int, typer.Option(min=1)] = 1
    seed: Seed = 0
    resume: bool = False


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
_typed: ContextVar[dict[str, list[str]]] = ContextVar("words of the command that runs")


def command(function: Command) -> Command:
    """Return a command for typer, with every bundle among its parameters replaced by its options.

    The help of options stands in the section "Options:" of the docstring, of the command or of the
    bundle. Parameters before ``*`` are arguments, the others options with dashes for underscores.
    """
    signature = inspect.signature(function)
    about, texts = _read_docstring(function)
    bundles: dict[str, Any] = {}
    parameters = []
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if not dataclasses.is_dataclass(kind):
            positional = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            known = _described(name, kind, texts.get(name), positional=positional)
            parameters.append(parameter.replace(annotation=known))
            continue
        bundles[name], inner = kind, _read_docstring(kind)[1]
        panel: str = kind.panel  # type: ignore[union-attr]
        for field in dataclasses.fields(kind):
            known = _described(field.name, field.type, inner.get(field.name), panel)
            only = inspect.Parameter.KEYWORD_ONLY
            one = inspect.Parameter(field.name, only, default=field.default, annotation=known)
            parameters.append(one)

    @functools.wraps(function)
    def flat(**options: Any) -> None:  # noqa: ANN401 - what typer gives
        _typed.set(_words(parameters, options))
        for name, kind in bundles.items():
            fields = [field.name for field in dataclasses.fields(kind)]
            options[name] = kind(**{field: options.pop(field) for field in fields})
        function(**options)

    flat.__doc__ = about
    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return flat  # type: ignore[return-value]


def typed_words() -> dict[str, list[str]]:
    """Return the command-line words of the command that runs, by the names of its options.

    Options at their default have none, except the group and the seed, which a reader looks for.
    """
    return _typed.get()


def _words(
    parameters: Sequence[inspect.Parameter], values: Mapping[str, Any]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for parameter in parameters:
        name, value = parameter.name, values[parameter.name]
        info: Any = get_args(parameter.annotation)[1]
        usual = value == parameter.default and name not in ("group", "seed")
        if usual or value is None:
            found[name] = []
        elif isinstance(info, ArgumentInfo):
            found[name] = [str(value)]
        else:
            yes, _, no = str(info.default).partition("/")
            found[name] = [yes if value else no] if isinstance(value, bool) else [yes, str(value)]
    return found


def _read_docstring(kind: object) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section "Options:", and the text of each option in that."""
    about, _, section = (inspect.getdoc(kind) or "").partition("Options:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return about.strip(), {name: " ".join(text.split()) for name, text in found}


def _described(
    name: str, kind: object, text: str | None, panel: str | None = None, *, positional: bool = False
) -> object:
    """Return the type of a parameter with what typer should know of it."""
    value, *given = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    info = copy.copy(given[0]) if given else (typer.Argument if positional else typer.Option)()
    if isinstance(info, ArgumentInfo):
        info.metavar = info.metavar or name.upper()
    elif info.default is ...:  # the place of its first name
        info.default = "--" + name.replace("_", "-")
    info.help = info.help or text
    info.rich_help_panel = info.rich_help_panel or panel
    return Annotated[value, info]
