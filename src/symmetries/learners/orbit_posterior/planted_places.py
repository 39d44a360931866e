"""Places within the frame to which the self-test brings contents."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.chart import SHIFTS
from symmetries.learners.orbit_posterior.frames import Frame
from symmetries.learners.orbit_posterior.reading import content_centre

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

CUT = 0.02  # of the pictures: those whose content may reach over the edge of the frame
LOOKED_AT = 4096


def placed(model: "OrbitPosterior", u: Tensor, images: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Moves with shifts that bring contents to places in the frame, and these shifts' ranges.

    Contents may lie anywhere in the frame already: shifts on top of that would carry them over its
    edge, and less would be recovered than was planted. So the places of contents, around the middle
    of the frame, are those that were drawn as shifts, in a smaller range where there is no more
    room.

    Args:
        model: for its chart and frame.
        u: (N, D) as drawn; shifts by name, uniform and symmetric.
        images: (N, C, H, W), shrunk.

    Returns:
        Moves (N, D), and half of the range of places by name of the shift; none, and the moves as
        they were drawn, where pictures have no background or no shift was asked for.
    """
    centre = content_centre(images, model)
    if centre is None:
        return u, {}
    found, ranges = u.clone(), {}
    size = _stretched(model, u) * _radius(model.frame, images, centre).to(u.device)
    for axis, (name, side) in enumerate(zip(SHIFTS, images.shape[:1:-1], strict=True)):
        if name not in model.chart.names:
            continue
        j = model.chart.names.index(name)
        room = side / max(images.shape[-2:]) - float(size[:LOOKED_AT].quantile(1 - CUT))
        half = float(u[:, j].abs().amax())
        ranges[name] = min(half, max(room, 0.0))
        found[:, j] *= ranges[name] / max(half, 1e-9)
        found[:, j] -= centre[:, axis].to(u)
    return found, ranges


def _radius(frame: Frame, images: Tensor, centre: Tensor) -> Tensor:
    """Distance (N,) from the centre of each content to its farthest pixel, in half-images."""
    height, width = images.shape[-2:]
    x = (torch.arange(width, device=images.device) * 2.0 + 1 - width) / max(height, width)
    y = -(torch.arange(height, device=images.device) * 2.0 + 1 - height) / max(height, width)
    found = []
    for part, at in zip(images.split(LOOKED_AT), centre.to(x).split(LOOKED_AT), strict=True):
        inside = (frame.content(part) != 0).any(1)
        away = torch.hypot((y - at[:, 1:])[:, :, None], (x - at[:, :1])[:, None])
        found.append((away * inside).amax((1, 2)))
    return torch.cat(found)


def _stretched(model: "OrbitPosterior", u: Tensor) -> Tensor:
    """The largest factor (N,) by which moves stretch contents."""
    block = model.chart.matrix(u)[:, :2, :2]
    return torch.linalg.matrix_norm(block, 2)
