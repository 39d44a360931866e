"""Registry of the fused operations, and the conditions under which a fused form may run.

Every fused form is requested by its name: ``usable("warp", images, theta)``. Names come from
:data:`OPERATIONS`. :func:`disabled` and the environment variable ``SYMMETRIES_KERNELS`` switch
operations off, so that their torch forms run instead.
"""

import importlib.util
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active, _get_tracing_state, _is_any_autocast_enabled
from torch.autograd import forward_ad
from torch.compiler import is_compiling as _is_compiling

from symmetries._validation.checks import invalid

#: Environment variable: "0" turns all fused forms off, "-warp,-adam" turns some of them off.
VARIABLE = "SYMMETRIES_KERNELS"

#: The fused operations and what each of them computes.
OPERATIONS = {
    # Groups, images and their networks.
    "warp": "images resampled by affine maps",
    "affine_exp": "exponentials of the affine Lie algebra",
    "affine_inverse": "inverses of affine matrices",
    "affine_product": "products of affine matrices",
    "gelu_norm": "GELU and layer norm of a linear layer's outputs",
    "spline": "monotonic rational-quadratic splines",
    # Invariant weights.
    "resample_rows": "pictures moved by bilinear resampling, and the transpose of that",
    "orbit_mean": "mean over transformations of a function of responses",
    "full_moments": "moments of outputs whose weights have a full covariance",
    "gaussian_kl": "KL of a Gaussian with a full covariance from an isotropic one",
    "expected_log_softmax": "expected log-probability of classes under Gaussian outputs",
    # Group convolutions.
    "group_filters": "filters of a group convolution from its kernel network",
    "positional_features": "features of a kernel network that depend on the position",
    "position_conv": "convolutions whose filters depend on the position",
    "field_norm": "batch and instance norms of fields",
    "group_gelu": "GELU of a group norm of channels-last features",
    # Optimisers.
    "adam": "Adam and its clipping for all parameters of a model",
    "triangular_adam": "Adam on and below the diagonal of triangular parameters",
}

_HAS_TRITON = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton too reads it once
_OFF: frozenset[str] = frozenset()  # global, because backward passes run in threads of their own
_RECORDS: list[dict[str, bool]] = []


@contextmanager
def disabled(*operations: str) -> Iterator[None]:
    """Run the torch forms of some operations inside the block.

    Args:
        operations: names from :data:`OPERATIONS`; ``disabled(*OPERATIONS)`` disables all.

    Example:
        >>> with disabled("warp"):
        ...     enabled("warp"), enabled("adam")
        (False, True)
    """
    global _OFF
    _check_names(operations, "operations")
    before, _OFF = _OFF, _OFF.union(operations)
    try:
        yield
    finally:
        _OFF = before


@contextmanager
def recorded() -> Iterator[dict[str, bool]]:
    """Record which operations are called inside the block, and whether their fused form ran.

    Example:
        >>> with recorded() as seen:
        ...     _ = usable("warp", torch.zeros(3, dtype=torch.float64))
        >>> seen
        {'warp': False}
    """
    seen: dict[str, bool] = {}
    _RECORDS.append(seen)
    try:
        yield seen
    finally:
        _RECORDS[:] = [record for record in _RECORDS if record is not seen]


def enabled(operation: str) -> bool:
    """Return whether the fused form of an operation is not switched off."""
    if operation in _OFF:
        return False
    text = os.environ.get(VARIABLE)
    return text is None or operation not in _switched_off(text)


def kernels_enabled() -> bool:
    """Return whether $SYMMETRIES_KERNELS is not "0"."""
    return os.environ.get(VARIABLE) != "0"


@lru_cache(maxsize=16)
def _switched_off(text: str) -> frozenset[str]:
    """Return the operations that a value of $SYMMETRIES_KERNELS switches off."""
    if text == "0":
        return frozenset(OPERATIONS)
    if text in ("", "1"):
        return frozenset()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.startswith("-") for part in parts):
        raise invalid(f"${VARIABLE}", "'0', '1', or names such as '-warp,-adam'", text, "unset it")
    names = [part[1:] for part in parts]
    _check_names(names, f"${VARIABLE}")
    return frozenset(names)


