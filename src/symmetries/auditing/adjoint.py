"""Adjoint of a first convolution, fast for images with few channels.

Propagating gradients back through a convolution to one or three channels leaves a processor's
vector units nearly empty, because they run along the channels of the result. Here neighbouring
pixels of the result take the place of channels.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 4  # largest number of image channels for which this is faster
PHASES = 4  # side, in pixels, of the block that is computed together


def convolution_adjoint(layer: nn.Module, shape: torch.Size) -> Callable[[Tensor], Tensor] | None:
    r"""Return C^T of a convolution C as one strided convolution; None if that is not faster.

    The pixels p = s q + r of C^T g, for the s^2 phases r, are s^2 channels of an image of a smaller
    grid q, all read from the same window of g: a convolution of stride s whose filters are those
    of C, flipped and shifted by r.

    Args:
        layer: a convolution of images.
        shape: (C, H, W) of one image.

    Returns:
        A function from gradients (N, O, H', W') of the layer's output to (N, C, H, W).

    Example:
        >>> layer, x = nn.Conv2d(1, 3, 5, padding=2), torch.rand(2, 1, 7, 7, requires_grad=True)
        >>> g = torch.rand(2, 3, 7, 7)
        >>> adjoint = convolution_adjoint(layer, x.shape[1:])
        >>> torch.allclose(adjoint(g), torch.autograd.grad(layer(x), x, g)[0], atol=1e-5)
        True
    """
    if not isinstance(layer, nn.Conv2d) or not _pays(layer):
        return None
    padding = _padding(layer)
    if padding is None:
        return None
    weight, s = _phases(layer.weight.detach()), PHASES
    _, height, width = shape
    (up, left), (rows, columns) = padding, (-(-height // s), -(-width // s))

    def adjoint(g: Tensor) -> Tensor:
        window = weight.shape[2:]
        down = s * (rows - 1) + window[0] - up - g.shape[2]
        right = s * (columns - 1) + window[1] - left - g.shape[3]
        padded = F.pad(g, (left, right, up, down))
        return F.pixel_shuffle(F.conv2d(padded, weight, stride=s), s)[..., :height, :width]

    return adjoint


def _pays(layer: nn.Conv2d) -> bool:
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    plain = plain and layer.padding_mode == "zeros"
    own = type(layer)._conv_forward is nn.Conv2d._conv_forward  # not redefined
    on_cpu = layer.weight.device.type == "cpu"
    return plain and own and on_cpu and layer.in_channels <= FEW


def _padding(layer: nn.Conv2d) -> tuple[int, int] | None:
    """Return the number of zero rows above and zero columns left of g."""
    tall, wide = layer.kernel_size
    if layer.padding == "valid":
        return tall - 1, wide - 1
    if isinstance(layer.padding, str):  # "same" pads the smaller half first
        return tall - 1 - (tall - 1) // 2, wide - 1 - (wide - 1) // 2
    up, left = tall - 1 - int(layer.padding[0]), wide - 1 - int(layer.padding[1])
    return (up, left) if up >= 0 and left >= 0 else None


def _phases(weight: Tensor) -> Tensor:
    """Return the filters (C s s, O, h + s - 1, w + s - 1) of the strided convolution."""
    outputs, channels, tall, wide = weight.shape
    s = PHASES
    kernels = weight.new_zeros(channels, s, s, outputs, tall + s - 1, wide + s - 1)
    flipped = weight.flip(2, 3).transpose(0, 1)
    for a in range(s):
        for b in range(s):
            kernels[:, a, b, :, a : a + tall, b : b + wide] = flipped
    return kernels.flatten(0, 2)
