"""Where kernels may be used."""

import importlib.util
import math
import os
from collections.abc import Iterable

import torch
from torch import Tensor
from torch._C import (
    _are_functorch_transforms_active,
    _get_tracing_state,
    _is_any_autocast_enabled,
)
from torch.autograd import forward_ad
from torch.compiler import is_compiling as _is_compiling

#: "0" turns all kernels off: torch's own operations run instead.
VARIABLE = "SYMMETRIES_KERNELS"

_HAS_TRITON = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton too reads it once


def wanted() -> bool:
    """Whether kernels may run: $SYMMETRIES_KERNELS is not "0"."""
    return os.environ.get(VARIABLE) != "0"


def usable(*tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Whether Triton kernels can take these tensors: float32, on CUDA, seen eagerly.

    The compiler fuses torch's operations by itself, and torch.func's wrappers hide the memory.
    ``TRITON_INTERPRET=1`` runs the kernels on the CPU, for tests.
    """
    if not _HAS_TRITON or torch.compiler.is_compiling():
        return False
    for tensor in tensors:
        if not (tensor.is_cuda or _INTERPRETED):
            return False
        if tensor.dtype not in dtypes or tensor.numel() == 0:
            return False
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
    return wanted()


def undisturbed() -> bool:
    """Whether torch's operations run as they are written, and no kernels on a CPU.

    Example:
        >>> with torch.autocast("cpu", torch.bfloat16):
        ...     undisturbed()
        False
    """
    return not is_transformed() and products_as_written()


def products_as_written() -> bool:
    """Whether a product on a CPU is neither compiled, nor a kernel, nor rounded by autocast."""
    return not (_INTERPRETED or _is_compiling() or _is_any_autocast_enabled())


def is_transformed() -> bool:
    """Whether torch's compiler or functions look at what is done, and may do something else."""
    if _is_compiling() or _get_tracing_state() is not None or _are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0  # gradients that go forward


def largest_difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Largest |a - b| / |b| of pairs of tensors, infinite where one of them is not finite.

    Example:
        >>> ones, nothing = torch.ones(4), torch.full((4,), torch.nan)
        >>> largest_difference([(ones, ones), (2 * ones, ones)])
        1.0
        >>> largest_difference([(nothing, ones), (ones, ones)])
        inf
    """
    errors = [
        float((a.double() - b.double()).detach().norm() / b.detach().norm()) for a, b in pairs
    ]
    return max(errors) if all(map(math.isfinite, errors)) else math.inf
