r"""Content brought to the middle, to one size and one shape: what is left tells how it is turned.

On a plain background the place, the size and the stretch of a picture's content can be computed:
its centre of mass c and second moments C. Seen through the map p -> c + C^1/2 p, content that was
shifted and stretched in any way looks the same but for a turn, so that the network reads turns as
easily beside other moves as alone. What was taken away is given as numbers, so that nothing is
lost.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from symmetries.learners.orbit_posterior.chart import SHIFTS, STRETCHES, WIDEST, Chart
from symmetries.learners.orbit_posterior.views import View
from symmetries.ops.warp import warp

Level = Literal["place", "size", "shape"]
FAINT = 0.2  # of a picture's largest value: what is fainter does not count as content
EXTENT = 2.5  # half-sides of the result, in standard deviations of the content
SHARE = 0.99  # of the pictures that decide how far moves must go
BEYOND = 1.1  # times that
LEAST_REACH = 0.2
RANGE = 1.5  # of the numbers
OCTAVES = 5
MIDDLE = 2.0  # minus a usual logarithm of the content's standard deviation in half-views


def canonical_level(chart: Chart, plain: bool) -> Level | None:
    """How far pictures are brought to a canonical pose; None where they are left alone."""
    names = set(chart.names)
    if not plain or not names & {*SHIFTS, *STRETCHES}:
        return None
    if names & {"scale_x", "scale_y", "shear"}:
        return "shape"
    return "size" if "zoom" in names else "place"


class Canonical(nn.Module):
    """Views (N, C, H, W) as pictures (N, C, h, w) in a canonical place, and numbers (N, F).

    Args:
        shape: (C, H, W) of the views.
        pad: pixels of them on each side that are beyond the frame; the result has none.
        level: what is taken away: the place, the size too, or the shape too.

    Example:
        >>> views = torch.zeros(1, 1, 24, 24)
        >>> views[:, :, 4:9, 12:16] = 1
        >>> pictures, numbers = Canonical((1, 24, 24), 4, "place")(views)
        >>> pictures.shape, bool(pictures[0, 0, 6:10, 6:10].all())
        (torch.Size([1, 1, 16, 16]), True)
    """

    def __init__(self, shape: tuple[int, int, int], pad: int, level: Level) -> None:
        super().__init__()
        channels, height, width = shape
        self.level, self.pad = level, pad
        self.shape = (channels, height - 2 * pad, width - 2 * pad)
        side = max(height, width)
        self.share = max(self.shape[1:]) / side  # of the view's half-side that the result has
        x = (torch.arange(width) * 2.0 + 1 - width) / side
        y = -(torch.arange(height) * 2.0 + 1 - height) / side
        places = torch.stack((x.expand(height, width), y[:, None].expand(height, width)))
        self.register_buffer("places", places.reshape(2, -1), persistent=False)
        self.places: Tensor
        self.register_buffer(
            "octaves", math.pi / RANGE * 2.0 ** torch.arange(OCTAVES), persistent=False
        )
        self.octaves: Tensor

    @property
    def features(self) -> int:
        """How many numbers there are."""
        return {"place": 2, "size": 3, "shape": 5}[self.level] * (1 + 2 * OCTAVES)

    def moments(self, views: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Centre (N, 2) and second moments xx, yy, xy (N,) of the content, in half-views."""
        strength = views.float().abs().amax(1).flatten(1)
        strength = (strength - FAINT * strength.amax(1, keepdim=True)).clamp_min(0).square()
        weight = strength / strength.sum(1, keepdim=True).clamp_min(1e-9)
        places = self.places.float()
        centre = weight @ places.T
        away = places - centre[..., None]
        pairs = ((0, 0), (1, 1), (0, 1))
        return centre, [(weight * away[:, i] * away[:, j]).sum(1) for i, j in pairs]

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures and numbers."""
        centre, (xx, yy, xy) = self.moments(views)
        numbers = [*(centre / self.share).unbind(-1)]
        if self.level == "place":
            root = self.share * torch.eye(2, device=views.device).expand(len(views), 2, 2)
        else:
            if self.level == "size":
                xx, yy, xy = (xx + yy) / 2, (xx + yy) / 2, torch.zeros_like(xy)
            root, logs = _root_and_logarithm(xx.clamp_min(1e-5), yy.clamp_min(1e-5), xy)
            root = EXTENT * root
            numbers += logs[: 1 if self.level == "size" else 3]
        # The warp's result is as large as the view; its middle is kept.
        theta = torch.cat((root / self.share, centre[..., None]), -1)
        pictures = warp(views, theta.to(views.dtype))
        height, width = self.shape[1:]
        kept = pictures[..., self.pad : self.pad + height, self.pad : self.pad + width]
        value = torch.stack(numbers, -1)
        angle = value[..., None] * self.octaves.float()
        found = torch.cat((value[..., None], torch.cos(angle), torch.sin(angle)), -1)
        return kept.contiguous(), found.flatten(1)


def _root_and_logarithm(xx: Tensor, yy: Tensor, xy: Tensor) -> tuple[Tensor, list[Tensor]]:
    """C^1/2 (N, 2, 2), and the mean, difference and slant of its logarithm, from C's entries."""
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    xy = xy * (0.98 * (xx * yy).sqrt() / xy.abs().clamp_min(1e-9)).clamp(max=1)
    determinant = (xx * yy - xy.square()).clamp_min(1e-12).sqrt()
    scale = (2 * mean + 2 * determinant).sqrt()
    rows = (xx + determinant, xy, xy, yy + determinant)
    root = torch.stack([entry / scale for entry in rows], -1).unflatten(-1, (2, 2))
    spread = (half.square() + xy.square()).sqrt().clamp_min(1e-6)
    high, low = torch.log(mean + spread), torch.log((mean - spread).clamp_min(1e-8))
    slope = (high - low) / (4 * spread)
    return root, [(high + low) / 4 + MIDDLE, slope * half, slope * xy]


