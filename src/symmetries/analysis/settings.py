"""Settings that all commands and functions share: device, preset, seed, data and provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from symmetries._validation.checks import as_device, check_choice
from symmetries.analysis.inputs import Reading, Say
from symmetries.analysis.provenance import Call, Info

PRESETS = ("quick", "default", "paper")


def choose_preset(name: str | None, device: torch.device) -> str:
    """Return the named preset; without a name, "quick" on a CPU and "default" on a GPU."""
    if name is None:
        return "quick" if device.type == "cpu" else "default"
    check_choice(name, PRESETS, "preset")
    return name


def choose_device(name: str | torch.device) -> torch.device:
    """Return the named device; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return as_device(name)


@dataclass(frozen=True)
class Session:
    """One call of a function, or one run of a command.

    Args:
        seed: random seed.
        place: the device.
        preset: "quick", "default" or "paper".
        info: gives what is recorded of the run.
        progress: whether progress bars are shown.
        say: prints a line; None for calls of a function.
        reading: how named data is read.
        training: options of every training, such as ``out``, ``resume`` and ``precision``.
    """

    seed: int
    place: torch.device
    preset: str
    info: Info
    progress: bool = True
    say: Say | None = None
    reading: Reading = field(default_factory=Reading)
    training: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_call(
        cls,
        name: str,
        arguments: Mapping[str, object],
        seed: int,
        device: str | torch.device,
        preset: str | None = None,
        progress: bool = True,
        training: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the session of a call of a function, whose name and arguments are recorded."""
        call, place = Call(name, **arguments), choose_device(device)
        options = {"device": str(device), "progress": progress, **(training or {})}
        return cls(
            seed,
            place,
            choose_preset(preset, place),
            lambda: call.info(seed, place),
            progress,
            training=options,
        )

    @property
    def precision(self) -> str:
        """Precision of the computation."""
        return str(self.training.get("precision", "32-true"))