def _check_names(names: Iterable[str], argument: str) -> None:
    for name in names:
        if name not in OPERATIONS:
            raise invalid(argument, f"names among {sorted(OPERATIONS)}", repr(name), "correct it")


def usable(
    operation: str, *tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)
) -> bool:
    """Return whether the Triton form of an operation can take these tensors.

    It can if they are float32 tensors on CUDA, seen eagerly: the compiler fuses torch's operations
    by itself, and wrappers of torch.func hide the memory. ``TRITON_INTERPRET=1`` runs kernels on
    the CPU, for tests.

    Args:
        operation: a name from :data:`OPERATIONS`.
        tensors: that the kernels read.
        dtypes: that the kernels support.
    """
    return record(operation, _HAS_TRITON and readable(operation, *tensors, dtypes=dtypes))


def record(operation: str, fused: bool) -> bool:
    """Return ``fused``, and note it in the open records (see :func:`recorded`)."""
    for seen in _RECORDS:
        seen[operation] = fused or seen.get(operation, False)
    return fused


def readable(
    operation: str, *tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)
) -> bool:
    """Return whether an operation is switched on and GPU kernels can read these tensors."""
    if _is_compiling():
        return False
    for tensor in tensors:
        if not (tensor.is_cuda or _INTERPRETED):
            return False
        if tensor.dtype not in dtypes or tensor.numel() == 0:
            return False
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
    return enabled(operation)


def verified(
    case: tuple[object, ...],
    device: torch.device,
    trial: Callable[[], float],
    tolerance: float,
    known: dict[tuple[object, ...], bool],
) -> bool:
    """Return whether kernels agreed with torch at their first use on a device; warn if not.

    Args:
        case: the operation's name, and what the kernels are compiled for.
        device: where they run.
        trial: runs them on an example and returns their relative error.
        tolerance: the largest error that is accepted.
        known: results of earlier trials, which is updated.
    """
    if (device, *case) not in known:
        if device.type == "cuda" and (
            torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode()
        ):
            return False  # values cannot be read while a CUDA graph is captured
        from symmetries.ops.cuda.compiler import error_of

        error = error_of(trial)
        known[device, *case] = error < tolerance
        if not known[device, *case]:
            message = f"{case[0]}: the fused form is wrong on this device (relative error "
            message += f"{error:.2g}, allowed {tolerance:.2g}; {case[1:]}); the torch form runs"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    return known[device, *case]


def undisturbed() -> bool:
    """Return whether torch runs operations as written: no transform, no autocast, no interpreter.

    Example:
        >>> with torch.autocast("cpu", torch.bfloat16):
        ...     undisturbed()
        False
    """
    return not is_transformed() and products_as_written()


def products_as_written() -> bool:
    """Return whether a product on a CPU is not compiled, interpreted or rounded by autocast."""
    return not (_INTERPRETED or _is_compiling() or _is_any_autocast_enabled())


def is_transformed() -> bool:
    """Return whether torch.compile, torch.func, a trace or forward-mode autograd is active."""
    if _is_compiling() or _get_tracing_state() is not None or _are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0  # gradients that go forward


def is_followed(*tensors: Tensor) -> bool:
    """Return whether a gradient may be needed, or a transform (see above) is active."""
    watched = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return watched or is_transformed()


def differentiable_gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor | None],
    grads: Tensor | Sequence[Tensor],
) -> list[Tensor | None]:
    """Return gradients that can be differentiated again; None for inputs that need none.

    For backward passes whose own gradient is needed: ``outputs`` are those of the torch form.

    Example:
        >>> x, fixed = torch.ones(2, requires_grad=True), torch.ones(2)
        >>> differentiable_gradients((x**3).sum(), (x, fixed), torch.tensor(1.0))
        [tensor([3., 3.], grad_fn=<MulBackward0>), None]
    """
    needed = [part for part in inputs if part is not None and part.requires_grad]
    found = torch.autograd.grad(outputs, needed, grads, create_graph=True, allow_unused=True)
    rest = iter(found)
    return [next(rest) if part is not None and part.requires_grad else None for part in inputs]


def largest_difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Return the largest |a - b| / |b| of pairs of tensors; infinite if one is not finite.

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
