"""What every run records about itself and its data."""

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from symmetries import __version__
from symmetries.results import DataSummary, RunInfo

if TYPE_CHECKING:
    import torch

    from symmetries.data import ImageSet

PRESETS = ("quick", "default", "paper")


@dataclass(frozen=True)
class Training:
    """The options of every command that trains."""

    device: str
    precision: str
    devices: int
    nodes: int
    seed: int
    preset: str
    progress: bool

    def options(self) -> list[str]:
        """The options that give the same run again, without those that have their usual value."""
        given = ["--seed", str(self.seed)]
        for name, usual in (("device", "auto"), ("precision", "32-true")):
            given += [] if getattr(self, name) == usual else [f"--{name}", getattr(self, name)]
        for name in ("devices", "nodes"):
            given += [] if getattr(self, name) == 1 else [f"--{name}", str(getattr(self, name))]
        return given


def command_line(name: str, given: Sequence[str]) -> str:
    """A command as it is typed.

    Example:
        >>> command_line("orbit", ["my digits", "--seed", "1"])
        "symmetries orbit 'my digits' --seed 1"
    """
    return shlex.join(["symmetries", name, *given])


def say_written(console: Console, out: Path, names: Sequence[str]) -> None:
    """Name what was written."""
    for name in names:
        console.print(f"wrote [bold]{escape(str(out / name))}[/]", soft_wrap=True)


def choose_preset(name: str | None, device: "torch.device") -> str:
    """The preset that ``--preset`` names; without it, what is right for the device."""
    from symmetries.checks import check_choice

    if name is None:
        return "quick" if device.type == "cpu" else "default"
    check_choice(name, PRESETS, "preset")
    return name


def choose_device(name: str) -> "torch.device":
    """The device that ``--device`` names; "auto" is a GPU if there is one."""
    import torch

    from symmetries.checks import invalid

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise invalid("device", "a device of this machine", repr(name), "use cpu") from error
    return device


def summary(images: "ImageSet") -> DataSummary:
    """What a result says about its data."""
    _, channels, height, width = images.images.shape
    names = images.class_names or tuple(str(label) for label in range(images.classes))
    return DataSummary(
        name=images.name,
        count=len(images),
        channels=channels,
        height=height,
        width=width,
        classes=names,
    )


def run_info(command: str, seed: int, device: "torch.device", seconds: float) -> RunInfo:
    """What a result says about how it came about."""
    import numpy as np
    import torch

    return RunInfo(
        command=command,
        seed=seed,
        device=device_name(device),
        time=round(seconds, 3),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={
            "symmetries": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
    )


def device_name(device: "torch.device") -> str:
    """A device in words: "cpu" or the name of the GPU."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
