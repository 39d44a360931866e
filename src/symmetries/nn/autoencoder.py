"""Convolutional encoders and decoders of variational autoencoders."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.config import Config
from symmetries._utils.field_rules import Size
from symmetries._validation.checks import (
    check_chw,
    check_counts,
    check_floats,
    check_image_shape,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries._validation.placement import check_like, check_together
from symmetries.ops.gelu_norm import gelu_norm, has_fused_form
from symmetries.ops.rounded import rounded_products


@dataclass(frozen=True)
class AutoencoderConfig(Config):
    """Sizes of an encoder and its mirrored decoder.

    Args:
        latent: size of z.
        channels: of the encoder's convolutions; the decoder has them in reverse.
        strides: of the encoder's convolutions.
        hidden: units of the hidden layer between convolutions and code.
        half: convolutions in bfloat16 on CUDA.
    """

    latent: Size = 20
    channels: tuple[int, ...] = (64, 128)
    strides: tuple[int, ...] = (2, 2)
    hidden: Size = 256
    half: bool = False


REDUCED = 3  # number of channels before images are flattened


class ChannelNorm(nn.Module):
    """Layer norm LN(gelu(x + b)) over the channels of each pixel of (N, C, H, W).

    Args:
        channels: number of channels C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        check_whole(channels, "channels")
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return a tensor of the same shape; the bias (C,) is the previous layer's, if any."""
        check_floats(x, "x", "N", self.norm.normalized_shape[0], "H", "W")
        check_together(weights=self.norm.weight, x=x)
        pixels = x.permute(0, 2, 3, 1)  # contiguous rows if x is channels last
        rows = pixels.reshape(-1, x.shape[1])
        if rows.dtype == self.norm.weight.dtype or has_fused_form(rows, self.norm):
            units = gelu_norm(rows, self.norm, bias)
        else:
            units = self._rounded(rows, bias)
        return units.reshape(pixels.shape).permute(0, 3, 1, 2)

    def _rounded(self, rows: Tensor, bias: Tensor | None) -> Tensor:
        # Autocast would widen the rows; sums inside are in single precision in any case.
        weight, offset = self.norm.weight.to(rows.dtype), self.norm.bias.to(rows.dtype)
        with torch.autocast(rows.device.type, enabled=False):
            units = F.gelu(rows if bias is None else rows + bias.to(rows.dtype))
            return F.layer_norm(units, weight.shape, weight, offset, self.norm.eps)


def convolve(layers: nn.Sequential, x: Tensor) -> Tensor:
    """Apply a sequence of (transposed) convolutions and channel norms.

    A bias is added by the following norm, which reads all pixels in any case.
    """
    bias: Tensor | None = None
    for layer in layers:
        if isinstance(layer, ChannelNorm):
            x, bias = layer(x, bias), None
        elif isinstance(layer, nn.ConvTranspose2d):
            # Sizes are pairs, because the classes convert single numbers.
            sizes = (layer.stride, layer.padding, layer.output_padding)
            x, bias = F.conv_transpose2d(x, layer.weight, None, *sizes), layer.bias  # type: ignore[arg-type]
        elif isinstance(layer, nn.Conv2d):
            x, bias = F.conv2d(x, layer.weight, None, layer.stride, layer.padding), layer.bias
    return x if bias is None else x + bias[:, None, None]


class ConvEncoder(nn.Module):
    """Encoder from images (N, C, H, W) to numbers (N, outputs), initially all zero.

    3 x 3 convolutions, each with an activation and a :class:`ChannelNorm`, then one convolution
    with 3 channels and one hidden layer (the encoder of Allingham et al. 2024, Appendix C.4).

    Args:
        shape: (C, H, W) of the images.
        outputs: number of outputs.
        channels: channels of the convolutions.
        strides: strides of the convolutions.
        hidden: number of units of the hidden layer.
        half: whether convolutions are in bfloat16 on CUDA.

    Example:
        >>> ConvEncoder((1, 8, 8), 40, channels=(8, 16))(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 40])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        *,
        channels: Sequence[int] = (64, 128),
        strides: Sequence[int] = (2, 2),
        hidden: int = 256,
        half: bool = False,
    ) -> None:
        super().__init__()
        check_counts(outputs=outputs, hidden=hidden)
        self.half_precision = half
        sizes = conv_sizes(shape, channels, strides)
        self.shape = tuple(shape)
        layers: list[nn.Module] = []
        for (before, after), stride in zip(pairwise((shape[0], *channels)), strides, strict=True):
            conv = nn.Conv2d(before, after, 3, stride=stride, padding=1)
            layers += [conv, ChannelNorm(after)]
        layers.append(nn.Conv2d(channels[-1], REDUCED, 3, padding=1))
        self.convolutions = nn.Sequential(*layers)
        height, width = sizes[-1]
        self.hidden = nn.Linear(REDUCED * height * width, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.head = zero_linear(hidden, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Return numbers (N, outputs)."""
        remedy = "a network reads the size it was made for"
        check_image_shape(images, self.shape, remedy=remedy)
        check_like(images, self.hidden.weight, "images")
        with rounded_products(images, self.half_precision):
            x = images.to(memory_format=torch.channels_last)
            x = convolve(self.convolutions, x)
        x = self.norm(F.gelu(self.hidden(x.flatten(1).to(images.dtype))))
        return self.head(x)


