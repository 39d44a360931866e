"""Gaussian blur of images, as products with a matrix of taps or as convolutions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._validation.checks import check_images, invalid
from symmetries._validation.placement import exact_products

_LARGE = 2048  # height + width from which a convolution needs fewer multiplications


def gaussian_blur(images: Tensor, sigma: float, kernel_size: int | None = None) -> Tensor:
    """Gaussian blur with reflected edges; sigma in half-image units (half the longer side is 1).

    Each axis takes one product with a matrix of the taps, which includes the edges. Large images,
    and devices that round matrix products to bfloat16, use a convolution.

    Args:
        images: (N, C, H, W).
        sigma: standard deviation; 0 leaves the images as they are.
        kernel_size: odd number of taps; by default three sigma to each side.

    Example:
        >>> gaussian_blur(torch.ones(1, 1, 8, 8), 0.25).allclose(torch.ones(1, 1, 8, 8))
        True
    """
    check_images(images)
    if sigma < 0:
        raise invalid("sigma", "a number >= 0", sigma, "0 turns the blur off")
    height, width = images.shape[-2:]
    pixels = sigma * max(height, width) / 2
    if pixels == 0:
        return images
    radius = round(3 * pixels + 0.5) if kernel_size is None else kernel_size // 2
    like = (images.dtype, images.device)
    rounded = images.is_cuda and torch.get_float32_matmul_precision() == "medium"
    with exact_products(images):
        if radius >= min(height, width) or (height + width <= _LARGE and not rounded):
            rows = _blur_matrix(height, radius, pixels, *like)
            return rows @ (images @ _blur_matrix(width, radius, pixels, *like).T)
        taps = _gaussian(radius, pixels, *like)
        n, c = images.shape[:2]
        flat = F.pad(images.reshape(n * c, 1, height, width), (radius,) * 4, mode="reflect")
        flat = F.conv2d(flat, taps.reshape(1, 1, -1, 1))
        return F.conv2d(flat, taps.reshape(1, 1, 1, -1)).reshape(n, c, height, width)


def _gaussian(radius: int, pixels: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the taps (2 radius + 1,) of a normalised Gaussian with this width in pixels."""
    offsets = torch.arange(-radius, radius + 1, dtype=dtype, device=device)
    taps = torch.exp(-0.5 * (offsets / pixels) ** 2)
    return taps / taps.sum()


@constant
def _blur_matrix(
    length: int, radius: int, pixels: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return B (length, length): the taps around each pixel, with reflection beyond the edges.

    An image that is reflected at both edges has period 2 (length - 1) pixels.
    """
    offsets = torch.arange(-radius, radius + 1, device=device)
    last = length - 1
    places = (torch.arange(length, device=device)[:, None] + offsets) % max(1, 2 * last)
    places = last - (last - places).abs()
    taps = _gaussian(radius, pixels, dtype, device).expand(length, -1)
    return torch.zeros(length, length, dtype=dtype, device=device).scatter_add_(1, places, taps)
