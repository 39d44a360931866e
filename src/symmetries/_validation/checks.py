"""Argument checks. Errors name the argument, what was expected, what was given, and the remedy.

Shapes are checked everywhere, because they are known without synchronising with a device. Values
are checked only where data enters the library, because reading a value makes a GPU synchronise.
"""

import math
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

LONGEST = 1000  # largest number of characters of the given value in a message
LARGEST = 10**12  # largest count that is accepted; larger ones are mistakes


def invalid(name: str, expected: str, got: object, remedy: str) -> ValueError:
    """Build the library's standard error, to be raised by the caller.

    Example:
        >>> str(invalid("angle", "a number in [-pi, pi]", 7.0, "give radians, not degrees"))
        'angle: expected a number in [-pi, pi], got 7.0; give radians, not degrees'
    """
    shown = str(got) or "an empty string"
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."
    return ValueError(f"{name}: expected {expected}, got {shown}; {remedy}")


def wrong_type(name: str, expected: str, got: object, remedy: str) -> TypeError:
    """Build the standard error for a value of a wrong type, which the message names.

    Example:
        >>> str(wrong_type("group", "a Group", 3, "try Cyclic(4)"))
        'group: expected a Group, got int; try Cyclic(4)'
    """
    return TypeError(str(invalid(name, expected, type(got).__name__, remedy)))


def check_choice(value: object, choices: Collection[str], name: str) -> None:
    """Raise an error unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(choice) for choice in sorted(choices))
        raise invalid(name, f"one of {options}", short(value), "choose one of these")


def check_tensors(**values: object) -> None:
    """Raise an error unless all are tensors; it names the first that is not.

    Example:
        >>> check_tensors(logits=torch.zeros(2), y=[1, 2])
        Traceback (most recent call last):
        TypeError: y: expected a torch.Tensor, got list; use torch.as_tensor(...)
    """
    for name, value in values.items():
        if not isinstance(value, Tensor):
            numbers = isinstance(value, int | float | list | tuple) or hasattr(value, "dtype")
            remedy = "use torch.as_tensor(...)" if numbers else "give a tensor"
            raise wrong_type(name, "a torch.Tensor", value, remedy)


def check_floats(values: Tensor, name: str, *axes: int | str) -> None:
    """Raise an error unless ``values`` is a floating-point tensor with these last axes.

    Args:
        values: tensor to check.
        name: name of the argument.
        axes: the last axes: a number is a size, a letter any size. A leading "..." allows more.

    Example:
        >>> check_floats(torch.zeros(2, 3), "z", "...", 3)
        >>> check_floats(torch.zeros(2, 4), "z", "N", 3)
        Traceback (most recent call last):
        ValueError: z: expected floats (N, 3), got shape (2, 4), torch.float32; reshape it
    """
    check_tensors(**{name: values})
    sizes = axes[1:] if axes[:1] == ("...",) else axes
    shape = values.shape[values.ndim - len(sizes) :] if len(sizes) < len(axes) else values.shape
    fits = len(shape) == len(sizes) and all(
        isinstance(size, str) or size == given for size, given in zip(sizes, shape, strict=True)
    )
    if not fits or not values.is_floating_point():
        expected = f"floats ({', '.join(map(str, axes))})"
        got = f"shape {tuple(values.shape)}, {values.dtype}"
        raise invalid(name, expected, got, to_floats(values, name, "reshape it"))


def to_floats(values: Tensor, name: str, otherwise: str) -> str:
    """Return the remedy that makes values floating-point, or ``otherwise`` if they already are."""
    if values.is_complex():
        return f"use {name}.real or {name}.abs()"
    return otherwise if values.is_floating_point() else f"use {name}.float()"


def check_some(values: Tensor, name: str) -> None:
    """Raise an error if there are no examples."""
    if len(values) == 0:
        raise invalid(name, "at least one", "none", "check the loader")


def check_classes(labels: Tensor, count: int, name: str = "labels") -> None:
    """Raise an error unless ``labels`` are ``count`` class numbers, int64."""
    check_tensors(**{name: labels})
    if labels.shape != (count,) or labels.dtype != torch.int64:
        got = f"shape {tuple(labels.shape)}, {labels.dtype}"
        remedy = "one for each example" if labels.shape != (count,) else f"use {name}.long()"
        raise invalid(name, f"{count} class numbers, int64", got, remedy)


def check_class_range(labels: Tensor, classes: int, name: str = "labels") -> None:
    """Raise an error unless labels are in 0 .. ``classes`` - 1. Synchronises: for entry points.

    Example:
        >>> check_class_range(torch.tensor([0, 3]), 3)
        Traceback (most recent call last):
        ValueError: labels: expected class numbers from 0 to 2, got 0 to 3; count from 0, and \
