"""Host side of the norm in CUDA C (``norm.cu``): when it is used, and how it is launched."""

import warnings
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.ops.available import largest_difference
from symmetries.ops.compiler import CudaKernel, cuda_kernel, error_of, has_compiler

_WIDTHS = (256, 512, 1024, 2048)
_THREADS = 256
_COLUMNS = 2048  # of a block at a time, in one or several rows
_FORWARD, _BACKWARD = 4, 2  # blocks of a multiprocessor
_ROWS, _LARGEST_ERROR = 37, 0.02  # of the trial; numbers are rounded to bfloat16
_agreed: dict[tuple[int, bool, bool, torch.device], bool] = {}


def suits(z: Tensor, bias: Tensor | None, mask: Tensor | None, *vectors: Tensor) -> bool:
    """Whether these kernels are made for such rows, and right on their device.

    That is tried once; while a CUDA graph is made, what was not tried counts as wrong.
    """
    width = z.shape[1]
    if not (z.is_cuda and z.dtype == torch.bfloat16 and width in _WIDTHS and has_compiler()):
        return False
    floats = vectors if bias is None else (*vectors, bias)
    if any(t.dtype != torch.float32 for t in floats) or (
        mask is not None and mask.dtype != torch.uint8
    ):
        return False
    given = (z, *floats) if mask is None else (z, *floats, mask)
    if not all(t.is_contiguous() and t.data_ptr() % 16 == 0 for t in given):
        return False
    key = (width, bias is not None, mask is not None, z.device)
    if key not in _agreed:
        if torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode():
            return False
        _agreed[key] = error_of(lambda: _error(*key)) < _LARGEST_ERROR
        if not _agreed[key]:
            message = f"norms of {width} units in CUDA C are wrong here; Triton's are used"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return _agreed[key]


def _kernel(name: str, width: int, bias: bool, mask: bool, device: int) -> CudaKernel:
    constants = (("WIDTH", width), ("BIAS", int(bias)), ("DROP", int(mask)))
    return cuda_kernel("units.cu norm.cu", name, constants, 0, device)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _blocks(z: Tensor, each: int) -> int:
    """As many blocks as fit on the device, or fewer where all then have as many rows."""
    turns = -(-len(z) * z.shape[1] // _COLUMNS)
    most = each * _processors(z.device)
    return -(-turns // -(-turns // most))


def forward(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    epsilon: float,
    keep: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised units (N, width), and means and scales of rows (N,)."""
    out = torch.empty_like(z)
    mean, scale = (torch.empty(len(z), dtype=torch.float32, device=z.device) for _ in "ms")
    kernel = _kernel(
        "norm_forward", z.shape[1], bias is not None, mask is not None, z.device.index or 0
    )
    known = (gamma if bias is None else bias, gamma, beta, z if mask is None else mask)
    blocks = _blocks(z, _FORWARD)
    kernel((blocks,), _THREADS, z, *known, out, mean, scale, len(z), float(epsilon), 1 / keep)
    return out, mean, scale


def backward(
    z: Tensor,
    bias: Tensor | None,
    gamma: Tensor,
    mask: Tensor | None,
    grad: Tensor,
    mean: Tensor,
    scale: Tensor,
    keep: float,
) -> tuple[Tensor, Tensor]:
    """Gradient to z, and parts (blocks, 3, width) of those to gamma, beta and bias."""
    blocks, width = _blocks(z, _BACKWARD), z.shape[1]
    to_z = torch.empty_like(z)
    partial = torch.empty(blocks, 3, width, dtype=torch.float32, device=z.device)
    kernel = _kernel(
        "norm_backward", width, bias is not None, mask is not None, z.device.index or 0
    )
    known = (gamma if bias is None else bias, gamma, z if mask is None else mask)
    found = (grad, mean, scale, to_z, partial)
    kernel((blocks,), _THREADS, z, *known, *found, len(z), 1 / keep)
    return to_z, partial


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _error(width: int, biased: bool, dropped: bool, device: torch.device) -> float:
    """The largest error of some random rows and of their gradients."""
    source, keep, epsilon = torch.Generator().manual_seed(0), 0.75, 1e-5

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=source, dtype=torch.float32, device="cpu")

    z, grad = (normal(_ROWS, width).to(torch.bfloat16) for _ in "zg")
    bias = normal(width) if biased else None
    gamma, beta = 1 + 0.2 * normal(width), normal(width)
    mask = (normal(_ROWS, width) > -0.67).to(torch.uint8) if dropped else None
    z_on, grad_on, gamma_on, beta_on = (t.to(device) for t in (z, grad, gamma, beta))
    bias_on, mask_on = (None if t is None else t.to(device) for t in (bias, mask))
    out, mean, scale = forward(z_on, bias_on, gamma_on, beta_on, mask_on, epsilon, keep)
    to_z, partial = backward(z_on, bias_on, gamma_on, mask_on, grad_on, mean, scale, keep)
    found = [out, to_z, *partial.sum(0)[: 3 if biased else 2]]
    given = (z, gamma, beta) if bias is None else (z, gamma, beta, bias)
    exact = [t.double().requires_grad_() for t in given]
    units = F.gelu(sum(exact[3:], exact[0]))  # with the bias, if there is one
    value = F.layer_norm(units, (width,), exact[1], exact[2], epsilon)
    value = value if mask is None else value * mask / keep
    truth = [value, *torch.autograd.grad(value, exact, grad.double())]
    return largest_difference((a.cpu(), b) for a, b in zip(found, truth, strict=True))
