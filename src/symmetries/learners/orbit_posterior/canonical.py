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
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.learners.orbit_posterior.chart import SHIFTS, STRETCHES, WIDEST, Chart
from symmetries.learners.orbit_posterior.views import View
from symmetries.ops.warp import warp

Level = Literal["place", "size", "shape"]
FAINT = 0.2  # of a picture's largest value: what is fainter does not count as content
EXTENT = 2.5  # half-sides of the result, in standard deviations of the content
SHARE = 0.99  # of the pictures that decide how far moves must go
LOOKED_AT, NEAREST = 1024, 16  # pictures, and neighbours of each
ANGLES, CIRCLES, HARMONICS = 32, 4, 5  # of a picture's Fourier series around its middle
BEYOND = 1.1  # times that
LEAST_REACH = 0.2
RANGE = 1.5  # of the numbers
OCTAVES = 5
MIDDLE = 2.0  # minus a usual logarithm of the content's standard deviation in half-views


def canonical_level(chart: Chart, plain: bool) -> Level | None:
    """How far pictures are brought to a canonical pose; None where they are left alone.

    Turns alone are learned from half as many steps if content is brought to the middle first.
    """
    names = set(chart.names)
    if not plain or chart.planar is None:
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
        return kept.contiguous(), octaves(torch.stack(numbers, -1))

    @property
    def turning(self) -> tuple[int, int] | None:
        """Places, counted from the end of the numbers, of the slope and the slant of the shape."""
        each = 1 + 2 * OCTAVES
        return (-2 * each, -each) if self.level == "shape" else None


def octaves(values: Tensor) -> Tensor:
    """Values (N, K) and waves of them, (N, K (1 + 2 OCTAVES)): what a network reads finely."""
    scale = math.pi / RANGE * 2.0 ** torch.arange(OCTAVES, device=values.device)
    angle = values[..., None] * scale.to(values.dtype)
    found = torch.cat((values[..., None], torch.cos(angle), torch.sin(angle)), -1)
    return found.flatten(1)


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
def reach_of_content(content: Tensor, chart: Chart) -> tuple[dict[str, float], dict[str, float]]:
    """How far moves may have to go at first, and at most, from how the content differs.

    A move from one picture of the data to another one of the same content is as large as the
    difference of their moments, so that none is larger than the range of the moments. At first
    those of like contents count: contents are alike if their canonical pictures are, in whatever
    turn, by the strengths of their Fourier series around the middle.

    Args:
        content: (N, C, H, W), pictures less their plain background.
        chart: of the group.

    Returns:
        Both by the name of the coordinate.
    """
    x = content[:LOOKED_AT]
    channels, height, width = x.shape[1:]
    look = Canonical((channels, height, width), 0, "shape").to(x.device)
    centre, (xx, yy, xy) = look.moments(x)
    _, (level, half, slant) = _root_and_logarithm(xx.clamp_min(1e-5), yy.clamp_min(1e-5), xy)
    near = _neighbours(_around_the_middle(look(x)[0]))
    values = dict(zip(STRETCHES, (level, level + half, level - half, slant), strict=True))
    first = {name: _apart(value, near) for name, value in values.items()}
    most = {name: _range(value) for name, value in values.items()}
    shifts = [_range(c) for c in centre.unbind(-1)]
    if "rotation" in chart.names:  # content takes its place and its shape along
        shifts = [2 * float(centre.norm(dim=1).quantile(SHARE))] * 2
        for found in (first, most):
            found |= dict.fromkeys(STRETCHES[1:], max(found.values()))
    for found in (first, most):
        found |= dict(zip(SHIFTS, shifts, strict=True))
    lines = [c.name for c in chart.coordinates if c.kind == "line" and c.name in most]
    both = [
        {n: min(max(BEYOND * found[n], LEAST_REACH), WIDEST[n]) for n in lines}
        for found in (first, most)
    ]
    return {n: min(both[0][n], both[1][n]) for n in lines}, both[1]


def _around_the_middle(pictures: Tensor) -> Tensor:
    """Strengths (N, F) of the Fourier series along circles around the middle."""
    angle = torch.arange(ANGLES, device=pictures.device) * (2 * math.pi / ANGLES)
    radius = (torch.arange(CIRCLES, device=pictures.device) + 0.5) / CIRCLES
    circle = torch.stack((torch.cos(angle), torch.sin(angle)), -1)
    grid = (radius[:, None, None] * circle).expand(len(pictures), -1, -1, -1)
    values = F.grid_sample(pictures, grid.to(pictures.dtype), align_corners=False)
    found: Tensor = torch.fft.rfft(values, dim=-1).abs()[..., :HARMONICS].flatten(1)
    return found


def _neighbours(features: Tensor) -> Tensor:
    """The nearest others (N, K) of each row."""
    distance = torch.cdist(features, features)
    distance.fill_diagonal_(math.inf)
    found: Tensor = distance.topk(min(NEAREST, len(features) - 1), largest=False).indices
    return found


def _apart(values: Tensor, near: Tensor) -> float:
    """How much values (N,) differ between neighbours, but for very few."""
    return float((values[near] - values[:, None]).abs().flatten().quantile(SHARE))


def _range(values: Tensor) -> float:
    """Between the ends that hold nearly all values (N,)."""
    low, high = values.quantile(torch.tensor([1 - SHARE, SHARE], device=values.device))
    return float(high - low)


def canonical_view(view: View) -> Canonical | None:
    """What brings pictures of a view to a canonical pose; None where they are left alone."""
    level = canonical_level(view.chart, view.frame.plain)
    return None if level is None else Canonical(view.shape, view.pad, level)
