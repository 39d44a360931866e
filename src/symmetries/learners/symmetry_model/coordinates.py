"""Group elements as parameters in readable units, and the position of an image's content."""

from typing import Any

import torch
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries.groups.base import Group, map_element

LEAST_SPREAD = 0.01  # of the linear parts, in order to say anything about the centre
EXPLAINED = 0.35  # a turn about a point is one that leaves less than this share of the motion


def repeat_elements(element: Any, n: int) -> Any:  # noqa: ANN401 - elements differ by group
    """Return elements with leading shape (N,) as (N, n)."""
    return map_element(lambda e: e[:, None].expand(len(e), n, *e.shape[1:]), element)


def split_elements(element: Any, count: int) -> Any:  # noqa: ANN401 - elements differ by group
    """Return elements with leading shape (N S,) as (N, S), for N = ``count``."""
    return map_element(lambda e: e.unflatten(0, (count, -1)), element)


def read_motions(group: Group[Any], element: Any, content: Tensor | None = None) -> Tensor:  # noqa: ANN401
    """Return logarithms (N, S, dim) of transformations, with shifts measured in the moved picture.

    A shift in the logarithm is a velocity: beside a rotation the picture moves along an arc. So
    shifts are read as how far one point c of the picture moves, T c - c. That point is where the
    content is. But a picture that only ever turns about some other point is not shifted: where
    the point that moves least (see :func:`resting_point`) explains almost all motion, c is that.

    Args:
        group: the transformations.
        element: leading shape (N, S): S transformations of each of N images.
        content: (N, 2), see :func:`content_centre`; always the point that moves least without it.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> group = Affine2("rotation", "translation")
        >>> c = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> turns = group.exp(torch.tensor([[0.0, 0.0, -0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        >>> about_c = c @ turns @ torch.linalg.inv(c)
        >>> bool(read_motions(group, about_c[None])[..., :2].abs().max() < 1e-3)
        True
    """
    if group.factors[0] is not group:
        pairs = zip(group.factors, group.parts(element), strict=True)
        return torch.cat([read_motions(f, e, content) for f, e in pairs], -1)
    eta = group.named_log(element)
    if not group.planar or not {"shift_x", "shift_y"} & set(group.names):
        return eta
    linear, shift = element[..., :2, :2], element[..., :2, 2]
    moved = _motion(linear, shift, resting_point(linear, shift))
    if content is not None:
        seen = _motion(linear, shift, content)
        explained = _spread(moved) < EXPLAINED * _spread(seen)
        moved = torch.where(explained[:, None, None], moved, seen)
    columns = list(eta.unbind(-1))
    for axis, name in enumerate(("shift_x", "shift_y")):
        if name in group.names:
            columns[group.names.index(name)] = moved[..., axis]
    return torch.stack(columns, -1)


def content_centre(images: Tensor, fill: float = 0.0) -> Tensor:
    """Centre of mass (N, 2) of what differs from the background, in half-image units, y up.

    Args:
        images: (N, C, H, W).
        fill: value of the background.

    Example:
        >>> image = torch.zeros(1, 1, 4, 4)
        >>> image[0, 0, 0, 3] = 1.0  # top right
        >>> content_centre(image).tolist()
        [[0.75, 0.75]]
    """
    height, width = images.shape[-2:]
    longer = max(height, width)
    mass = content_mass(images, fill)
    columns, rows = mass.sum(1), mass.sum(2)
    x = (columns * pixel_centres(width, longer, images.dtype, images.device)).sum(1)
    y = (rows * pixel_centres(height, longer, images.dtype, images.device)).sum(1)
    return torch.stack((x, -y), -1) / rows.sum(1, keepdim=True)


def content_mass(images: Tensor, fill: float) -> Tensor:
    """Return how much each pixel differs from the background, (N, H, W), always positive."""
    far = images if fill == 0 else images - fill
    return far.abs().sum(1) + 1e-12


@constant
def pixel_centres(count: int, longer: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the centres of a row of pixels, from left to right, in half-image units."""
    return (2 * torch.arange(count, dtype=dtype, device=device) + 1 - count) / longer


def _motion(linear: Tensor, shift: Tensor, point: Tensor) -> Tensor:
    """Return how far transformations (N, S) move a point (N, 2) of each image, (N, S, 2)."""
    point = point[:, None]
    return (linear @ point[..., None])[..., 0] + shift - point


def _spread(moved: Tensor) -> Tensor:
    """Return the root of the mean square distance from the mean, (N,)."""
    return (moved - moved.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt()


def resting_point(linear: Tensor, shift: Tensor) -> Tensor:
    """Return the point c (N, 2) whose images A_s c + t_s vary least over s, by least squares.

    Where the A_s hardly differ every point is as good, and c stays at the middle of the frame.

    Args:
        linear: A (N, S, 2, 2).
        shift: t (N, S, 2).
    """
    a = linear - linear.mean(1, keepdim=True)
    t = shift - shift.mean(1, keepdim=True)
    normal = torch.einsum("nsij,nsik->njk", a, a) / a.shape[1]
    target = torch.einsum("nsij,nsi->nj", a, t) / a.shape[1]
    ridge = LEAST_SPREAD**2 * torch.eye(2, dtype=a.dtype, device=a.device)
    return -torch.linalg.solve(normal + ridge, target)
