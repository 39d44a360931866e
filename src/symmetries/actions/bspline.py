"""Interpolating cubic B-splines: a prefilter, then sixteen taps as four bilinear look-ups."""

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.caching import constant

# The prefilter decays by a factor 0.268 per pixel: beyond this many it is below rounding.
_MARGIN = {torch.float64: 26}
_MARGIN_SINGLE = 12


def spline_coefficients(images: Tensor, padding: str) -> Tensor:
    """Return the coefficients, with margin, of the cubic B-spline through the pixels.

    Args:
        images: (N, C, H, W).
        padding: "constant" (zero), "border" or "reflect"; the last needs no margin.

    Returns:
        (N, C, H + 2m, W + 2m).
    """
    height, width = images.shape[-2:]
    rows = _prefilter(height, padding, images.dtype, images.device)
    return rows @ (images @ _prefilter(width, padding, images.dtype, images.device).T)


def spline_sample(
    coefficients: Tensor, grid: Tensor, padding: str, size: tuple[int, int]
) -> Tensor:
    """Evaluate a cubic B-spline at grid points.

    The four taps of each axis are taken in pairs: linear interpolation between two neighbours at
    a suitable point gives their weighted sum.

    Args:
        coefficients: (N, C, H + 2m, W + 2m).
        grid: (N, H2, W2, 2) in torch's coordinates of the image without its margin.
        padding: the padding with which the coefficients were computed.
        size: (H, W).
    """
    height, width = size
    margin = (coefficients.shape[-1] - width) // 2
    outside = {"constant": "zeros", "border": "border", "reflect": "reflection"}[padding]
    x, x_weight = _pair(grid[..., 0], width)
    y, y_weight = _pair(grid[..., 1], height)
    columns = [_normalise(position, width, margin) for position in x]
    rows = [_normalise(position, height, margin) for position in y]
    total = coefficients.new_zeros(())
    for i in range(2):
        for j in range(2):
            points = torch.stack((columns[i], rows[j]), -1)
            part = F.grid_sample(coefficients, points, padding_mode=outside, align_corners=False)
            total = total + (x_weight[i] * y_weight[j])[:, None] * part
    return total


def _pair(coordinate: Tensor, size: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return two positions (in pixels) and weights equivalent to the four cubic B-spline taps."""
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
def _prefilter(size: int, padding: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the matrix (size + 2m, size) that pads a row of pixels and computes coefficients.

    It inverts the matrix that samples a cubic B-spline with reflected ends at the pixels. Columns
    of the margin belong to no pixel ("constant") or to the pixel at the end ("border").
    """
    margin = 0 if padding == "reflect" else _MARGIN.get(dtype, _MARGIN_SINGLE)
    length = size + 2 * margin
    matrix = torch.eye(length, dtype=torch.float64) * (4 / 6)
    if length > 1:
        off = torch.full((length - 1,), 1 / 6, dtype=torch.float64)
        matrix += off.diag(1) + off.diag(-1)
    matrix[0, 0] += 1 / 6
    matrix[-1, -1] += 1 / 6
    inverse = torch.linalg.inv(matrix)
    inner: Tensor = inverse[:, margin : margin + size].clone()
    if padding == "border":
        inner[:, 0] += inverse[:, :margin].sum(1)
        inner[:, -1] += inverse[:, margin + size :].sum(1)
    return inner.to(dtype=dtype, device=device)
