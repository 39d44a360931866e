"""Choice of the device and the preset, shared by all commands and functions."""

import torch

from symmetries._validation.checks import check_choice, invalid

PRESETS = ("quick", "default", "paper")


def choose_preset(name: str | None, device: torch.device) -> str:
    """The preset by its name; without one, "quick" on a CPU and "default" on anything faster."""
    if name is None:
        return "quick" if device.type == "cpu" else "default"
    check_choice(name, PRESETS, "preset")
    return name


def choose_device(name: str) -> torch.device:
    """The device by its name; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise invalid("device", "a device of this machine", repr(name), "use cpu") from error
    return device
