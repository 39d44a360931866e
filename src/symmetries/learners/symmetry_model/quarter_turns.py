"""Quarter turns that leave a picture unchanged, and distances up to such turns."""

import math
from typing import Any

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group
from symmetries.learners.symmetry_model.coordinates import content_centre
from symmetries.ops.affine_inverse import affine_inverse

TURNS = 4
SAME = 0.05  # share of |x|^2: a turn that changes less leaves the picture unchanged
PRICE = 10.0  # of a turn that makes another picture of it; half a turn of T is a distance of 1


def turns_of(images: Tensor, fill: float = 0.0, *, anywhere: bool = True) -> tuple[Tensor, Tensor]:
    """Return quarter turns about the centre of mass, and how much each changes the picture.

    Args:
        images: x (N, C, H, W).
        fill: value of the background.
        anywhere: turn about the centre of mass; otherwise about the middle of the frame, for
            groups that cannot do the former.

    Returns:
        The inverses h_j^-1 (N, 4, 3, 3), the identity first, and |T_{h_j} x - x|^2 over
        |x - background|^2 (N, 4): 0 where h_j is a symmetry of x.

    Example:
        >>> image = torch.zeros(1, 1, 8, 8)
        >>> image[..., 3:5, 1:7] = 1.0  # a bar
        >>> turns_of(image)[1].mul(100).round().tolist()
        [[0.0, 133.0, 0.0, 133.0]]
    """
    centre = content_centre(images, fill)
    if not anywhere:
        centre = torch.zeros_like(centre)
    angles = torch.arange(TURNS, device=images.device) * (2 * math.pi / TURNS)
    group = Affine2("rotation", "translation")
    turn = group.exp(torch.nn.functional.pad(angles[:, None], (2, 0))).to(images.dtype)
    to_centre = group.exp(torch.nn.functional.pad(centre, (0, 1)))[:, None]
    h = to_centre @ turn @ affine_inverse(to_centre)
    again = ImageAction(Affine2(), fill=fill).orbit(h[:, 1:], images)
    changed = (again - images[:, None]).square().sum((2, 3, 4))
    changed = changed / (images - fill).square().sum((1, 2, 3)).clamp_min(1e-12)[:, None]
    return affine_inverse(h), torch.nn.functional.pad(changed, (1, 0))


def has_turns(group: Group[Any]) -> bool:
    """Whether a group, or a factor of it, turns pictures."""
    return any(factor.planar and "rotation" in factor.names for factor in group.factors)


def distance_to_symmetry(
    group: Group[Any],
    element: Any,  # noqa: ANN401 - elements differ by group
    turns: tuple[Tensor, Tensor],
) -> Tensor:
    """Return the distance (N, K) of elements from the nearest turn that keeps their picture.

    The least of d(h_j^-1 T) + 10 |T_{h_j} x - x|^2 / |x|^2 over quarter turns h_j, where d is
    :meth:`Group.distance_to_identity`. For a picture without symmetry that is d(T); for an
    ellipse half a turn is as good as none, and for a square a quarter.

    Args:
        group: the transformations.
        element: with leading shape (N, K).
        turns: of the N pictures, see :func:`turns_of`.
    """
    if group.factors[0] is not group:
        pairs = zip(group.factors, group.parts(element), strict=True)
        return torch.stack([distance_to_symmetry(f, e, turns) for f, e in pairs]).sum(0)
    if not has_turns(group):
        return group.distance_to_identity(element)
    inverse, changed = turns
    distance = group.distance_to_identity(inverse[:, None] @ element[:, :, None])
    return (distance + PRICE * changed[:, None]).amin(-1)


def without_turns(
    group: Group[Any],
    element: Any,  # noqa: ANN401 - elements differ by group
    turns: tuple[Tensor, Tensor],
) -> Any:  # noqa: ANN401
    """Return elements (N, K) up to a turn that keeps their picture: h_j^-1 T for the best j.

    T and h_j^-1 T do the same to the picture, so how far an ellipse was turned is known up to half
    a turn only. The best j is that of :func:`distance_to_symmetry`.

    Args:
        group: the transformations.
        element: with leading shape (N, K).
        turns: of the N pictures, see :func:`turns_of`.

    Example:
        >>> bar = torch.zeros(1, 1, 8, 8)
        >>> bar[..., 3:5, 1:7] = 1.0
        >>> group = Affine2("rotation")
        >>> turned = group.exp(torch.tensor([[[3.0], [1.5]]]))  # almost half a turn, and a quarter
        >>> left = group.log(without_turns(group, turned, turns_of(bar)))
        >>> [round(value, 2) for value in left.flatten().tolist()]
        [-0.14, 1.5]
    """
    if group.factors[0] is not group:
        pairs = zip(group.factors, group.parts(element), strict=True)
        return group.whole(tuple(without_turns(f, e, turns) for f, e in pairs))
    if not has_turns(group):
        return element
    inverse, changed = turns
    every = inverse[:, None] @ element[:, :, None]
    best = (group.distance_to_identity(every) + PRICE * changed[:, None]).argmin(-1)
    return every.gather(2, best[..., None, None, None].expand(*best.shape, 1, 3, 3))[:, :, 0]


def with_turns(
    group: Group[Any],
    element: Any,  # noqa: ANN401 - elements differ by group
    turns: tuple[Tensor, Tensor],
) -> Any:  # noqa: ANN401
    """Return the samples (N, S) composed with turns that leave their picture unchanged: T h_j.

    T and T h_j make the same of the picture, and which of them f names is a matter of chance. So
    that a distribution does not depend on it, every symmetry gets its share of the samples: for a
    square that turns freely within a quarter, the whole circle.

    Args:
        group: the transformations.
        element: with leading shape (N, S), in no order.
        turns: of the N pictures, see :func:`turns_of`.

    Example:
        >>> bar = torch.zeros(1, 1, 8, 8)
        >>> bar[..., 3:5, 1:7] = 1.0
        >>> group = Affine2("rotation")
        >>> every = with_turns(group, group.exp(torch.full((1, 4, 1), 0.2)), turns_of(bar))
        >>> [round(abs(value), 1) for value in group.log(every).flatten().tolist()]
        [0.2, 2.9, 0.2, 2.9]
    """
    if group.factors[0] is not group:
        pairs = zip(group.factors, group.parts(element), strict=True)
        return group.whole(tuple(with_turns(f, e, turns) for f, e in pairs))
    if not has_turns(group):
        return element
    inverse, changed = turns
    same = changed < SAME
    rank = same.cumsum(1) - 1
    samples = torch.arange(element.shape[1], device=element.device)
    wanted = samples % same.sum(1, keepdim=True)  # (N, S)
    chosen = ((rank[:, None] == wanted[..., None]) & same[:, None]).int().argmax(-1)
    # The inverse of a symmetry is one, too.
    return element @ inverse.gather(1, chosen[..., None, None].expand(*chosen.shape, 3, 3))
