"""Centre and size of a picture's content, given to f so that it does not have to learn them."""

from typing import Any

import torch
from torch import Tensor

from symmetries.groups.base import Group
from symmetries.learners.symmetry_model.coordinates import (
    content_centre,
    content_mass,
    pixel_centres,
)
from symmetries.ops.warp import warp

STANDARD_SIZE = 0.3  # standard deviation of the content along an axis, in half-image units
LEAST_SIZE = 0.03


def seen_at_one_size(group: Group[Any]) -> bool:
    """Return whether f may see pictures scaled to one size: the zoom is known, or no parameter."""
    scales = {"scale_x", "scale_y", "zoom"} & set(group.names)
    return group.positional and (not scales or bool(group.zoom_columns))


def content_size(images: Tensor, centre: Tensor, fill: float = 0.0) -> Tensor:
    """Return the root of the mean square distance (N,) of the content to its centre, along an axis.

    Args:
        images: (N, C, H, W).
        centre: (N, 2), see :func:`content_centre`.
        fill: value of the background.

    Example:
        >>> image = torch.zeros(1, 1, 8, 8)
        >>> image[..., 2:6, 2:6] = 1.0
        >>> round(float(content_size(image, content_centre(image))), 3)
        0.28
    """
    height, width = images.shape[-2:]
    longer = max(height, width)
    mass = content_mass(images, fill)
    columns, rows = mass.sum(1), mass.sum(2)
    from_x = (pixel_centres(width, longer, images.dtype, images.device) - centre[:, :1]).square()
    from_y = (pixel_centres(height, longer, images.dtype, images.device) + centre[:, 1:]).square()
    square = (columns * from_x).sum(1) + (rows * from_y).sum(1)
    return (square / rows.sum(1) / 2).sqrt()


def standard_view(images: Tensor, fill: float, *, sized: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pictures moved to the middle and, where ``sized``, scaled to one size.

    With centre of mass c and log-size z the view is T_z^-1 T_c^-1 x, so that it is the same for
    every shift, and every zoom, of x that keeps the content in the frame.

    Args:
        images: x (N, C, H, W).
        fill: value of the background, which has no mass.
        sized: scale, too.

    Returns:
        The views, c (N, 2) and z (N,), which is 0 unless ``sized``.
    """
    centre = content_centre(images, fill)
    zoom = torch.zeros_like(centre[:, 0])
    scale = torch.eye(2, dtype=images.dtype, device=images.device).expand(len(images), 2, 2)
    if sized:
        size = content_size(images, centre, fill).clamp_min(LEAST_SIZE)
        zoom = (size / STANDARD_SIZE).log()
        scale = scale * (size / STANDARD_SIZE)[:, None, None]
    # What the view has at p is what the picture has at c + e^z p.
    return warp(images, torch.cat((scale, centre[..., None]), -1), fill=fill), centre, zoom


def off_centre(images: Tensor, element: Tensor, fill: float, *, sized: bool) -> Tensor:
    """Return how far T x is from the middle of the frame and, if ``sized``, one size, (N, K).

    |T c|^2 for the centre of mass c of x, plus (z + log det(T) / 2)^2 for its log-size z. Both are
    those of x itself, so that nothing is said about what falls out of the frame on the way.

    Args:
        images: x (N, C, H, W).
        element: T (N, K, 3, 3).
        fill: value of the background, which has no mass.
        sized: look at the size, too.

    Example:
        >>> image = torch.zeros(1, 1, 8, 8)
        >>> image[..., 1:3, 3:5] = 1.0  # its centre is at (0, 0.5)
        >>> from symmetries.groups.affine import Affine2
        >>> group = Affine2("translation")
        >>> two = group.exp(torch.tensor([[[0.0, -0.5], [0.0, 0.0]]]))
        >>> [round(v, 4) for v in off_centre(image, two, 0.0, sized=False)[0].tolist()]
        [0.0, 0.25]
    """
    centre = content_centre(images, fill)
    linear, shift = element[..., :2, :2], element[..., :2, 2]
    off = ((linear @ centre[:, None, :, None])[..., 0] + shift).square().sum(-1)
    if not sized:
        return off
    size = content_size(images, centre, fill).clamp_min(LEAST_SIZE)
    zoom = (size / STANDARD_SIZE).log()[:, None]
    (a, b), (c, d) = (row.unbind(-1) for row in linear.unbind(-2))
    return off + (zoom + (a * d - b * c).log() / 2).square()