class ConvDecoder(nn.Module):
    """Decoder from codes (N, latent) to images (N, C, H, W): the transposed layers of the encoder.

    Args:
        shape: (C, H, W) of the images.
        latent: size of a code.
        channels: channels of the encoder's convolutions.
        strides: strides of the encoder's convolutions.
        hidden: number of units of the hidden layer.
        half: whether convolutions are in bfloat16 on CUDA.

    Example:
        >>> ConvDecoder((3, 9, 8), 20, channels=(8, 16))(torch.rand(5, 20)).shape
        torch.Size([5, 3, 9, 8])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        latent: int,
        *,
        channels: Sequence[int] = (64, 128),
        strides: Sequence[int] = (2, 2),
        hidden: int = 256,
        half: bool = False,
    ) -> None:
        super().__init__()
        check_counts(latent=latent, hidden=hidden)
        self.latent = latent
        self.half_precision = half
        smaller = conv_sizes(shape, channels, strides)
        sizes = [tuple(shape[1:]), *smaller]
        self.start = (channels[-1], *sizes[-1])
        self.dense = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.GELU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, math.prod(self.start)),
        )
        layers: list[nn.Module] = []
        widths = [shape[0], *channels]
        for i in reversed(range(len(channels))):
            stride = strides[i]
            # Restore the pixels that a stride drops at the far end.
            extra = (
                sizes[i][0] - ((sizes[i + 1][0] - 1) * stride + 1),
                sizes[i][1] - ((sizes[i + 1][1] - 1) * stride + 1),
            )
            conv = nn.ConvTranspose2d(
                widths[i + 1], widths[i], 3, stride=stride, padding=1, output_padding=extra
            )
            # torch takes the outputs of a transposed convolution for its fan-in.
            reach = stride / math.sqrt(9 * widths[i + 1])
            nn.init.uniform_(conv.weight, -reach, reach)
            nn.init.constant_(conv.bias, 0.0)  # type: ignore[arg-type]
            layers += [ChannelNorm(widths[i + 1]), conv]
        self.convolutions = nn.Sequential(*layers)

    def forward(self, z: Tensor) -> Tensor:
        """Return means (N, C, H, W)."""
        check_floats(z, "z", "...")
        if z.ndim != 2 or z.shape[1] != self.latent:
            expected = f"codes of shape (N, {self.latent})"
            raise invalid("z", expected, f"shape {tuple(z.shape)}", "flatten leading axes first")
        check_like(z, cast(nn.Linear, self.dense[0]).weight, "z")
        start = self.dense(z).unflatten(1, self.start)
        with rounded_products(z, self.half_precision):
            out = convolve(self.convolutions, start.to(memory_format=torch.channels_last))
        return out.to(z.dtype).contiguous()


def conv_sizes(
    shape: tuple[int, int, int], channels: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Return height and width after each 3 x 3 convolution with padding 1.

    Example:
        >>> conv_sizes((1, 28, 28), (64, 128), (2, 2))
        [(14, 14), (7, 7)]
    """
    check_chw(shape)
    for name, numbers in (("channels", channels), ("strides", strides)):
        if not isinstance(numbers, Sequence):
            raise wrong_type(name, "whole numbers", numbers, "one for each convolution")
        for number in numbers:
            check_whole(number, name)
    if not channels or len(channels) != len(strides):
        expected = f"a stride for each of {len(channels)} convolutions, at least one"
        remedy = "give one for each convolution"
        raise invalid("strides", expected, f"{len(strides)} strides", remedy)
    _, height, width = shape
    sizes = []
    for stride in strides:
        height, width = (height - 1) // stride + 1, (width - 1) // stride + 1
        sizes.append((height, width))
    return sizes


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear layer that is initially zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
