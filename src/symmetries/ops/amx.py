"""Matrix products in bfloat16 with float32 sums, on processors with AMX.

Intel's matrix units multiply bfloat16 three to five times as fast as its vector units multiply
float32. Torch's own way to them (oneDNN) asks the processor for the shape of its tiles, and ends in
an illegal instruction on virtual machines that hide the answer; so the product is asked from the
MKL that torch's library carries, by its public name. Whether a virtual processor has what it says
it has can only be found out by another process, which may end by trying. Where there is no such
library, no such processor, or the first product fails or is wrong, nothing here is used.
"""

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.ops._dispatch import enabled, record

_ROWS, _PLAIN, _TURNED = 101, 111, 112  # of cblas: rows first, as it is, transposed
_LEAST = 2**22  # multiplications below which it is not worth the rounding


# In a process without torch, whose import would take seconds: ones times ones, small and large.
_PROBE = """
import array, ctypes, sys
multiply = ctypes.CDLL(sys.argv[1]).cblas_gemm_bf16bf16f32
multiply.argtypes = [ctypes.c_int] * 6 + [ctypes.c_float] + [ctypes.c_void_p, ctypes.c_int] * 2
multiply.argtypes += [ctypes.c_float, ctypes.c_void_p, ctypes.c_int]
for n in (32, 256):
    ones, out = array.array("H", [0x3F80] * n * n), array.array("f", [0.0] * n * n)
    place = ones.buffer_info()[0]
    multiply(101, 111, 111, n, n, n, 1.0, place, n, place, n, 0.0, out.buffer_info()[0], n)
    if set(out) != {float(n)}:
        sys.exit(1)
"""


_ROUNDED: ContextVar[bool] = ContextVar("rounded", default=False)


@contextmanager
def rounded_products(rounded: bool = True) -> Iterator[None]:
    """Round the products of the library's networks on the CPU inside the block, if it has AMX.

    Args:
        rounded: False leaves them alone.

    Example:
        >>> x, weight = torch.randn(512, 128), torch.randn(128, 128)
        >>> with rounded_products(False):
        ...     usable(x, weight)
        False
    """
    token = _ROUNDED.set(rounded)
    try:
        yield
    finally:
        _ROUNDED.reset(token)


def has_amx() -> bool:
    """Return whether AMX products work and are correct on this machine (tested once).

    ``SYMMETRIES_KERNELS=0`` says no.
    """
    return record("amx_linear", enabled("amx_linear") and _is_right())


@lru_cache(maxsize=1)
def _is_right() -> bool:
    supported = getattr(torch.cpu, "_is_amx_tile_supported", None)
    allowed = getattr(torch.cpu, "_init_amx", None)  # asks the system for the tiles
    if platform.machine() != "x86_64" or supported is None or allowed is None:
        return False
    if not supported() or not allowed() or _library() is None:
        return False
    if not _survives():
        return False
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(96, 80, generator=generator).bfloat16() for _ in "ab")
    exact = a.double() @ b.double().T
    return bool((product(a, b, turned_b=True) - exact).norm() < 1e-4 * exact.norm())


def _survives() -> bool:
    """Return whether AMX products run in another process, which may crash; False without one."""
    if not sys.executable or getattr(sys, "frozen", False):  # a program of its own, not Python
        return False
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(_path())]
    silent = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, stdin=silent, stdout=silent, stderr=silent, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _path() -> Path:
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@lru_cache(maxsize=1)
def _library() -> Callable[..., None] | None:
    try:
        found: Any = ctypes.CDLL(str(_path())).cblas_gemm_bf16bf16f32
    except (OSError, AttributeError):
        return None
    number, place, factor = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    matrices = [place, number, place, number]
    found.argtypes = [*[number] * 6, factor, *matrices, factor, place, number]
    found.restype = None
    return found  # type: ignore[no-any-return]


def product(a: Tensor, b: Tensor, *, turned_a: bool = False, turned_b: bool = False) -> Tensor:
    """Return A B in float32, for contiguous bfloat16 matrices, each optionally transposed.

    Args:
        a: (m, k), or (k, m) where it is turned.
        b: (k, n), or (n, k) where it is turned.
        turned_a: whether A is the transpose of ``a``.
        turned_b: whether B is the transpose of ``b``.

    Returns:
        (m, n).

    Example:
        >>> x = torch.randn(3, 4).bfloat16()
        >>> not has_amx() or torch.allclose(product(x, x, turned_b=True), x.float() @ x.float().T)
        True
    """
    m, k = reversed(a.shape) if turned_a else a.shape
    n = b.shape[0] if turned_b else b.shape[1]
    out = torch.empty(m, n, dtype=torch.float32)
    multiply = _library()
    if multiply is None:
        raise RuntimeError("this build of torch has no product of bfloat16 matrices")
    flags = (_TURNED if turned_a else _PLAIN, _TURNED if turned_b else _PLAIN)
    places = (a.data_ptr(), a.shape[1], b.data_ptr(), b.shape[1])
    multiply(_ROWS, *flags, m, n, k, 1.0, *places, 0.0, out.data_ptr(), n)
    return out


def usable(x: Tensor, weight: Tensor) -> bool:
    """Return whether x W^T of float32 x (N, inputs) and W (outputs, inputs) should be rounded.

    Not under autocast, which has its own rules for what is rounded and what comes out.
    """
    if torch.compiler.is_compiling():  # which cannot look into the context
        return False
    if not _ROUNDED.get() or torch.is_autocast_enabled("cpu"):
        return False
    plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    large = x.ndim == 2 and len(x) * weight.numel() >= _LEAST
    return plain and large and has_amx()


class AmxLinear(torch.autograd.Function):
    """x W^T + b by rounded products; so are the gradients."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the products (N, outputs), and the rounded x and W."""
        left, right = _rounded(x), _rounded(weight)
        out = product(left, right, turned_b=True)
        return out if bias is None else out.add_(bias), left, right

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save the tensors that the gradients need."""
        ctx.save_for_backward(*inputs[:2], *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.biased = inputs[2] is not None

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """Gradients to x, W and b."""
        x, weight, left, right = ctx.saved_tensors
        needs = ctx.needs_input_grad
        to_bias = grad.sum(0) if ctx.biased and needs[2] else None
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return grad @ weight, grad.T @ x, to_bias
        rounded = _rounded(grad)
        to_x = product(rounded, right) if needs[0] else None
        to_weight = product(rounded, left, turned_a=True) if needs[1] else None
        return to_x, to_weight, to_bias

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Compute several models one after another."""
        several = []
        for model in range(info.batch_size):
            own = [
                part if part is None or where is None else part.select(where, model)
                for part, where in zip((x, weight, bias), in_dims, strict=True)
            ]
            several.append(AmxLinear.apply(*own))  # type: ignore[no-untyped-call]
        stacked = tuple(torch.stack(each) for each in zip(*several, strict=True))
        return stacked, (0,) * len(stacked)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear layer x W^T + b of float32 tensors, by rounded products."""
    out: Tensor = AmxLinear.apply(x, weight, bias)[0]  # type: ignore[no-untyped-call]
    return out


def _rounded(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).contiguous()