@torch.no_grad()
def reach_of_content(images: Tensor, chart: Chart, fill: float) -> dict[str, float]:
    """How far moves must go at most, by name, from how place, size and shape of the content vary.

    No picture is taken to another of the data by a move that is larger than the difference of
    their moments. Shifts need nearly as much; sizes and shapes differ between contents, too.

    Args:
        images: (N, C, H, W) on a plain background.
        chart: of the group.
        fill: value of the background.
    """
    channels, height, width = images.shape[1:]
    look = Canonical((channels, height, width), 0, "shape").to(images.device)
    centre, (xx, yy, xy) = look.moments(images - fill)
    _, (level, half, slant) = _root_and_logarithm(xx.clamp_min(1e-5), yy.clamp_min(1e-5), xy)
    stretched = max(map(_range, (level + half, level - half, slant)))
    away = 2 * float(centre.norm(dim=1).quantile(SHARE))
    sizes = {"zoom": _range(level), **dict.fromkeys(("scale_x", "scale_y", "shear"), stretched)}
    turned = "rotation" in chart.names
    shifts = [away, away] if turned else [_range(c) for c in centre.unbind(-1)]
    needed = {**sizes, **dict(zip(SHIFTS, shifts, strict=True))}
    found = {}
    for c in chart.coordinates:
        if c.kind == "line" and c.name in needed:
            most = WIDEST[c.name]
            found[c.name] = min(max(BEYOND * needed[c.name], LEAST_REACH), most)
    return found


def _range(values: Tensor) -> float:
    """Between the ends that hold nearly all values (N,)."""
    low, high = values.quantile(torch.tensor([1 - SHARE, SHARE], device=values.device))
    return float(high - low)


def canonical_view(view: View) -> Canonical | None:
    """What brings pictures of a view to a canonical pose; None where they are left alone."""
    level = canonical_level(view.chart, view.frame.plain)
    return None if level is None else Canonical(view.shape, view.pad, level)
