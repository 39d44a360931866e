"""Host side of the warps in CUDA C (``warp.cu``): when they fit, and how they are launched."""

from typing import Any

import torch
from torch import Tensor

from symmetries.kernels.compiler import CudaKernel, cuda_kernel, has_compiler

MODES = {"bilinear": 0, "bicubic": 1, "bspline": 2}
_MOST_SHARED = 96 * 1024  # bytes of a block
_MOST_WARPS = 16
_MARGIN = 12  # of spline coefficients around an image: beyond it they are below rounding
_FEW_CONFLICTS = (7, 9, 23, 25)  # lengths of rows, modulo 32, that keep near pixels apart


class Plan:
    """How one size of images is worked on.

    Args:
        images: (N, C, H + 2m, W + 2m); for "bspline", coefficients with a margin m, or images.
        theta: (N or 1, S, 6).
        mode: of interpolation.
        height: of the result.
        width: of the result.
    """

    def __init__(self, images: Tensor, theta: Tensor, mode: str, height: int, width: int) -> None:
        self.n, self.channels, rows, columns = images.shape
        filtered = mode == "bspline" and columns == width  # by the kernels
        if filtered:
            rows, columns = rows + 2 * _MARGIN, columns + 2 * _MARGIN
        self.versions = theta.shape[1]
        self.device = images.device.index or 0
        taps = 2 if mode == "bilinear" else 4
        tiles = -(-width // 8)
        self.warps = tiles * max(1, 4 // tiles)
        pitch, pitch_out = _pitch(columns + 2 * taps), _pitch(width)
        self.source = 4 * (rows + 2 * taps) * pitch
        self.grads = 4 * (height * pitch_out + (rows * pitch if filtered else 0))
        self.steps = (theta.stride(0) if theta.shape[0] > 1 else 0, theta.stride(1))
        self.constants = {
            "H": height,
            "W": width,
            "MARGIN": (columns - width) // 2,
            "C": self.channels,
            "MODE": MODES[mode],
            "PITCH": pitch,
            "PITCH_OUT": pitch_out,
            "WARPS": self.warps,
            "COLUMNS": tiles,
            "VERSIONS": self.versions,
            "FILTER": int(filtered),
        }

    def fits(self) -> bool:
        """Whether a picture and its gradient fit in shared memory."""
        return self.source + self.grads <= _MOST_SHARED and self.warps <= _MOST_WARPS

    def kernel(self, name: str, shared: int, **flags: int) -> CudaKernel:
        """The kernel, compiled for this size."""
        constants = tuple((self.constants | flags).items())
        return cuda_kernel("warp.cu", name, constants, shared, self.device)


def _pitch(length: int) -> int:
    return next(p for p in range(length, length + 32) if p % 32 in _FEW_CONFLICTS)


def plan(images: Tensor, theta: Tensor, mode: str, height: int, width: int) -> Plan | None:
    """A plan if the kernels can be used: on CUDA, with a compiler, for pictures small enough."""
    if not images.is_cuda or not has_compiler():
        return None
    found = Plan(images, theta, mode, height, width)
    return found if found.fits() else None


def forward(made: Plan, images: Tensor, theta: Tensor, out: Tensor) -> None:
    """Warp into out (N, S, C, H, W)."""
    kernel = made.kernel("warp_forward", made.source, TO_MAP=1, TO_IMAGES=0)
    grid = (made.n * made.versions, made.channels)
    kernel(grid, 32 * made.warps, images, theta, out, *made.steps)


def backward(
    made: Plan, images: Tensor, theta: Tensor, grad_out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients to the images, like them, and (N, S, 6) to the maps, if needed."""
    grad_images = torch.empty_like(images) if needs[0] else None
    grad_theta = None
    if needs[1]:
        grad_theta = torch.empty(made.n, made.versions, 6, dtype=theta.dtype, device=theta.device)
    both = needs[0] and needs[1]
    together = both and made.versions == 1
    launches = [(1, 1)] if together else [(1, 0), (0, 1)] if both else [(needs[1], needs[0])]
    for to_map, to_images in launches:
        shared = made.source * to_map + made.grads * to_images
        flags: dict[str, Any] = {"TO_MAP": int(to_map), "TO_IMAGES": int(to_images)}
        kernel = made.kernel("warp_backward", shared, **flags)
        blocks = made.n * (made.versions if to_map else made.channels)
        to_images_, to_theta = (images if t is None else t for t in (grad_images, grad_theta))
        tensors = (images, theta, grad_out, to_images_, to_theta)
        kernel((blocks, 1), 32 * made.warps, *tensors, *made.steps)
    return grad_images, grad_theta
