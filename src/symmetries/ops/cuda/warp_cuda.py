"""Host side of the warps in CUDA C (``warp.cu``): when they are used, and how they are launched.

Images that fit into the shared memory of a block are warped by one kernel, and their gradients are
computed by another one; larger images are left to torch.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients
from symmetries.ops.cuda.compiler import CudaError, CudaKernel, cuda_kernel, has_compiler

MODES = {"bilinear": 0, "bicubic": 1, "bspline": 2}
_MOST_SHARED = 96 * 1024  # bytes of a block
_MOST_WARPS = 16
_MOST_BLOCKS = 65535  # of a grid, along its second and third axis
_MARGIN = 12  # of spline coefficients around an image: beyond it they are below rounding
_FEW_CONFLICTS = (7, 9, 23, 25)  # lengths of rows, modulo 32, that keep near pixels apart
_LARGEST_ERRORS = (1e-4, 1e-4, 2e-2)  # of values and gradients; slopes jump at pixels
_MOST_PLANS = 4096
_right: dict[tuple[int, ...], bool] = {}  # by size, mode and GPU: whether results are right there
_plans: "dict[tuple[object, ...], Plan | None]" = {}  # by all that they depend on


class Plan:
    """Launch parameters for images of one size.

    Args:
        images: (N, C, H, W).
        theta: (N or 1, S, 6).
        mode: of interpolation; for "bspline" the kernels compute the coefficients themselves.
    """

    def __init__(self, images: Tensor, theta: Tensor, mode: str) -> None:
        self.n, self.channels, height, width = images.shape
        margin = _MARGIN if mode == "bspline" else 0
        rows, columns = height + 2 * margin, width + 2 * margin
        self.versions = theta.shape[1]
        self.device = images.device.index or 0
        taps = 2 if mode == "bilinear" else 4
        tiles = -(-width // 8)
        pitch = _pitch(columns + 2 * taps)
        self.source = 4 * (-(-(rows + 2 * taps) * pitch // 4) * 4)
        self.steps = steps(theta)
        self.kernels: dict[tuple[object, ...], CudaKernel] = {}
        self.aligned = width % 4 == 0 and not margin and images.data_ptr() % 16 == 0
        self.constants = {
            "H": height,
            "W": width,
            "MARGIN": margin,
            "MODE": MODES[mode],
            "PITCH": pitch,
            "WARPS": tiles * max(1, 4 // tiles),
            "COLUMNS": tiles,
            "FILTER": int(margin > 0),
        }

    def fits(self) -> bool:
        """Return whether an image and its gradient fit in shared memory, and blocks in a grid."""
        small = 2 * self.source <= _MOST_SHARED and self.constants["WARPS"] <= _MOST_WARPS
        return small and max(self.channels, self.versions) <= _MOST_BLOCKS

    def by_fours(self, to_images: bool, to_map: bool) -> bool:
        """Return whether rows are copied four numbers at a time, where that was measured faster."""
        wide = self.constants["W"] > 32 or self.constants["MODE"] > 0
        return self.aligned and wide and (to_images or not to_map)

    def kernel(self, name: str, to_images: bool = False, to_map: bool = False) -> CudaKernel:
        """Return a kernel compiled for this size and these gradients."""
        flags = {
            "TO_IMAGES": int(to_images),
            "TO_MAP": int(to_map),
            "FOURS": int(self.by_fours(to_images, to_map)),
        }
        constants = tuple((self.constants | flags).items())
        shared = max(1, to_images + to_map) * self.source
        return cuda_kernel("warp.cu", name, constants, shared, self.device)

    def compile_all(self) -> None:
        """Compile all kernels at once: one after another is four times as long."""
        flags = ((True, True), (True, False), (False, True))
        with ThreadPoolExecutor(1 + len(flags)) as pool:
            jobs = [pool.submit(self.kernel, "warp_forward")]
            jobs += [pool.submit(self.kernel, "warp_backward", *each) for each in flags]
            for job in jobs:
                job.result()

    def launch(
        self, name: str, *tensors: Tensor, to_images: bool = False, to_map: bool = False
    ) -> None:
        """Run a kernel."""
        which = (name, to_images, to_map)
        kernel = self.kernels.get(which)
        if kernel is None:
            kernel = self.kernels[which] = self.kernel(*which)
        grid = (self.n, self.channels, 1 if to_images else self.versions)
        kernel(grid, 32 * self.constants["WARPS"], *tensors, self.versions, *self.steps)


def steps(theta: Tensor) -> tuple[int, int]:
    """Return the strides between the maps of two images, and of two versions of one image."""
    return theta.stride(0) if theta.shape[0] > 1 else 0, theta.stride(1)


def _pitch(length: int) -> int:
    return next(p for p in range(length, length + 32) if p % 32 in _FEW_CONFLICTS)


Oracle = Callable[[Tensor, Tensor], Tensor]


def plan(images: Tensor, theta: Tensor, mode: str, oracle: Oracle | None = None) -> Plan | None:
    """Return a plan if the kernels can be used: on CUDA, with a compiler, for small images.

    At the first use of a size their results are compared with those of ``oracle``, torch's form of
    the same function of images (N, C, H, W) and maps (N, S, 6); where these differ, or without it,
    there is no plan.
    """
    if not images.is_cuda or not has_compiler():
        return None
    place = (images.device, images.data_ptr() % 16 == 0)
    known = (images.shape, theta.shape[1], steps(theta), mode, place)
    if known in _plans:
        return _plans[known]
    found = Plan(images, theta, mode)
    right = found.fits() and _is_right(found, images, mode, oracle)
    if right is not None:  # it is known now
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[known] = found if right else None
    return found if right else None


def _is_right(found: Plan, images: Tensor, mode: str, oracle: Oracle | None) -> bool | None:
    """Return whether the kernels of a plan agree with torch; None if that cannot be tested now."""
    key = (found.device, found.aligned, *found.constants.values())
    if key not in _right:
        busy = torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode()
        if oracle is None or busy:
            return None
        _right[key] = _agrees(images, mode, oracle, found.aligned)
        if not _right[key]:
            size = f"{images.shape[-2]} x {images.shape[-1]}"
            message = f"warps of {size} in CUDA C are wrong here; the torch form runs"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    return _right[key]


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _agrees(like: Tensor, mode: str, oracle: Oracle, aligned: bool = True) -> bool:
    """Return whether a few random images are warped correctly, with all gradients."""
    source = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=source, dtype=torch.float32, device="cpu")
        return drawn.to(like.device)

    size = like.shape[2:]
    images, weight = normal(3, 2, *size), normal(3, 2, 2, *size)
    maps = 0.4 * normal(3, 2, 6)
    maps[..., 0::4] += 1
    maps[1] *= 2.5  # much of it lies outside
    slow = [x.double().requires_grad_() for x in (images, maps)]
    value = oracle(*slow)
    exact = (value.detach(), *torch.autograd.grad(value, slow, weight.double()))
    made = Plan(images, maps, mode)
    made.aligned &= aligned
    out = torch.full_like(weight, torch.nan)
    with suppress(CudaError):
        made.compile_all()
        forward(made, images, maps, out)
        both = backward(made, images, maps, weight, (True, True))
        alone = backward(made, images, maps, weight, (True, False))[0]
        found = [(out, *both), (out, alone, backward(made, images, maps, weight, (False, True))[1])]
        return all(
            a is not None and bool((a - b).norm() < most * b.norm())
            for each in found
            for a, b, most in zip(each, exact, _LARGEST_ERRORS, strict=True)
        )
    return False


def maps_of(theta: Tensor) -> Tensor:
    """Return maps (N or 1, S, 6) from (N or 1, S, 2, 3) or (N, 2, 3)."""
    maps = theta.flatten(2) if theta.ndim == 4 else theta.flatten(1)[:, None]
    return maps if maps.stride(-1) == 1 else maps.contiguous()


def forward(made: Plan, images: Tensor, theta: Tensor, out: Tensor) -> None:
    """Warp into out (N, S, C, H, W)."""
    made.launch("warp_forward", images, theta, out)


def backward(
    made: Plan, images: Tensor, theta: Tensor, grad_out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients to the images and to the maps (N or 1, S, 6), if needed."""
    to_images = torch.empty_like(images) if needs[0] else images
    size = (made.n, made.versions, made.channels, 6)
    each = torch.empty(size, dtype=theta.dtype, device=theta.device) if needs[1] else theta
    tensors = (images, theta, grad_out, to_images, each)
    made.launch("warp_backward", *tensors, to_images=needs[0], to_map=needs[1])
    to_theta = None
    if needs[1]:
        to_theta = each[:, :, 0] if made.channels == 1 else each.sum(2)
        to_theta = to_theta if len(theta) == made.n else to_theta.sum(0, keepdim=True)
    return to_images if needs[0] else None, to_theta


class CudaWarp(torch.autograd.Function):
    """The kernels as a differentiable function; ``plain`` is torch's form of the same function.

    Images are contiguous. Maps are (N or 1, S, 2, 3), or (N, 2, 3) for one version, whose axis the
    result then lacks.
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        theta: Tensor,
        made: Plan,
        plain: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """The warped images (N, S, C, H, W), or (N, C, H, W)."""
        ctx.save_for_backward(images, theta)
        ctx.made, ctx.plain = made, plain
        versions = (made.versions,) if theta.ndim == 4 else ()
        shape = (made.n, *versions, *images.shape[1:])
        out = torch.empty(shape, dtype=images.dtype, device=images.device)
        forward(made, images, maps_of(theta), out)
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the images and to the maps."""
        images, theta = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs = (images, theta)
            found = differentiable_gradients(ctx.plain(*inputs), inputs, grad_out)
            return *found, None, None
        needs = ctx.needs_input_grad[:2]
        given = (images, maps_of(theta), grad_out.contiguous())
        to_images, to_maps = backward(ctx.made, *given, needs)
        return to_images, None if to_maps is None else to_maps.reshape(theta.shape), None, None