check the number of classes
    """
    low, high = (int(end) for end in labels.aminmax()) if labels.numel() else (0, 0)
    if low < 0 or high >= classes:
        remedy = "count from 0, and check the number of classes"
        raise invalid(name, f"class numbers from 0 to {classes - 1}", f"{low} to {high}", remedy)


def check_generator(generator: object, name: str = "generator") -> None:
    """Raise an error unless ``generator`` is a torch.Generator, or None for the global one."""
    if generator is not None and not isinstance(generator, torch.Generator):
        remedy = "try torch.Generator().manual_seed(0)"
        raise wrong_type(name, "a torch.Generator, or None", generator, remedy)


def as_device(device: object, name: str = "device") -> torch.device:
    """Return the torch.device for a name or a torch.device; it must exist on this machine.

    Example:
        >>> as_device("cpu"), as_device(torch.device("cpu"))
        (device(type='cpu'), device(type='cpu'))
    """
    there = ["cpu", *(kind for kind in ("cuda", "mps") if getattr(torch, kind).is_available())]
    remedy = f"this machine has {' and '.join(map(repr, there))}"
    if not isinstance(device, str | torch.device):
        raise wrong_type(name, "the name of a device", device, remedy)
    try:
        made = torch.device(device)
        torch.empty(0, device=made)
    except (RuntimeError, AssertionError, NotImplementedError):  # torch asserts that CUDA exists
        made = torch.device("meta")
    if made.type == "meta":
        raise invalid(name, "a device of this machine", short(str(device)), remedy)
    return made


def as_path(path: object, name: str = "path") -> Path:
    """Return the pathlib.Path for a string or a path.

    Example:
        >>> as_path(3)
        Traceback (most recent call last):
        TypeError: path: expected a path, got int; give a string or a pathlib.Path
    """
    if not isinstance(path, str | Path):
        raise wrong_type(name, "a path", path, "give a string or a pathlib.Path")
    if "\0" in str(path):
        raise invalid(name, "a path", short(path), "a file's name has no zero byte")
    if any(len(os.fsencode(part)) > 255 for part in Path(path).parts):
        raise invalid(name, "a path", short(path), "a file's name has at most 255 bytes")
    return Path(path)


def as_folder(path: object, name: str = "folder") -> Path:
    """Return the path of a folder to write to, which need not exist."""
    folder = as_path(path, name)
    if folder.exists() and not folder.is_dir():
        raise invalid(name, "a folder", f"{str(path)!r}, which is a file", "choose another folder")
    return folder


def check_module(model: object, name: str = "model") -> None:
    """Raise an error unless ``model`` is a torch module."""
    if not isinstance(model, nn.Module):
        raise wrong_type(name, "an nn.Module", model, "give a network")


def check_whole(value: object, name: str, least: int = 1, most: int = LARGEST) -> None:
    """Raise an error unless ``value`` is an int from ``least`` to ``most``.

    Example:
        >>> check_whole(0, "steps")
        Traceback (most recent call last):
        ValueError: steps: expected a whole number of at least 1, got 0; give a larger number
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        remedy = "give a larger number" if whole else "give an int"
        raise invalid(name, f"a whole number of at least {least}", short(value), remedy)
    if value > most:  # type: ignore[operator]
        raise invalid(name, f"a whole number of at most {most}", value, "give a smaller number")


def check_counts(**values: object) -> None:
    """Raise an error unless all are whole numbers of at least 1."""
    for name, value in values.items():
        check_whole(value, name)


