"""Convolutions from or to very few channels, as matrix products.

Libraries of convolutions are made for many channels: where images have one, at the beginning of an
encoder and at the end of a decoder, their kernels do a multiple of the work. A product of all
patches with the weights does not.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.kernels.available import usable

MOST = 32  # numbers of a patch, or from one pixel: more are left to torch
_DTYPES = (torch.float32, torch.bfloat16)
Pair = Sequence[int]


def is_thin(x: Tensor, weight: Tensor, channels: int) -> bool:
    """Whether products are the better way: on CUDA, with so few channels on the thin side."""
    few = channels * weight[0, 0].numel() <= MOST
    return few and usable(weight) and usable(x, dtypes=_DTYPES)


def patches(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, size: Pair) -> Tensor:
    """The patches (N, h, w, C kh kw) that a convolution reads, for outputs of size (h, w).

    Args:
        x: (N, C, H, W).
        kernel: (kh, kw).
        stride: of the convolution.
        padding: zeros at each side.
        size: (h, w).

    Example:
        >>> patches(torch.arange(4.0).reshape(1, 1, 2, 2), (2, 2), (1, 1), (0, 0), (1, 1))
        tensor([[[[0., 1., 2., 3.]]]])
    """
    far = [
        max(0, stride[a] * (size[a] - 1) + kernel[a] - padding[a] - x.shape[2 + a]) for a in (0, 1)
    ]
    wide = F.pad(x, (padding[1], far[1], padding[0], far[0]))
    down, across = (stride[a] * (size[a] - 1) + 1 for a in (0, 1))
    shifted = [
        wide[:, :, i : i + down : stride[0], j : j + across : stride[1]]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]
    return torch.stack(shifted, -1).permute(0, 2, 3, 1, 4).flatten(3)


class Scatter(torch.autograd.Function):
    """The sum of patches (N, h, w, C kh kw) where they overlap: the transpose of :func:`patches`.

    Torch has it as ``fold``, whose gradient it finds image by image.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        rows: Tensor,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        size: Pair,
    ) -> Tensor:
        """Images (N, C, H, W) of this size."""
        ctx.arguments = (kernel, stride, padding, rows.shape[1:3])
        columns = rows.flatten(1, 2).transpose(1, 2).float()
        return F.fold(
            columns,
            output_size=tuple(size),
            kernel_size=tuple(kernel),
            padding=tuple(padding),
            stride=tuple(stride),
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """The patches of the gradient."""
        return patches(grad, *ctx.arguments), None, None, None, None


def thin_conv2d(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
    """``F.conv2d(x, weight, None, stride, padding)``, channels last in memory.

    Args:
        x: (N, C, H, W), few channels.
        weight: (O, C, kh, kw).
        stride: one for each axis.
        padding: one for each axis.

    Example:
        >>> x, weight = torch.rand(2, 1, 8, 8), torch.rand(5, 1, 3, 3)
        >>> thin = thin_conv2d(x, weight, (2, 2), (1, 1))
        >>> torch.allclose(thin, F.conv2d(x, weight, None, 2, 1), atol=1e-6)
        True
    """
    kernel = weight.shape[2:]
    size = [(x.shape[2 + a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in (0, 1)]
    rows = patches(x, kernel, stride, padding, size)
    return F.linear(rows, weight.flatten(1)).permute(0, 3, 1, 2)


def thin_conv_transpose2d(
    x: Tensor, weight: Tensor, stride: Pair, padding: Pair, output_padding: Pair
) -> Tensor:
    """``F.conv_transpose2d(x, weight, None, stride, padding, output_padding)``, in float32.

    Args:
        x: (N, C, H, W).
        weight: (C, O, kh, kw), few channels O.
        stride: one for each axis.
        padding: one for each axis.
        output_padding: one for each axis.

    Example:
        >>> x, weight = torch.rand(2, 5, 4, 4), torch.rand(5, 1, 3, 3)
        >>> thin = thin_conv_transpose2d(x, weight, (2, 2), (1, 1), (1, 1))
        >>> torch.allclose(thin, F.conv_transpose2d(x, weight, None, 2, 1, 1), atol=1e-6)
        True
    """
    kernel = weight.shape[2:]
    size = [
        stride[a] * (x.shape[2 + a] - 1) - 2 * padding[a] + kernel[a] + output_padding[a]
        for a in (0, 1)
    ]
    rows = F.linear(x.permute(0, 2, 3, 1), weight.flatten(1).T)
    out: Tensor = Scatter.apply(rows, kernel, stride, padding, size)  # type: ignore[no-untyped-call]
    return out
