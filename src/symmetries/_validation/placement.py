"""Checks that tensors can be combined: equal devices, matching dtypes, shapes that broadcast.

Torch's own errors speak about its functions ("mat1 and mat2 must have the same dtype"). These
checks name the argument and the remedy. They read no values, so nothing synchronises, and
``torch.compile`` removes them.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, check_tensors, invalid

T = TypeVar("T")
OURS = re.compile(r": expected .+, got .+; \S", re.DOTALL)  # matches messages of :func:`invalid`
_NOTHING = nullcontext()
DEVICE_ERRORS = (torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError))


def check_together(**tensors: Tensor) -> None:
    """Raise an error unless all are tensors on the device of the first.

    Example:
        >>> check_together(images=torch.zeros(2), element=torch.zeros(2, device="meta"))
        Traceback (most recent call last):
        ValueError: element: expected a tensor on cpu, like images, got one on meta; use \
element.to(images.device)
    """
    check_tensors(**tensors)
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        if tensor.device != reference.device:
            expected = f"a tensor on {reference.device}, like {first}"
            remedy = f"use {name}.to({first}.device)"
            raise invalid(name, expected, f"one on {tensor.device}", remedy)


def check_like(values: Tensor, weights: Tensor, name: str) -> None:
    """Raise an error unless ``values`` have the dtype and the device of a layer's weights.

    Under autocast torch converts dtypes itself, so they may differ.

    Example:
        >>> check_like(torch.zeros(2).double(), torch.zeros(3), "x")
        Traceback (most recent call last):
        ValueError: x: expected torch.float32 on cpu, like the weights, got torch.float64 on cpu; \
use x.to(torch.float32), or the layer's .double()
    """
    same_device = values.device == weights.device
    if same_device and (values.dtype == weights.dtype or _casts(values.device)):
        return
    expected = f"{weights.dtype} on {weights.device}, like the weights"
    remedy = f"use {name}.to({weights.dtype})"
    remedy += ", or the layer's .double()" if values.dtype == torch.float64 else ""
    if not same_device:
        remedy = f"move both to one device: {name}.to({str(weights.device)!r})"
    raise invalid(name, expected, f"{values.dtype} on {values.device}", remedy)


def check_dtype(values: Tensor, dtype: torch.dtype, name: str) -> None:
    """Raise an error unless ``values`` have the dtype of the model that will take them.

    Example:
        >>> check_dtype(torch.zeros(2).double(), torch.float32, "images")
        Traceback (most recent call last):
        ValueError: images: expected torch.float32, like the model, got torch.float64; use \
images.to(torch.float32)
    """
    if values.dtype != dtype:
        raise invalid(name, f"{dtype}, like the model", values.dtype, f"use {name}.to({dtype})")


def check_same(**tensors: Tensor) -> None:
    """Raise an error unless all are floating-point tensors on one device and of one shape.

    Example:
        >>> check_same(x=torch.zeros(4), y=torch.zeros(3))
        Traceback (most recent call last):
        ValueError: y: expected the shape of x (4,), got (3,); give equal shapes
    """
    check_together(**tensors)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    (first, shape), *others = shapes.items()
    for name in tensors:
        check_floats(tensors[name], name, "...")
    for name, other in others:
        if other != shape:
            raise invalid(name, f"the shape of {first} {shape}", other, "give equal shapes")


def check_broadcast(own: int = 0, /, **tensors: Tensor) -> None:
    """Raise an error unless all are tensors on one device whose shapes broadcast.

    Args:
        own: number of last axes that are not compared.
        tensors: tensors by name.

    Example:
        >>> check_broadcast(i=torch.zeros(4, 1), j=torch.zeros(3))
        >>> check_broadcast(i=torch.zeros(4), j=torch.zeros(3))
        Traceback (most recent call last):
        ValueError: j: expected a shape that broadcasts with i (4,), got (3,); add axes of size 1
    """
    check_together(**tensors)
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        axes = (reversed(t.shape[: t.ndim - own]) for t in (reference, tensor))
        pairs = zip(*axes, strict=False)
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            expected = f"a shape that broadcasts with {first} {tuple(reference.shape)}"
            raise invalid(name, expected, tuple(tensor.shape), "add axes of size 1")


def call_model(model: Callable[[Tensor], T], x: Tensor, name: str = "x") -> T:
    """Return ``model(x)``; if the user's model fails, raise an error that describes its inputs.

    The model's own error is kept as the cause. Errors of these checks, and device errors that are
    unrelated to the inputs, pass unchanged.

    Example:
        >>> call_model(torch.nn.Linear(3, 2), torch.zeros(5, 4))
        Traceback (most recent call last):
        ValueError: x: expected inputs that the model takes, got shape (5, 4), torch.float32 on \
cpu (RuntimeError: mat1 and mat2 shapes cannot be multiplied (5x4 and 3x2)); check size, dtype and \
device against those that the model was made for
    """
    if torch.compiler.is_compiling():
        return model(x)
    try:
        return model(x)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, DEVICE_ERRORS) or OURS.search(str(error)):
            raise
        said = f"{type(error).__name__}: {error}"
        got = f"shape {tuple(x.shape)}, {x.dtype} on {x.device} ({said})"
        remedy = "check size, dtype and device against those that the model was made for"
        raise invalid(name, "inputs that the model takes", got, remedy) from error


def exact_products(tensor: Tensor) -> AbstractContextManager[object]:
    """Disable autocast for products on the tensor's device inside the block.

    For coordinates and group matrices, which eight bits would move by a tenth of a pixel.

    Example:
        >>> ones = torch.ones(2, 2)
        >>> with torch.autocast("cpu", torch.bfloat16), exact_products(ones):
        ...     (ones @ ones).dtype
        torch.float32
    """
    if not torch.compiler.is_compiling() and not torch._C._is_any_autocast_enabled():
        return _NOTHING  # checking the device of small products would cost more than it saves
    if not _casts(tensor.device):
        return _NOTHING
    return torch.autocast(tensor.device.type, enabled=False)


def _casts(device: torch.device) -> bool:
    """Return whether autocast is active on a device."""
    known = torch.amp.is_autocast_available(device.type)
    return known and torch.is_autocast_enabled(device.type)
