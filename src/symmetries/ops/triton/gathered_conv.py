"""Position-dependent convolutions by kernels that never write what each position sees.

    h[o](p) = sum over c, d of  f[c](p + d)  sum over m of  V[o, c, m] phi[p, d, m]

without rotations and with stride 1; the kernels are in :mod:`symmetries.ops.triton.neighbours`.
They are verified on a small example at first use on a device; if they disagree with torch, torch's
operations are used instead.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.ops._dispatch import largest_difference, verified
from symmetries.ops.triton import neighbours

UNITS = (16, 32, 64)
LARGEST = 8  # side of a filter
TOLERANCE = 0.03  # of products in bfloat16 or tf32
_KNOWN: dict[tuple[object, ...], bool] = {}  # results of verifications


def gathered_conv2d(
    x: Tensor, phi: Tensor, output: Tensor, bias: Tensor | None, padding: int
) -> Tensor:
    """Convolve with filters that depend on the position.

    Args:
        x: (N, C, H, W), channels last in memory.
        phi: (positions out, k k, hidden).
        output: V, (O, C, hidden).
        bias: (O,), or None.
        padding: zeros on each side.

    Returns:
        (N, O, height out, width out), channels last in memory.
    """
    bias = None if bias is None else bias.to(x.dtype)
    out: Tensor = _Gathered.apply(x, phi, output, bias, padding)  # type: ignore[no-untyped-call]
    height, width = _out_size(x, phi, padding)
    return out.view(len(x), height, width, -1).permute(0, 3, 1, 2)


def is_right(x: Tensor, phi: Tensor) -> bool:
    """Return whether kernels for images and phi (positions, k k, ..., hidden) exist and agree."""
    k, hidden = math.isqrt(phi.shape[1]), phi.shape[-1]
    if hidden not in UNITS or k > LARGEST:
        return False
    case = (x.dtype, x.shape[1], hidden, k)
    trial = partial(_disagreement, x.device, *case)
    return verified(("position_conv", *case), x.device, trial, TOLERANCE, _KNOWN)


def _out_size(x: Tensor, phi: Tensor, padding: int) -> tuple[int, int]:
    reach = 2 * padding - math.isqrt(phi.shape[1]) + 1
    return x.shape[2] + reach, x.shape[3] + reach


def _disagreement(
    device: torch.device, dtype: torch.dtype, channels: int, hidden: int, k: int
) -> float:
    """Largest relative difference of value and gradients from those in float64, two images."""
    generator = torch.Generator().manual_seed(0)
    margin = k // 2
    places = (4 + 2 * margin) * (3 + 2 * margin)
    shapes = ((2, channels, k + 3, k + 2), (places, k * k, hidden), (4, channels, hidden), (4,))
    drawn = [torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes]
    found = []
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        for kind, layer in ((dtype, gathered_conv2d), (torch.float64, reference)):
            parts = [part.to(kind).requires_grad_() for part in drawn]
            x, phi, output, bias = parts
            x = x.contiguous(memory_format=torch.channels_last)
            y = layer(x, phi, output, bias, margin)
            given = torch.linspace(-1, 1, y.numel(), device=device).view_as(y).to(kind)
            found.append([y, *torch.autograd.grad(y, parts, given)])
    return largest_difference(zip(*found, strict=True))


def reference(x: Tensor, phi: Tensor, output: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """The same by torch's operations, in any precision."""
    taps = phi.shape[1]
    seen = F.unfold(x, math.isqrt(taps), padding=padding).unflatten(1, (-1, taps))
    out: Tensor = torch.einsum("ncdp,pdm,ocm->nop", seen, phi, output)
    out = out if bias is None else out + bias[:, None]
    return out.view(*out.shape[:2], *_out_size(x, phi, padding))


class _Gathered(torch.autograd.Function):
    """The factored order by kernels that never write down what each position sees.

    With G(p) = sum over d of x(p + d) phi(p, d), out = V G. The gradient by x is the same sum
    turned round: phi(q - d, d) weighs the gradients at q - d, and V^T comes after.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        phi: Tensor,
        output: Tensor,
        bias: Tensor | None,
        padding: int,
    ) -> Tensor:
        x, phi = x.permute(0, 2, 3, 1), phi.contiguous()  # channels last: contiguous
        k = round(phi.shape[1] ** 0.5)
        size = (x.shape[1] + 2 * padding - k + 1, x.shape[2] + 2 * padding - k + 1)
        gathered = neighbours.gather(x, phi, size, padding)
        ctx.save_for_backward(x, phi, output, gathered)
        ctx.size, ctx.padding = size, padding
        rows, weight = gathered.view(-1, x.shape[3] * phi.shape[2]), output.flatten(1).T
        return rows @ weight if bias is None else torch.addmm(bias, rows, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, phi, output, gathered = ctx.saved_tensors
        images, height, width, channels = x.shape
        gradient = gradient.to(x.dtype).contiguous()
        by_output = (gradient.T @ gathered.view(len(gradient), -1)).view_as(output)
        by_gathered = (gradient @ output.flatten(1)).view_as(gathered)
        by_phi = neighbours.correlate(x, by_gathered, phi, ctx.size, ctx.padding)
        given = gradient.view(images, *ctx.size, -1)
        back = neighbours.gather(given, phi, (height, width), ctx.padding, turned=True)
        weight = output.transpose(1, 2).reshape(-1, channels)
        by_x = (back.view(-1, len(weight)) @ weight).view(x.shape).permute(0, 3, 1, 2)
        by_bias = gradient.sum(0) if ctx.needs_input_grad[3] else None
        return by_x, by_phi, by_output, by_bias, None
