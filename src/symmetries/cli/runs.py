"""What every run records about itself and its data."""

import platform
from datetime import UTC, datetime

import numpy as np
import torch

from symmetries import __version__
from symmetries.checks import invalid
from symmetries.data import ImageSet
from symmetries.results import DataSummary, RunInfo


def choose_device(name: str) -> torch.device:
    """The device that ``--device`` names; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise invalid("device", "a device of this machine", repr(name), "use cpu") from error
    return device


def summary(images: ImageSet) -> DataSummary:
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


def run_info(command: str, seed: int, device: torch.device, seconds: float) -> RunInfo:
    """What a result says about how it came about."""
    return RunInfo(
        command=command,
        seed=seed,
        device=device_name(device),
        seconds=round(seconds, 3),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={
            "symmetries": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
    )


def device_name(device: torch.device) -> str:
    """A device in words: "cpu" or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
