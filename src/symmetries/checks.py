"""Checks of arguments: every error names the argument, what was expected, what came, what to do.

Shapes are checked everywhere (they are known without waiting for a device); values only where
data enters the library, as looking at a value makes a GPU wait.
"""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor


def invalid(name: str, expected: str, got: object, remedy: str) -> ValueError:
    """The library's one form of error message, to be raised by the caller.

    Example:
        >>> str(invalid("angle", "a number in [-pi, pi]", 7.0, "give radians, not degrees"))
        'angle: expected a number in [-pi, pi], got 7.0; give radians, not degrees'
    """
    return ValueError(f"{name}: expected {expected}, got {got}; {remedy}")


def check_choice(value: object, choices: Collection[str], name: str) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        options = ", ".join(repr(choice) for choice in sorted(choices))
        raise invalid(name, f"one of {options}", repr(value), "choose one of these")


def check_tensors(**values: object) -> None:
    """Raise unless all are tensors, naming the first that is not.

    Example:
        >>> check_tensors(logits=torch.zeros(2), y=[1, 2])
        Traceback (most recent call last):
        TypeError: y: expected a torch.Tensor, got list; use torch.as_tensor(...)
    """
    for name, value in values.items():
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise TypeError(str(invalid(name, "a torch.Tensor", kind, "use torch.as_tensor(...)")))


def check_images(images: Tensor, name: str = "images") -> None:
    """Raise unless ``images`` is a non-empty floating-point batch of shape (N, C, H, W)."""
    check_tensors(**{name: images})
    if images.ndim != 4:
        remedy = "add a channel axis: images[:, None]" if images.ndim == 3 else "reshape it"
        raise invalid(name, "shape (N, C, H, W)", f"shape {tuple(images.shape)}", remedy)
    if not images.is_floating_point():
        raise invalid(name, "a floating-point dtype", images.dtype, "use images.float() / 255")
    if 0 in images.shape[1:]:
        raise invalid(name, "no empty axis", f"shape {tuple(images.shape)}", "check the loader")


def check_image_shape(
    images: Tensor,
    shape: Sequence[int],
    name: str = "images",
    remedy: str = "resize them, or make a model for this size",
) -> None:
    """Raise unless ``images`` is a batch (N, C, H, W) of images of shape (C, H, W)."""
    check_images(images, name)
    if tuple(images.shape[1:]) != tuple(shape):
        expected = f"images of shape (N, {', '.join(map(str, shape))})"
        raise invalid(name, expected, f"shape {tuple(images.shape)}", remedy)


def check_finite(values: Tensor, name: str) -> None:
    """Raise if ``values`` has a NaN or an infinity. Waits for the device: for entry points only."""
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        total = values.numel()
        remedy = "clean the data, or mask it before it enters"
        raise invalid(name, "finite values", f"{bad} of {total} NaN or infinite", remedy)
