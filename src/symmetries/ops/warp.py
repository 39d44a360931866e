"""Resampling of images by an affine map of the plane.

The output at a point p is the input at theta p: ``theta`` maps output points to input points,
in half-image units with x to the right and y up (half of the longer side is 1). Pixels are
squares whose values lie at their centres.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._validation.checks import check_choice, check_images, invalid
from symmetries._validation.placement import exact_products
from symmetries.ops._dispatch import readable, record
from symmetries.ops._vmap_rules import fold, foldable
from symmetries.ops.bspline import spline_coefficients, spline_sample

Interpolation = Literal["bilinear", "bicubic", "bspline"]
Padding = Literal["constant", "border", "reflect"]
INTERPOLATIONS = ("bilinear", "bicubic", "bspline")
PADDINGS = {"constant": "zeros", "border": "border", "reflect": "reflection"}


def warp(
    images: Tensor,
    theta: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "constant",
    fill: float = 0.0,
) -> Tensor:
    """Resample images through affine maps: out(p) = in(theta p).

    Args:
        images: (N, C, H, W).
        theta: maps from output to input points: (2, 3) shared by all images (one grid serves every
            image and channel), (N, 2, 3) one per image, or (N, S, 2, 3) for S maps per image.
        interpolation: "bilinear"; "bicubic", Keys' cubic convolution with a = -0.75 as in torch; or
            "bspline", the interpolating cubic B-spline.
        padding: values outside the image: "constant" (``fill``), "border" (the nearest border
            pixel) or "reflect" (the image reflected at its edge).
        fill: background value if padding is "constant".

    Returns:
        (N, C, H, W), or (N, S, C, H, W) if theta has S maps per image.

    Example:
        >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> half_turn = torch.tensor([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
        >>> warp(image, half_turn).flatten().tolist()
        [3.0, 2.0, 1.0, 0.0]
    """
    check_images(images)
    check_choice(interpolation, INTERPOLATIONS, "interpolation")
    check_choice(padding, PADDINGS, "padding")
    n, lead = len(images), theta.shape[:-2]
    if theta.shape[-2:] != (2, 3) or len(lead) > 2 or (lead and lead[0] != n):
        shape = f"shape {tuple(theta.shape)}"
        remedy = "give one map, one per image, or S per image"
        raise invalid("theta", f"shape (2, 3), ({n}, 2, 3) or ({n}, S, 2, 3)", shape, remedy)
    if lead:
        return _resample(images, theta, interpolation, padding, fill)
    return _resample(images, theta[None, None], interpolation, padding, fill).squeeze(1)


def warp_shared(
    images: Tensor,
    theta: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "constant",
    fill: float = 0.0,
) -> Tensor:
    """Resample every image through each of S maps: (N, C, H, W), (S, 2, 3) -> (N, S, C, H, W)."""
    check_images(images)
    if theta.ndim != 3 or theta.shape[1:] != (2, 3):
        shape = f"shape {tuple(theta.shape)}"
        raise invalid("theta", "shape (S, 2, 3)", shape, "one map for each version")
    return _resample(images, theta[None], interpolation, padding, fill)


def _resample(
    images: Tensor, theta: Tensor, interpolation: Interpolation, padding: Padding, fill: float
) -> Tensor:
    """Resample images (N, C, H, W) by maps (N, S, 2, 3), or (1, S, 2, 3): (N, S, C, H, W).

    Maps (N, 2, 3), one per image, give (N, C, H, W). Images of 16 bits are resampled in float32,
    because 16-bit coordinates would be wrong by a tenth of a pixel.
    """
    if images.dtype in (torch.bfloat16, torch.float16):
        rest = (interpolation, padding, fill)
        return _resample(images.float(), theta.float(), *rest).to(images.dtype)
    theta = theta.to(images.dtype)
    if len(images) == 0:
        nothing = images.new_zeros(0, *theta.shape[1:-2], *images.shape[1:])
        return nothing + 0 * (images.sum() + theta.sum())  # zero gradients instead of none
    if padding == "constant" and foldable("warp", images, theta):
        maps = theta.expand(len(images), *theta.shape[1:])
        rest = (interpolation, padding, fill)
        return fold(lambda x, t: _resample(x, t, *rest), images, maps, axes=(0, 0))
    shift = fill if padding == "constant" else 0.0
    if shift:
        images = images - shift
    out = _fused_warp(images, theta, interpolation) if padding == "constant" else None
    if out is None:
        with exact_products(images):
            out = _grid_warp(images, theta, interpolation, padding)
    return out + shift if shift else out


def _fused_warp(images: Tensor, theta: Tensor, interpolation: Interpolation) -> Tensor | None:
    """Resample with the GPU kernel, maps as in :func:`_resample`; None where it cannot be used."""
    from symmetries.ops.cuda.warp_cuda import CudaWarp, maps_of, plan

    def plain(images: Tensor, theta: Tensor) -> Tensor:
        return _grid_warp(images, theta, interpolation, "constant")

    def oracle(images: Tensor, maps: Tensor) -> Tensor:
        return plain(images, maps.reshape(*maps.shape[:2], 2, 3))

    if not readable("warp", images, theta):
        return None
    images = images.contiguous()
    made = plan(images, maps_of(theta.detach()), interpolation, oracle)
    if not record("warp", made is not None):
        return None
    return CudaWarp.apply(images, theta, made, plain)  # type: ignore[no-untyped-call]


def _grid_warp(
    images: Tensor, theta: Tensor, interpolation: Interpolation, padding: Padding
) -> Tensor:
    """Resample with torch's ``grid_sample``.

    The S grids are stacked along the height; shared grids move the batch into the channels, so
    that neither images nor grids are copied.
    """
    n, c, height, width = images.shape
    shared, versions = len(theta) < n, theta.shape[1] if theta.ndim == 4 else 1
    grid = sampling_grid(theta, height, width).reshape(len(theta), versions * height, width, 2)
    source = images.reshape(1, n * c, height, width) if shared else images
    if interpolation == "bspline":
        coefficients = spline_coefficients(source, padding)
        out = spline_sample(coefficients, grid, padding, (height, width))
    else:
        mode = PADDINGS[padding]
        out = F.grid_sample(
            source, grid, mode=interpolation, padding_mode=mode, align_corners=False
        )
    if theta.ndim == 4:
        out = out.reshape(n, c, versions, height, width).transpose(1, 2)
    if interpolation == "bilinear" and padding != "constant":
        # torch clips NaN coordinates into the image: values sampled there are set to NaN instead.
        out = out + 0 * theta.detach().sum((-2, -1))[..., None, None, None]
    return out


def sampling_grid(theta: Tensor, height: int, width: int) -> Tensor:
    """Return where torch's ``grid_sample`` reads for maps (..., 2, 3): (maps, H, W, 2)."""
    k = _grid_matrix(height, width, theta.dtype, theta.device)
    return (theta.reshape(-1, 6) @ k).reshape(-1, height, width, 2)


@constant
def _grid_matrix(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return K (6, 2HW): the homogeneous output points, arranged for the rows of theta.

    Torch's grid divides x by the half width and y by the half height and points y down. Our unit
    is half of the longer side, which gives a factor longer / side for each row.
    """
    longer = max(height, width)
    x = (2 * torch.arange(width, dtype=torch.float64) + 1 - width) / longer
    y = -(2 * torch.arange(height, dtype=torch.float64) + 1 - height) / longer
    points = torch.stack((x.expand(height, width), y[:, None].expand(height, width)), 0)
    points = torch.cat((points, torch.ones(1, height, width, dtype=torch.float64)))
    k = torch.zeros(2, 3, height, width, 2, dtype=torch.float64)
    k[0, ..., 0] = points * (longer / width)
    k[1, ..., 1] = points * (-longer / height)
    return k.reshape(6, -1).to(dtype=dtype, device=device)
