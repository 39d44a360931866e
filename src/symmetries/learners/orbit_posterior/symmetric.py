"""Pictures that a move leaves as they are tell no pose; contents that occur again and again do."""

import math

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries.actions.colours import ColourAction
from symmetries.actions.permute import permute, permutes_pixels
from symmetries.groups.finite import FiniteGroup
from symmetries.learners.orbit_posterior.blurring import blur
from symmetries.learners.orbit_posterior.canonical import canonical, find_poses
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.frames import Frame
from symmetries.learners.orbit_posterior.views import round_window
from symmetries.ops.warp import warp

TURNS = (2, 3, 4, 5, 6, 7, 8)
ALIKE = 0.2  # of the mean change along the orbit
ANGLES = 12
CHUNK = 512
NEIGHBOURS = 1024  # pictures among which neighbours are looked for
LOOKED_AT = 128
REPEATED = 0.2  # of the mean change along the orbit; letters have 0.05, photographs 0.45


@torch.no_grad()
def self_symmetric(images: Tensor, chart: Chart, frame: Frame) -> Tensor:
    """Which pictures (N,) some move of the group leaves nearly as they are.

    A move does if it changes a picture, inside a round window and slightly blurred, by less than a
    fifth of what moves of the group change it on average (the mean square is compared).

    Args:
        images: (N, C, H, W).
        chart: of the group; only turns, flips and other finite elements are looked for.
        frame: background of the pictures.
    """
    parts = [_alike(part, chart, frame) for part in images.split(CHUNK)]
    return torch.cat(parts).cpu()


@torch.no_grad()
def contents_repeat(images: Tensor, chart: Chart, frame: Frame) -> bool:
    """Whether most pictures have another of the same content among them, in whatever pose.

    A picture has if some move of the group takes another one to less than a fifth of the distance
    (mean square) to which moves of the group take the picture from itself. Letters, digits and
    shapes have; photographs have not. On a plain background places do not count, nor do sizes and
    shapes if the group changes them.

    Args:
        images: (N, C, H, W).
        chart: of the group; its turns, flips, finite elements and hues are tried.
        frame: background of the pictures.
    """
    return _typical_distance(images, chart, frame, 0.0) < REPEATED


def contents_alike(images: Tensor, chart: Chart, frame: Frame) -> bool:
    """Whether most pictures show one content in different poses; see :func:`contents_repeat`."""
    return _typical_distance(images, chart, frame, 0.5) < REPEATED


def _typical_distance(images: Tensor, chart: Chart, frame: Frame, share: float) -> float:
    """Median over pictures of the distance within which a share of the others lie; 0: the nearest.

    Distances (mean squares) are those of the poses that are most alike, in units of what moves of
    the group change a picture.
    """
    x = frame.content(some_of(images, NEIGHBOURS))
    if frame.plain:
        x = canonical(x, chart, find_poses(x, chart))
    window = round_window(x.shape[-2], x.shape[-1], 1.0, 1.0).to(x.device)
    versions = [blur(v, v.new_ones(1)) * window for v in _versions(x, chart, frame)]
    rows = torch.arange(len(x), device=x.device)[:: -(-len(x) // LOOKED_AT)]  # of all classes
    own = versions[0][rows].flatten(1)
    moved = [(v[rows].flatten(1) - own).square().sum(-1) for v in versions[1:]]
    # Where the group has none of these moves, pictures are compared with others.
    change = torch.stack(moved or [torch.cdist(own, own).square().mean(1)])
    least = own.new_full((len(own), len(x)), math.inf)
    for v in versions:
        least = torch.minimum(least, torch.cdist(own, v.flatten(1)).square())
    least.scatter_(1, rows[:, None], math.inf)
    place = max(1, round(share * (len(x) - 1)))
    near = least.kthvalue(place, 1).values
    return float((near / change.mean(0).clamp_min(1e-9)).median())


def _versions(x: Tensor, chart: Chart, frame: Frame) -> list[Tensor]:
    """Pictures, less their background, as they are and moved by some elements of the group."""
    every = [x]
    finite: FiniteGroup | None = chart.finite
    if finite is not None and permutes_pixels(finite, *x.shape[-2:]):
        indices = range(1, finite.order)
        every += [permute(finite, x.new_full((len(x),), i).long(), x) for i in indices]
    if chart.planar is not None and "rotation" in chart.names:
        turns = [2 * math.pi * k / (2 * ANGLES) for k in range(1, 2 * ANGLES)]
        every += [_turned(v, angle) for v in list(every) for angle in turns]
    if chart.colours is not None and "hue" in chart.names:
        if len(every) > 1:  # beside other moves hues are left out: the strongest channel has none
            return [v.amax(1, keepdim=True) for v in every]
        act = ColourAction(chart.colours)
        u = chart.identity(len(x), x.device)
        for k in range(1, ANGLES):
            u[:, chart.names.index("hue")] = 2 * math.pi * k / ANGLES - math.pi
            shown = (x + frame.fill).clamp(0, 1)
            every.append(act(chart.colour(u).to(x.dtype), shown) - frame.fill)
    return every


def _alike(images: Tensor, chart: Chart, frame: Frame) -> Tensor:
    x = blur(frame.content(images), images.new_full((1,), 0.7))
    finite: FiniteGroup | None = chart.finite
    if chart.planar is None and finite is not None and permutes_pixels(finite, *x.shape[-2:]):
        return _finite_alike(x, finite)
    if "rotation" not in chart.names or chart.planar is None:
        return torch.zeros(len(x), dtype=torch.bool)
    window = round_window(x.shape[-2], x.shape[-1], 1.0, 1.0).to(x.device)
    steady = [_change(x, 2 * math.pi * k / ANGLES + 0.3, window) for k in range(ANGLES)]
    mean = torch.stack(steady).mean(0).clamp_min(1e-12)
    turned = torch.stack([_change(x, 2 * math.pi / n, window) for n in TURNS]).amin(0)
    nothing = (x.square() * window).sum((1, 2, 3)) < 1e-9
    return (turned < ALIKE * mean) | nothing


def _finite_alike(x: Tensor, group: FiniteGroup) -> Tensor:
    """Compared with the picture's own variance, as few elements make no average."""
    spread = x.flatten(1).var(-1).clamp_min(1e-12) * 2 * x[0].numel()
    changes = []
    for index in range(1, group.order):
        moved = permute(group, torch.full((len(x),), index, device=x.device), x)
        changes.append((moved - x).square().sum((1, 2, 3)))
    return torch.stack(changes).amin(0) < ALIKE / 2 * spread


def _turned(x: Tensor, angle: float) -> Tensor:
    c, s = math.cos(angle), math.sin(angle)
    theta = torch.tensor([[c, s, 0.0], [-s, c, 0.0]], dtype=x.dtype, device=x.device)
    return warp(x, theta, padding="reflect")


def _change(x: Tensor, angle: float, window: Tensor) -> Tensor:
    return ((_turned(x, angle) - x).square() * window).sum((1, 2, 3))
