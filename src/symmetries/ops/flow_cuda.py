"""Host side of the flow in CUDA C (``flow*.cu``): when it is used, and how it is launched."""

import ctypes

import torch
from torch import Tensor

from symmetries.ops.compiler import CudaKernel, cuda_kernel, has_compiler
from symmetries.ops.flow_shape import Shape

ROWS = 16  # points of a block
_WIDTHS = range(64, 257, 32)  # of hidden units: a warp has 32 of them
_MOST_PARAMETERS = 64  # of a point's splines in a layer: their weights lie in registers


class _Constants(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_float) for name in ("half", "share", "min_slope", "unit_slope")),
        *((name, ctypes.c_float) for name in ("min_scale", "unit_scale", "epsilon", "keep")),
        ("samples", ctypes.c_int),
    ]


def suits(shape: Shape, device: torch.device) -> bool:
    """Whether these kernels are made for such a flow: products in TF32, units by warps."""
    rounded = torch.get_float32_matmul_precision() != "highest"
    small = shape.hidden in _WIDTHS and shape.size <= _MOST_PARAMETERS
    blocks = ROWS * shape.bent(0) < shape.hidden
    return device.type == "cuda" and rounded and small and blocks and has_compiler()


def _kernel(shape: Shape, name: str, projected: Tensor, n: int) -> CudaKernel:
    constants = {
        "DIM": shape.dim,
        "HIDDEN": shape.hidden,
        "LAYERS": shape.layers,
        "BINS": shape.bins,
        "SHARED": int(shape.samples > 1),
        "FULL": int(n % ROWS == 0),
        "DROP": int(shape.dropout > 0),
        "ROUNDED": int(projected.dtype == torch.bfloat16),
    }
    device = projected.device.index or 0
    return cuda_kernel(f"units.cu flow.cu {name}.cu", name, tuple(constants.items()), 0, device)


def launch(shape: Shape, name: str, projected: Tensor, n: int, *tensors: Tensor) -> None:
    """Run a kernel on n points; it wants its tensors in the order of its arguments."""
    constants = _Constants(
        shape.half,
        shape.share,
        shape.min_slope,
        shape.unit_slope,
        shape.min_scale,
        shape.unit_scale,
        shape.epsilon,
        1 / (1 - shape.dropout),
        shape.samples,
    )
    kernel = _kernel(shape, name, projected, n)
    kernel((-(-n // ROWS),), shape.hidden, *tensors, n, constants)
