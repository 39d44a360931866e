"""Content on a plain background as the network sees it: in the middle pose of the data, turned.

Where pictures lie, how large they are and in what shape follows from their moments, and moves along
these are computed, not drawn. What is drawn are turns and mirror images Q of the canonical picture,
and the network is asked for Q and for the pose that the picture has in the data.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.learners.orbit_posterior.blurring import blur
from symmetries.learners.orbit_posterior.canonical import (
    Poses,
    eigen,
    matrix_of,
    moments,
    singular,
    stretches,
    symmetric_exp,
    turned,
    turns,
)
from symmetries.learners.orbit_posterior.chart import SHIFTS, Chart, Coordinate
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.frames import Frame
from symmetries.learners.orbit_posterior.numbers import Numbers
from symmetries.learners.orbit_posterior.views import round_window, strengths
from symmetries.ops.warp import warp

OCTAVES, RANGE = 3, 1.5  # of the waves by which a place is shown to a network
HIDDEN = 0.7  # of the jitter: standard deviation of random stretches
MARGIN = 1.4  # of the blur: room for those
# Standard deviation of the noise in pictures from which lines are read. Shapes beside turns need
# contents to be recognised, and are blurred like the thinnest ones.
COARSE, COARSE_SHAPES = 0.5, 0.25
JITTERED = 0.5  # of the jitter: how far a place that is shown is moved at random


class PoseView(nn.Module):
    """Canonical pictures Q x, and what the network is asked for: Q and the pose of x.

    Args:
        action: of the group on pictures.
        chart: coordinates of its elements.
        shape: (C, H, W) of the pictures, already shrunk where they are large.
        frame: their background.
        config: amounts of blur and noise.
        scale: standard deviation of the pictures' values.
        poses: how the data are spread.
    """

    def __init__(
        self,
        action: ImageAction,
        chart: Chart,
        shape: tuple[int, int, int],
        frame: Frame,
        config: Views,
        scale: float,
        poses: Poses,
    ) -> None:
        super().__init__()
        self.action, self.chart, self.config, self.frame = action, chart, config, frame
        self.scale, self.poses, self.shape = scale, poses, shape
        self.too_small = False
        names = chart.names
        self.shifts = bool(set(SHIFTS) & set(names))
        self.turns = "rotation" in names or chart.finite is not None
        self.shapes = chart.shapes
        self.noise = COARSE_SHAPES if self.shapes and self.turns else COARSE
        self.turned = self.turns or self.shapes
        # Turns are read from sharp pictures, places, sizes and shapes from coarse ones.
        self.lines = bool(poses.middle)
        self.two = self.lines and (self.turns or chart.colours is not None)
        self.coordinates = tuple(self._coordinate(c) for c in chart.coordinates)
        self.register_buffer("window", round_window(*shape[1:], 1.0, config.margin))
        self.window: Tensor

    def _coordinate(self, c: Coordinate) -> Coordinate:
        """What the network is asked for: poses around the middle one instead of moves."""
        far = self.poses.reach.get(c.name, c.reach)
        return Coordinate(c.name, c.kind, c.size, far, c.parameter)

    @property
    def features(self) -> int:
        """How many numbers the network gets beside pictures: of the place that a turn changes."""
        return 0 if self.shifts else 2 * (1 + 2 * OCTAVES)

    def pose(self, content: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Centre (N, 2), and coordinates (N,) by name of L, from the middle of the data."""
        centre, second = moments(content, self.poses.pixel)
        found = stretches(second, self.chart.names)
        return centre, {name: found[name] - self.poses.middle[name] for name in found}

    def orthogonal(self, u: Tensor) -> Tensor:
        """Q (..., 2, 2) of coordinates (..., D): their turn, and their mirror image first."""
        names = self.chart.names
        angle = (
            u[..., names.index("rotation")] if "rotation" in names else torch.zeros_like(u[..., 0])
        )
        q = turns(angle)
        if self.chart.finite is not None:
            q = q @ self.chart.finite.matrix(u[..., 0].long(), u.dtype)[..., :2, :2]
        return q

    def forward(self, images: Tensor, u: Tensor, numbers: Numbers) -> tuple[Tensor, ...]:
        """What is asked for (N, D), pictures (N, C, H, W), and features where there are any."""
        n, config = len(images), self.config
        x = self.frame.content(images)
        centre, own = self.pose(x)
        q = self.orthogonal(u)
        asked = self._asked(u, centre, turned(own, q))
        if self.chart.colours is not None:
            act, shown = ColourAction(self.chart.colours), (x + self.frame.fill).clamp(0, 1)
            x = act(self.chart.colour(u).to(x.dtype), shown) - self.frame.fill
        if self.turns and config.grain:
            # Contents that stay in their place show by the pixels of their edges how they turn.
            peak = x.abs().amax((1, 2, 3), keepdim=True)
            x = x + config.grain * peak * (x != 0) * numbers.randn(*x.shape).to(x.dtype)
        x = x * (strengths(self.chart, config, numbers, n) / self.scale).to(x.dtype)
        level = config.noise * numbers.rand(n, 1, 1, 1)
        seen = []
        for picture, coarse in self._canonical(x, centre, own, q, numbers):
            noise = (self.noise if coarse else level) * numbers.randn(*picture.shape)
            seen.append((picture + noise.to(picture.dtype)) * self.window)
        place = () if self.shifts else (self._place(centre, own, q, numbers),)
        return (asked, *seen, *place)

    def _asked(self, u: Tensor, centre: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        columns = []
        for j, name in enumerate(self.chart.names):
            if name in own:
                columns.append(own[name])
            elif name in SHIFTS:
                columns.append(centre[:, SHIFTS.index(name)] - self.poses.middle[name])
            else:
                columns.append(u[:, j])
        return torch.stack([column.to(u.dtype) for column in columns], -1)

    def _canonical(
        self, x: Tensor, centre: Tensor, own: Mapping[str, Tensor], q: Tensor, numbers: Numbers
    ) -> list[tuple[Tensor, bool]]:
        """Q x in the middle pose, and whether it is the coarse one, which lines are read from.

        Two resamplings: along the axes of the stretch, where sharpness is levelled by a blur along
        rows and columns, and by Q. Without stretches the axes are random.
        """
        n, names, config = len(x), self.chart.names, self.config
        before = (config.before**2 + config.edges**2) ** 0.5
        x = blur(x, x.new_full((1,), before), zero_around=True)
        unit = numbers.rand(n, 1)[:, 0].to(centre.dtype)
        axes = turns(2 * math.pi * unit if "rotation" in names else torch.zeros_like(unit))
        back = axes.mT
        # A canonical picture tells sizes and shapes by a few per cent, as pixels blur small content
        # more; random stretches hide that, before all pictures are blurred alike.
        hidden = config.jitter * numbers.randn(n, 2).to(centre.dtype).clamp(-2, 2)
        factor = self.poses.extent * torch.exp(HIDDEN * hidden)
        if self.shapes:
            # Along axes of their own: along those of the stretch they would show these.
            stretch = symmetric_exp(*matrix_of(own)) @ axes @ torch.diag_embed(factor) @ back
            axes, factor, back = singular(stretch)
        elif own:
            factor = factor * torch.exp(eigen(*matrix_of(own))[1])
        theta = torch.cat((axes @ torch.diag_embed(factor), centre[..., None]), -1)
        how: Any = {"interpolation": self.action.interpolation}
        x = warp(x, theta.to(x.dtype), **how)
        sigma = config.least + (config.most - config.least) * numbers.rand(n, 1)
        pictures, level = [], sigma.expand_as(factor)
        if own:
            variance = own_variance(self.action, config, self.poses.pixel)
            left = (MARGIN * self.poses.blur - variance / factor.square()).clamp_min(0)
            level = (left + sigma.square()).sqrt()
        if self.lines:
            pictures.append((blur(x, level.to(x.dtype), zero_around=True), True))
        if self.two or not self.lines:
            sharp = pictures[0][0] if self.shapes else blur(x, sigma[:, 0].to(x.dtype), True)
            pictures.insert(0, (sharp, False))
        if not self.turned:
            return pictures
        back = torch.cat((back @ q.mT.to(axes.dtype), torch.zeros_like(centre)[..., None]), -1)
        every = warp(torch.cat([picture for picture, _ in pictures], 1), back.to(x.dtype), **how)
        split = every.split(x.shape[1], 1)
        return [(part, coarse) for part, (_, coarse) in zip(split, pictures, strict=True)]

    def _place(
        self, centre: Tensor, own: Mapping[str, Tensor], q: Tensor, numbers: Numbers
    ) -> Tensor:
        """Waves of Q A^-1 c: where content lies that no shift is asked of."""
        place = centre
        if own:
            xx, yy, xy = matrix_of(own)
            place = (symmetric_exp(-xx, -yy, -xy) @ centre[..., None])[..., 0]
        place = (q.to(place.dtype) @ place[..., None])[..., 0]
        place = place + JITTERED * self.config.jitter * numbers.randn(len(place), 2)
        return octaves(place)

    def moves(self, found: Tensor, images: Tensor, u: Tensor | None = None) -> Tensor:
        """Coordinates (N, S, D) of r from poses that the network tells of y = T_r x.

        Args:
            found: (N, S, D), as they are asked for.
            images: (N, C, H, W), the pictures y, or those of which y = T_u x.
            u: (N, D), a turn or a mirror image.
        """
        centre, own = self.pose(self.frame.content(images))
        if u is not None:
            q = self.orthogonal(u)
            centre, own = (q.to(centre.dtype) @ centre[..., None])[..., 0], turned(own, q)
        place = {name: j for j, name in enumerate(self.chart.names)}
        block = self.orthogonal(found)
        if own:
            there = matrix_of({name: found[..., place[name]] for name in own})
            here = matrix_of({name: value[:, None] for name, value in own.items()})
            leave = symmetric_exp(*(-entry for entry in there))
            block = symmetric_exp(*here) @ leave @ block
        shift = torch.zeros_like(block[..., 0])
        if self.shifts:
            columns = [self._shifted(name, found, centre, place) for name in SHIFTS]
            shift = centre[:, None] - (block @ torch.stack(columns, -1)[..., None])[..., 0]
        return self.chart.coordinates_of(block, shift, found)

    def _shifted(
        self, name: str, found: Tensor, centre: Tensor, place: Mapping[str, int]
    ) -> Tensor:
        """Where content is along one axis in the poses found, (N, S)."""
        if name in place:
            return found[..., place[name]] + self.poses.middle[name]
        return centre[:, SHIFTS.index(name), None].expand(found.shape[:2])


def own_variance(action: ImageAction, config: Views, pixel: float) -> float:
    """Variance, in pixels, of the blur that pictures have once they are resampled."""
    once = 1 / 6 if action.interpolation == "bilinear" else 0.0
    return config.before**2 + config.edges**2 + pixel + once


def octaves(values: Tensor) -> Tensor:
    """Values (N, K) and waves of them, (N, K (1 + 2 OCTAVES)): what a network reads finely."""
    scale = math.pi / RANGE * 2.0 ** torch.arange(OCTAVES, device=values.device)
    angle = values[..., None] * scale.to(values.dtype)
    found = torch.cat((values[..., None], torch.cos(angle), torch.sin(angle)), -1)
    return found.flatten(1)
