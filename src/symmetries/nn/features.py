"""Feature extractors for images: a fully connected and a small convolutional network."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_choice,
    check_chw,
    check_image_shape,
    check_images,
    check_whole,
    wrong_type,
)
from symmetries._validation.placement import check_like
from symmetries.nn.perceptron import MLP
from symmetries.ops.rounded import products_may_round, rounded_products

Network = Literal["mlp", "cnn"]
NETWORKS = ("mlp", "cnn")


class ImageFeatures(nn.Module):
    """Features (N, widths[-1]) of images (N, C, H, W), which are standardised first.

    "mlp" reads all pixels at once; "cnn" first reduces the image by three convolutions of stride 2,
    which suits images much larger than 32 x 32.

    Args:
        shape: (C, H, W) of the images.
        widths: widths of the fully connected hidden layers.
        network: "mlp" or "cnn".
        dropout: dropout after each hidden layer.
        channels: channels of the first convolution, doubled by each further one.

    Example:
        >>> ImageFeatures((1, 8, 8), (32, 16))(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        widths: Sequence[int],
        *,
        network: Network = "mlp",
        dropout: float = 0.0,
        channels: int = 32,
    ) -> None:
        super().__init__()
        check_choice(network, NETWORKS, "network")
        check_chw(shape)
        if not isinstance(widths, Sequence):
            raise wrong_type("widths", "whole numbers", widths, "one for each hidden layer")
        for units in widths:
            check_whole(units, "widths")
        check_whole(channels, "channels")
        self.shape = tuple(shape)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))
        self.mean: Tensor
        self.scale: Tensor
        inputs, height, width = shape
        convolutions: list[nn.Module] = []
        if network == "cnn":
            for i in range(3):
                outputs = channels * 2**i
                conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
                convolutions += [conv, nn.GELU(), nn.GroupNorm(1, outputs)]
                inputs, height, width = outputs, (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*convolutions)
        self.mlp = MLP(inputs * height * width, widths, dropout)
        self.features = self.mlp.features

    def standardise(self, images: Tensor) -> None:
        """Store the mean and standard deviation of the data, which standardise inputs."""
        check_images(images)
        self.mean.copy_(images.mean())
        self.scale.copy_(images.std().clamp_min(1e-6))

    def forward(self, images: Tensor) -> Tensor:
        """Return features of images (N, C, H, W)."""
        return self.units(images).to(images.dtype)

    def units(self, images: Tensor) -> Tensor:
        """Return features in the dtype of the computation: bfloat16 if products are."""
        remedy = "a network reads the size it was made for"
        check_image_shape(images, self.shape, remedy=remedy)
        check_like(images, self.mean, "images")
        rounded = products_may_round(images)
        x = self._standardised(images, torch.bfloat16 if rounded else images.dtype)
        return self.hidden(x, rounded)

    def hidden(self, x: Tensor, rounded: bool) -> Tensor:
        """Return features of standardised images, with products in bfloat16 or not."""
        with rounded_products(x, rounded):
            features: Tensor = self.mlp(self.convolutions(x).flatten(1))
        return features

    def _standardised(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        factor = 1 / self.scale
        return torch.addcmul(-self.mean * factor, images, factor).to(dtype)
