"""Host side of the warps in CUDA C (``warp.cu``): when they fit, and how they are launched."""

import torch
from torch import Tensor

from symmetries.kernels.compiler import cuda_kernel, has_compiler

MODES = {"bilinear": 0, "bicubic": 1, "bspline": 2}
_SMALL = 8 * 1024
_MOST_SHARED = 96 * 1024  # bytes of a block
_MOST_WARPS = 16
_AT_ONCE = 2112  # small blocks that the largest GPUs hold: if all fit, none waits for another
_MOST_PICTURES = 1  # of a block; two or more did not pay on an H200
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
        self.tiles = tiles = -(-width // 8)
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
            "PER": 1,
            "TO_MAP": 0,
            "TO_IMAGES": 0,
        }

    def fits(self) -> bool:
        """Whether a picture and its gradient fit in shared memory."""
        return self.source + self.grads <= _MOST_SHARED and self.warps <= _MOST_WARPS

    def pictures(self) -> int:
        """How many pictures a block takes where it needs nothing but them."""
        wanted = -(-self.n * self.versions // _AT_ONCE)
        small = self.channels == 1 and self.warps == 4 and self.source < _SMALL
        return min(wanted, _MOST_PICTURES) if small else 1

    def launch(
        self, name: str, grid: tuple[int, int], shared: int, *arguments: Tensor | int, **flags: int
    ) -> None:
        """Run a kernel, compiled for this size."""
        constants = self.constants | flags
        kernel = cuda_kernel("warp.cu", name, tuple(constants.items()), shared, self.device)
        kernel(grid, 32 * constants["WARPS"], *arguments, *self.steps)


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
    count, per = made.n * made.versions, made.pictures()
    grid = (-(-count // per), made.channels)
    made.launch("warp_forward", grid, per * made.source, images, theta, out, count, PER=per)


def backward(
    made: Plan, images: Tensor, theta: Tensor, grad_out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients to the images, like them, and (N, S, 6) to the maps, if needed."""
    count, per = made.n * made.versions, made.pictures()
    to_images = torch.empty_like(images)
    to_theta = torch.empty(made.n, made.versions, 6, dtype=theta.dtype, device=theta.device)
    tensors = (images, theta, grad_out, to_images, to_theta)
    together = all(needs) and made.versions == 1
    if needs[1] and not together:
        if made.channels == 1:
            grid, given = (-(-count // per), 1), (images, theta, grad_out, to_theta, count)
            made.launch("warp_slopes", grid, per * made.source, *given, PER=per)
        else:
            made.launch("warp_backward", (count, 1), made.source, *tensors, TO_MAP=1)
    if needs[0]:
        # Twice the warps: there is more to do for each byte.
        flags = {"TO_IMAGES": 1, "TO_MAP": int(together)}
        flags["WARPS"] = min(2 * made.warps, _MOST_WARPS // made.tiles * made.tiles)
        shared = made.grads + (made.source if together else 0)
        blocks = made.n * (1 if together else made.channels)
        made.launch("warp_backward", (blocks, 1), shared, *tensors, **flags)
    return to_images if needs[0] else None, to_theta if needs[1] else None
