"""Poses that a rule gives: data with a known law of poses, for a test of power."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.actions.colours import rgb_to_hsv
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.frames import Frame, radii
from symmetries.learners.orbit_posterior.versions import moved

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior


def posed_by_rule(model: "OrbitPosterior", images: Tensor, coordinate: Coordinate) -> Tensor:
    """Pictures (N, C, H, W) brought to poses that follow from their moments or their mean hue.

    Turned so that they are heavier above, mirrored so that a chiral moment is positive, or moved by
    the element of a finite group that makes them heaviest up and to the right.
    """
    u = model.chart.identity(len(images))
    place = model.chart.names.index(coordinate.name)
    if coordinate.kind == "finite":
        return _best_element(model, images, coordinate.size, u)
    if coordinate.name == "hue":
        hue, saturation, value = rgb_to_hsv(images.clamp(0, 1)).unbind(1)
        weight = saturation * value
        across, up = ((weight * f(hue)).sum((1, 2)) for f in (torch.cos, torch.sin))
        u[:, place] = -torch.atan2(up, across)
        return moved(model, u, images)
    angle = math.pi / 2 - _heavy_side(images, model.frame).angle()
    u[:, place] = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
    return moved(model, u, images)


def _best_element(model: "OrbitPosterior", images: Tensor, size: int, u: Tensor) -> Tensor:
    """The versions, among those by elements of a finite group, that score highest."""
    best, score = images, images.new_full((len(images),), -math.inf)
    mirror = size == 2 and model.frame.plain
    for index in range(size):
        u[:, 0] = index
        version = moved(model, u, images)
        if mirror:
            value = chirality(model.frame.content(version))
        else:
            side = _heavy_side(version, model.frame)
            value = side.real + 0.5 * side.imag
        best = torch.where((value > score)[:, None, None, None], version, best)
        score = torch.maximum(score, value)
    return best


def chirality(content: Tensor) -> Tensor:
    r"""Im(c_30 c_12^3) (N,), with complex moments :math:`c_{pq} = \sum w z^p \bar z^q`.

    It is the same in every turn and place of a picture, and changes its sign in a mirror (Flusser
    2000).
    """
    weight, z = _around_centre(content)
    third, first = (weight * z**3).sum((1, 2)), (weight * z * z.conj() ** 2).sum((1, 2))
    return (third * first**3).imag


def _heavy_side(images: Tensor, frame: Frame) -> Tensor:
    """Complex numbers (N,) that point to where pictures are heavier, or brighter.

    With a background it is the third moment around the centre of mass, which does not depend on the
    place; without one, the slope of brightness inside the round window.
    """
    if frame.plain:
        weight, z = _around_centre(frame.content(images))
        return (weight * z * z.abs().square()).sum((1, 2))
    weight = images.mean(1) - images.mean((1, 2, 3))[:, None, None]
    weight = weight * (radii(images.shape[-2], images.shape[-1], images.device) < 1)
    return (weight * _plane(images)).sum((1, 2))


def _around_centre(content: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (N, H, W) that add up to one, and places as complex numbers around their mean."""
    weight = content.abs().sum(1)
    weight = weight / weight.sum((1, 2), keepdim=True).clamp_min(1e-9)
    z = _plane(content).expand_as(weight)
    return weight, z - (weight * z).sum((1, 2), keepdim=True)


def _plane(images: Tensor) -> Tensor:
    """Places of pixels (H, W): right is 1, up is i, in half-images."""
    height, width = images.shape[-2:]
    x = (torch.arange(width, device=images.device) * 2.0 + 1 - width) / max(height, width)
    y = -(torch.arange(height, device=images.device) * 2.0 + 1 - height) / max(height, width)
    return torch.complex(x.expand(height, width), y[:, None].expand(height, width))
