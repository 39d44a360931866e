"""Pictures that a move leaves as they are: their density repeats, and tells no pose."""

import math

import torch
from torch import Tensor

from symmetries.actions.permute import permute, permutes_pixels
from symmetries.actions.resample import warp
from symmetries.groups.finite import FiniteGroup
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.views import Frame, blur, round_window

TURNS = (2, 3, 4, 5, 6, 7, 8)
ALIKE = 0.2  # of the mean change along the orbit
ANGLES = 12
CHUNK = 512


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


def _alike(images: Tensor, chart: Chart, frame: Frame) -> Tensor:
    x = blur(images - frame.fill, images.new_full((len(images),), 0.7))
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


def _change(x: Tensor, angle: float, window: Tensor) -> Tensor:
    c, s = math.cos(angle), math.sin(angle)
    theta = torch.tensor([[c, s, 0.0], [-s, c, 0.0]], dtype=x.dtype, device=x.device)
    moved = warp(x, theta, padding="reflect")
    return ((moved - x).square() * window).sum((1, 2, 3))
