"""Host side of the layer norm of a gelu in CUDA C (``normalise.cu``)."""

import os

import torch
from torch import Tensor

from symmetries.kernels.compiler import cuda_kernel, has_compiler
from symmetries.kernels.sums import column_sums

_MOST_WIDTH = 4096
_WARP_COLUMNS = 256  # eight for each lane
_BLOCKS = 396  # backward: three for each multiprocessor of the largest GPUs


def fits(*tensors: Tensor) -> bool:
    """Whether the kernels can take rows: on CUDA, whole warps wide, on a 16-byte boundary."""
    if os.environ.get("SYMMETRIES_TRY") != "1":  # until it was tried on a GPU
        return False
    width = tensors[0].shape[-1]
    if width % _WARP_COLUMNS or width > _MOST_WIDTH or not has_compiler():
        return False
    return all(t.is_cuda and t.is_contiguous() and t.data_ptr() % 16 == 0 for t in tensors)


def _constants(z: Tensor, bias: Tensor | None) -> tuple[tuple[str, int], ...]:
    rounded = int(z.dtype == torch.bfloat16)
    return (("WIDTH", z.shape[1]), ("ROUNDED", rounded), ("HAS_BIAS", int(bias is not None)))


def _block(width: int) -> tuple[int, int]:
    """Threads of a block, and how many rows it takes at a time."""
    across = width // 8
    rows = max(1, 128 // across)
    return rows * across, rows


def forward(
    z: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised units, like z (N, width), and mean and 1 / deviation of each row."""
    rows, width = z.shape
    out = torch.empty_like(z)
    mean, scale = (torch.empty(rows, dtype=torch.float32, device=z.device) for _ in "ms")
    threads, each = _block(width)
    kernel = cuda_kernel("normalise.cu", "norm_forward", _constants(z, bias), 0, z.device.index)
    known = gamma if bias is None else bias
    tensors = (z, known, gamma, beta, out, mean, scale)
    kernel((-(-rows // each), 1), threads, *tensors, rows, epsilon)
    return out, mean, scale


def backward(
    z: Tensor, bias: Tensor | None, gamma: Tensor, grad: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients to z, and (3, width) to gamma, beta and the bias."""
    rows, width = z.shape
    threads, each = _block(width)
    blocks = min(-(-rows // each), _BLOCKS)
    grad_z = torch.empty_like(z)
    partial = torch.empty(blocks * each, 3 * width, dtype=torch.float32, device=z.device)
    kernel = cuda_kernel("normalise.cu", "norm_backward", _constants(z, bias), 0, z.device.index)
    known = gamma if bias is None else bias
    tensors = (z, known, gamma, grad, mean, scale, grad_z, partial)
    kernel((blocks, 1), threads, *tensors, rows)
    return grad_z, column_sums(partial).view(3, width)
