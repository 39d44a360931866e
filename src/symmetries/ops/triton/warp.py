"""Image warps as one kernel forward and one or two backward.

Small images go through CUDA C (``warp_cuda``), others through Triton (``warp_passes``).
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients
from symmetries.ops.cuda import warp_cuda
from symmetries.ops.triton import warp_passes

MODES = warp_cuda.MODES
_BLOCK = 1024  # at most, in pixels


def _launch(pixels: int) -> tuple[int, int, int]:
    """Pixels of a program, how many programs an image needs, and warps of each."""
    block = min(triton.next_power_of_2(pixels), _BLOCK)
    return block, triton.cdiv(pixels, block), max(1, block // 256)


def warp_forward(
    images: Tensor, theta: Tensor, mode: str, height: int, width: int, several: bool
) -> Tensor:
    """Images (N, C, H + 2m, W + 2m) seen through maps (N or 1, S, 6): (N, S, C, H, W).

    Of one version (N, C, H, W), where it is not one of several.
    """
    n, channels = images.shape[:2]
    versions = theta.shape[1]
    margin = (images.shape[-1] - width) // 2
    shape = (n, versions, channels, height, width) if several else (n, channels, height, width)
    out = torch.empty(shape, dtype=images.dtype, device=images.device)
    made = warp_cuda.plan(images, theta, mode, height, width)
    if made is not None:
        warp_cuda.forward(made, images, theta, out)
        return out
    block, blocks, warps = _launch(height * width)
    common = (versions, *warp_cuda.steps(theta), margin, height, width, channels)
    arguments = (*common, block, MODES[mode])
    warp_passes.forward[(n * versions, blocks)](images, theta, out, *arguments, num_warps=warps)
    return out


def warp_backward(
    images: Tensor, theta: Tensor, grad_out: Tensor, mode: str, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients to the images and to the maps, those that are needed."""
    n, versions, channels, height, width = grad_out.shape
    made = warp_cuda.plan(images, theta, mode, height, width)
    if made is not None:
        found, each = warp_cuda.backward(made, images, theta, grad_out, needs)
        shared = each is not None and len(theta) == 1
        return found, each.sum(0, keepdim=True) if each is not None and shared else each
    margin = (images.shape[-1] - width) // 2
    common = (versions, *warp_cuda.steps(theta), margin, height, width, channels)
    grad_images = grad_theta = None
    if needs[0]:
        grad_images = torch.empty_like(images)
        block, blocks, warps = _launch(images.shape[-2] * images.shape[-1])
        grid, rest = (n * channels, blocks), (*common, block, MODES[mode])
        warp_passes.backward_images[grid](theta, grad_out, grad_images, *rest, num_warps=warps)
    if needs[1]:
        block, blocks, warps = _launch(height * width)
        partial = torch.empty(n, versions, blocks, 6, dtype=theta.dtype, device=theta.device)
        grid, rest = (n * versions, blocks), (*common, block, MODES[mode])
        warp_passes.backward_theta[grid](images, theta, grad_out, partial, *rest, num_warps=warps)
        if len(theta) == 1:
            grad_theta = partial.sum((0, 2))[None]
        else:
            grad_theta = partial[:, :, 0] if blocks == 1 else partial.sum(2)
    return grad_images, grad_theta


def maps_of(theta: Tensor) -> Tensor:
    """Maps (N or 1, S, 6) from (N or 1, S, 2, 3) or (N, 2, 3), their six numbers side by side."""
    maps = theta.flatten(2) if theta.ndim == 4 else theta.flatten(1)[:, None]
    return maps if maps.stride(-1) == 1 else maps.contiguous()


class KernelWarp(torch.autograd.Function):
    """The kernels as a differentiable function; ``plain`` is torch's form of the same function.

    Maps are (N or 1, S, 2, 3), or (N, 2, 3) for one version, whose axis the result then lacks.
    Views are taken in here, where autograd does not see them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        theta: Tensor,
        mode: str,
        size: tuple[int, int],
        plain: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """The warped images (N, S, C, H, W), or (N, C, H, W)."""
        ctx.save_for_backward(images, theta)  # as given: a copy would have no gradient
        ctx.mode, ctx.plain = mode, plain
        return warp_forward(images.contiguous(), maps_of(theta), mode, *size, theta.ndim == 4)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the images and to the maps."""
        images, theta = ctx.saved_tensors
        needs = ctx.needs_input_grad[:2]
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs = (images, theta)
            found = differentiable_gradients(ctx.plain(*inputs), inputs, grad_out)
            return *found, None, None, None
        given = grad_out.contiguous()
        given = given if theta.ndim == 4 else given[:, None]
        dense = images.contiguous()
        to_images, to_maps = warp_backward(dense, maps_of(theta), given, ctx.mode, needs)
        to_theta = None if to_maps is None else to_maps.reshape(theta.shape)
        return to_images, to_theta, None, None, None
