"""Group elements in numbers that a person reads."""

from typing import Any

import torch
from torch import Tensor

from symmetries.groups.affine import SIX, Affine2
from symmetries.groups.product import Product
from symmetries.groups.se2 import SE2

LEAST_SPREAD = 0.01  # of the linear parts, in order to say anything about the centre


def repeat_elements(element: Any, n: int) -> Any:  # noqa: ANN401 - elements differ by group
    """Elements with leading shape (N,) as (N, n)."""
    if isinstance(element, tuple):
        return tuple(repeat_elements(part, n) for part in element)
    return element[:, None].expand(len(element), n, *element.shape[1:])


def split_elements(element: Any, count: int) -> Any:  # noqa: ANN401 - elements differ by group
    """Elements with leading shape (N S,) as (N, S), for N = ``count``."""
    if isinstance(element, tuple):
        return tuple(split_elements(part, count) for part in element)
    return element.unflatten(0, (count, -1))


def named_log(group: Any, element: Any) -> Tensor:  # noqa: ANN401 - elements differ by group
    """Logarithm (..., dim) in the group's own parameters, the rest of an open family dropped."""
    if isinstance(group, Product):
        pairs = zip(group.factors, element, strict=True)
        return torch.cat([named_log(f, e) for f, e in pairs], -1)
    eta = torch.as_tensor(group.log(element))
    if isinstance(group, Affine2) and not group.closed:
        columns = [SIX.index("scale_x" if name == "zoom" else name) for name in group.names]
        return eta[..., columns]
    return eta


def read_motions(group: Any, element: Any) -> Tensor:  # noqa: ANN401 - elements differ by group
    """What the transformations of each image do, (N, S, dim): logarithms, but shifts as seen.

    A shift in the logarithm is a velocity: beside a rotation the picture moves along an arc, and a
    picture off the middle of its frame needs a shift in order to turn on the spot. So shifts are
    read as how far one point c of the picture moves, T c - c, namely the point that moves least
    (see :func:`resting_point`): nothing for what only ever turns about some point.

    Args:
        group: the transformations.
        element: leading shape (N, S): S transformations of each of N images.

    Example:
        >>> group = Affine2("rotation", "translation")
        >>> c = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> turns = group.exp(torch.tensor([[0.0, 0.0, -0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        >>> about_c = c @ turns @ torch.linalg.inv(c)
        >>> bool(read_motions(group, about_c[None])[..., :2].abs().max() < 1e-3)
        True
    """
    if isinstance(group, Product):
        pairs = zip(group.factors, element, strict=True)
        return torch.cat([read_motions(f, e) for f, e in pairs], -1)
    eta = named_log(group, element)
    if not isinstance(group, Affine2 | SE2) or not {"shift_x", "shift_y"} & set(group.names):
        return eta
    linear, shift = element[..., :2, :2], element[..., :2, 2]
    centre = resting_point(linear, shift)[:, None]
    moved = (linear @ centre[..., None])[..., 0] + shift - centre
    columns = list(eta.unbind(-1))
    for axis, name in enumerate(("shift_x", "shift_y")):
        if name in group.names:
            columns[group.names.index(name)] = moved[..., axis]
    return torch.stack(columns, -1)


def resting_point(linear: Tensor, shift: Tensor) -> Tensor:
    """The point c (N, 2) whose images A_s c + t_s vary least over s, by least squares.

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
    centre: Tensor = -torch.linalg.solve(normal + ridge, target)
    return centre
