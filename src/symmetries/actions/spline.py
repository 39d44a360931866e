"""Interpolating cubic B-splines: a prefilter, then sixteen taps as four bilinear look-ups."""

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.caching import constant

# The prefilter forgets by a factor 0.268 a pixel: after this many it is below rounding.
_MARGIN = {torch.float64: 26}
_MARGIN_SINGLE = 12


def bspline_sample(images: Tensor, grid: Tensor, padding: str) -> Tensor:
    """Values of the interpolating cubic B-spline of images (N, C, H, W) at grid points.

    The four taps of each axis are taken two at a time: linear interpolation between two
    neighbours at the right place gives their weighted sum.

    Args:
        images: (N, C, H, W).
        grid: (N, H', W', 2) in torch's coordinates.
        padding: "constant" (zero), "border" or "reflect".
    """
    height, width = images.shape[-2:]
    if padding == "reflect":
        margin = 0
        coefficients = images
    else:
        margin = _MARGIN.get(images.dtype, _MARGIN_SINGLE)
        mode = "constant" if padding == "constant" else "replicate"
        coefficients = F.pad(images, (margin,) * 4, mode=mode)
    rows = _prefilter(height + 2 * margin, images.dtype, images.device)
    columns = _prefilter(width + 2 * margin, images.dtype, images.device)
    coefficients = rows @ coefficients @ columns
    outside = {"constant": "zeros", "border": "border", "reflect": "reflection"}[padding]
    x, x_weight = _pair(grid[..., 0], width)
    y, y_weight = _pair(grid[..., 1], height)
    total: Tensor | float = 0.0
    for i in range(2):
        for j in range(2):
            points = torch.stack(
                (_normalise(x[i], width, margin), _normalise(y[j], height, margin)), -1
            )
            part = F.grid_sample(coefficients, points, padding_mode=outside, align_corners=False)
            total = total + (x_weight[i] * y_weight[j])[:, None] * part
    return total  # type: ignore[return-value]


def _pair(coordinate: Tensor, size: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Two positions (in pixels) and weights that stand for the four cubic B-spline taps."""
    pixel = (coordinate + 1) * (size / 2) - 0.5
    base = pixel.floor()
    f = pixel - base
    g = 1 - f
    w0, w3 = g**3 / 6, f**3 / 6
    w1 = 2 / 3 - f * f * (2 - f) / 2
    w2 = 2 / 3 - g * g * (2 - g) / 2
    low, high = w0 + w1, w2 + w3
    return (base - 1 + w1 / low, base + 1 + w3 / high), (low, high)


def _normalise(pixel: Tensor, size: int, margin: int) -> Tensor:
    return (2 * (pixel + margin) + 1) / (size + 2 * margin) - 1


@constant
def _prefilter(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Inverse of the matrix that samples a cubic B-spline at the pixels, with reflected ends."""
    matrix = torch.eye(size, dtype=torch.float64) * (4 / 6)
    if size > 1:
        off = torch.full((size - 1,), 1 / 6, dtype=torch.float64)
        matrix += off.diag(1) + off.diag(-1)
    matrix[0, 0] += 1 / 6
    matrix[-1, -1] += 1 / 6
    inverse: Tensor = torch.linalg.inv(matrix)
    return inverse.to(dtype=dtype, device=device)