def check_pair(value: object, name: str) -> None:
    """Raise an error unless ``value`` is (height, width), whole numbers of at least 1."""
    if not isinstance(value, Sequence) or len(value) != 2:
        raise invalid(name, "(height, width)", short(value), "try (32, 32)")
    for pixels in value:
        check_whole(pixels, name, most=2**15)


def check_number(
    value: object, name: str, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise an error unless ``value`` is a finite number from ``least`` to ``most``.

    Example:
        >>> check_number(2.0, "share", 0, 1)
        Traceback (most recent call last):
        ValueError: share: expected a number from 0 to 1, got 2.0; choose a value in this range
    """
    number = isinstance(value, int | float) and math.isfinite(value)
    if not number or not least <= value <= most:  # type: ignore[operator]
        between = f"a number from {least:g} to {most:g}" if math.isfinite(most) else ""
        above = f"a number of at least {least:g}" if math.isfinite(least) else "a number"
        raise invalid(name, between or above, short(value), _finite(value))


def check_flag(value: object, name: str) -> None:
    """Raise an error unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise invalid(name, "True or False", short(value), "choose one of these")


def check_positive(value: object, name: str) -> None:
    """Raise an error unless ``value`` is a finite number above 0."""
    if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise invalid(name, "a positive number", short(value), _finite(value, "give a larger one"))


def _finite(value: object, otherwise: str = "choose a value in this range") -> str:
    if not isinstance(value, int | float):
        return "give an int or a float"
    return otherwise if math.isfinite(value) else "give a finite one"


def short(value: object) -> str:
    """Return a value as text for a message, shortened if necessary."""
    text = " ".join(repr(value).split())  # arrays have several lines
    return text if len(text) <= 60 else f"{text[:50]}... ({type(value).__name__})"


def check_images(images: Tensor, name: str = "images") -> None:
    """Raise an error unless ``images`` is a non-empty floating-point batch (N, C, H, W)."""
    check_tensors(**{name: images})
    if images.ndim != 4:
        remedy = f"add a channel axis: {name}[:, None]" if images.ndim == 3 else "reshape it"
        raise invalid(name, "shape (N, C, H, W)", f"shape {tuple(images.shape)}", remedy)
    if not images.is_floating_point():
        whole = f"use {name}.float() / 255 if they are bytes, {name}.float() otherwise"
        remedy = to_floats(images, name, "") if images.is_complex() else whole
        raise invalid(name, "a floating-point dtype", images.dtype, remedy)
    if 0 in images.shape[1:]:
        raise invalid(name, "no empty axis", f"shape {tuple(images.shape)}", "check the loader")


def check_chw(shape: object) -> None:
    """Raise an error unless ``shape`` is that of an image, (C, H, W) with sizes of at least 1."""
    three = isinstance(shape, Sequence) and len(shape) == 3
    if not three or not all(isinstance(n, int) and 1 <= n <= LARGEST for n in shape):  # type: ignore[attr-defined]
        expected = "(C, H, W), whole numbers of at least 1"
        raise invalid("shape", expected, short(shape), "give the shape of one image")


def check_image_shape(
    images: Tensor,
    shape: Sequence[int],
    name: str = "images",
    remedy: str = "resize them, or make a model for this size",
) -> None:
    """Raise an error unless ``images`` is a batch (N, C, H, W) of images of shape (C, H, W)."""
    check_images(images, name)
    if tuple(images.shape[1:]) != tuple(shape):
        expected = f"images of shape (N, {', '.join(map(str, shape))})"
        raise invalid(name, expected, f"shape {tuple(images.shape)}", remedy)


def check_held(values: Tensor, name: str) -> None:
    """Raise an error for a tensor that has a shape but no values (device "meta")."""
    if values.is_meta:
        got = "a tensor on meta, which holds none"
        raise invalid(name, "values", got, "create it on a real device")


def check_finite(values: Tensor, name: str) -> None:
    """Raise an error if values are NaN or infinite. Synchronises: for entry points only."""
    check_held(values, name)
    if values.is_floating_point() and bool(torch.isfinite(values.detach().sum())):
        return  # one pass without copies; a sum that overflows is looked at below
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        total = values.numel()
        remedy = "clean the data, or mask it before it enters"
        raise invalid(name, "finite values", f"{bad} of {total} NaN or infinite", remedy)
