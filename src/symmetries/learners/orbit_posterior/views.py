"""Pictures as the network sees them: moved, and with nothing left that tells how far.

Every view is made alike, whatever the move r is: the picture is blurred a little, resampled twice
(x to T_s x to T_r x, with s random), blurred again by a random amount, given noise, and seen
through one fixed window which no move within the reach of pi brings the frame's edge into.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.actions.permute import permute, permutes_pixels
from symmetries.learners.orbit_posterior.blurring import blur, blur_directed
from symmetries.learners.orbit_posterior.chart import SHIFTS, STRETCHES, Chart
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.frames import Frame, radii
from symmetries.learners.orbit_posterior.numbers import Numbers
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import warp

SMALLEST_WINDOW = 0.4  # radius in half-images
ROUND_MARGIN = 2.0  # pixels by which the edge of a round window is blurred


class View(nn.Module):
    """T_r x as the network sees it.

    Args:
        action: of the group on pictures.
        chart: coordinates of its elements.
        shape: (C, H, W) of the pictures, already shrunk where they are large.
        frame: what surrounds them.
        config: amounts of blur and noise.
        mean: of the pictures' values.
        scale: their standard deviation.
    """

    def __init__(
        self,
        action: ImageAction,
        chart: Chart,
        shape: tuple[int, int, int],
        frame: Frame,
        config: Views,
        mean: float,
        scale: float,
    ) -> None:
        super().__init__()
        self.action, self.chart, self.config, self.frame = action, chart, config, frame
        self.mean, self.scale = mean, scale
        finite = chart.finite
        height, width = shape[1:]
        self.permutes = chart.planar is None and (
            finite is None or permutes_pixels(finite, height, width)
        )
        self.turns = "rotation" in chart.names or (finite is not None and not self.permutes)
        self.shifts = bool(set(SHIFTS) & set(chart.names))
        self.shape = shape
        margin = config.margin + (0.0 if frame.plain or frame.radius == 1 else ROUND_MARGIN)
        window = round_window(height, width, self._radius(), margin)
        self.register_buffer("window", torch.ones_like(window) if self.permutes else window)
        self.window: Tensor

    @property
    def too_small(self) -> bool:
        """Whether moves go so far that the window that is valid for all of them is tiny."""
        return not self.permutes and not self.frame.plain and self._valid() < SMALLEST_WINDOW

    def forward(self, images: Tensor, u: Tensor, numbers: Numbers) -> tuple[Tensor, Tensor]:
        """U (N, D), and views (N, C, H, W) of pictures (N, C, H, W) moved by it."""
        n, config = len(images), self.config
        x = self.frame.content(images)
        if self.chart.colours is not None:
            act, shown = ColourAction(self.chart.colours), (x + self.frame.fill).clamp(0, 1)
            x = act(self.chart.colour(u).to(x.dtype), shown) - self.frame.fill
        x = x / self.scale
        x = x * strengths(self.chart, config, numbers, n).to(x.dtype)
        if not self.permutes:
            x = self._resampled(blur(x, x.new_full((1,), config.before)), u, numbers)
        else:
            zoom, shift = self._jitter(numbers, n)
            x = warp(x, affine_inverse(shift @ zoom)[:, :2].to(x.dtype), **self._how())
            if self.chart.finite is not None:
                x = permute(self.chart.finite, u[:, 0].long(), x)
        sigma = config.least + (config.most - config.least) * numbers.rand(n)
        if self.frame.plain and self.turns:
            sigma = (sigma.square() + config.edges**2).sqrt()
        x = self._level(x, sigma.to(x.dtype), u)
        noise = config.noise * numbers.rand(n, 1, 1, 1) * numbers.randn(*x.shape)
        return u, (x + noise.to(x.dtype)) * self.window

    def _resampled(self, x: Tensor, u: Tensor, numbers: Numbers) -> Tensor:
        """Two resamplings, by random s and by r s^-1."""
        n = len(x)
        matrix = self.chart.matrix(u)
        between = _between(numbers.rand(n, 3), self.turns, max(x.shape[-2:])).to(matrix.dtype)
        zoom, shift = (part.to(matrix.dtype) for part in self._jitter(numbers, n))
        if not self.frame.plain:
            zoom = shift @ zoom  # stays within the frame
        x = warp(x, affine_inverse(between @ zoom)[:, :2], **self._how())
        if self.frame.plain:
            matrix = shift @ matrix  # the place that it takes content to tells nothing of the move
        theta = between @ affine_inverse(matrix)
        return warp(x, theta[:, :2], **self._how())

    def _how(self) -> dict[str, Any]:
        """Interpolation and padding."""
        padding = "constant" if self.frame.plain else "reflect"
        return {"interpolation": self.action.interpolation, "padding": padding}

    def _jitter(self, numbers: Numbers, n: int) -> tuple[Tensor, Tensor]:
        """Random zooms and shifts (n, 3, 3) that are not asked for: more pictures to learn from.

        Shifts have no preferred direction, and shifts that are asked for are left alone: zooms are
        about the content, or there are none. Pictures without a background are only enlarged, and
        stay within their frame.
        """
        amount, names = self.config.jitter, self.chart.names
        unit = numbers.rand(n, 3)
        plain = self.frame.plain
        zoom = amount * (2 * unit[:, 0] - 1 if plain else unit[:, 0])
        fixed = set(names) & set(STRETCHES) or (self.shifts and not plain)
        zoom = zoom * (0.0 if fixed else 1.0)
        room = zoom.new_full((n,), amount)
        if not plain:
            room = self.frame.radius * (1 - torch.exp(-zoom))
        length = room * (0.0 if self.shifts else 0.7) * unit[:, 1].sqrt()
        angle = 2 * math.pi * unit[:, 2]
        shift = length[:, None] * torch.stack((torch.cos(angle), torch.sin(angle)), -1)
        factor = torch.stack((torch.exp(zoom), torch.exp(zoom), torch.ones_like(zoom)), -1)
        return torch.diag_embed(factor), _shifts(shift)

    def _level(self, x: Tensor, sigma: Tensor, u: Tensor) -> Tensor:
        """Blur by sigma (N,), and by what makes up for what a stretch did to the sharpness.

        The picture's own blur grew with the stretch A, to own A A^T; now it is own e^(2 most) in
        every direction.
        """
        names = [name for name in STRETCHES if name in self.chart.names]
        if not names:
            return blur(x, sigma)
        most = math.exp(2 * max(self.chart.reach[name] for name in names))
        own = self.config.before**2 + 1 / 12  # of the blur before, and of a pixel
        own += 1 / 6 if self.action.interpolation == "bilinear" else 0.0  # of the first resampling
        if names == ["zoom"]:
            zoom = u[:, self.chart.names.index("zoom")]
            return blur(x, (sigma.square() + own * (most - torch.exp(2 * zoom))).sqrt())
        block = self.chart.matrix(u)[:, :2, :2]
        stretched = block @ block.transpose(-1, -2)
        return blur_directed(x, sigma, own, most, stretched)

    def _radius(self) -> float:
        """Radius of the window, in half-images."""
        return 1.0 if self.frame.plain else max(self._valid(), SMALLEST_WINDOW / 2)

    def _valid(self) -> float:
        """Radius, in half-images, that every move fills from within the frame."""
        reach = self.chart.reach
        shift = math.hypot(*(reach.get(name, 0.0) for name in SHIFTS))
        shrunk = sum(reach.get(name, 0.0) for name in ("shear",)) + max(
            (reach.get(name, 0.0) for name in STRETCHES if name != "shear"), default=0.0
        )
        return max(0.0, self.frame.radius - shift) * math.exp(-shrunk)


def _between(unit: Tensor, turns: bool, side: int) -> Tensor:
    """Random motions (N, 3, 3) that change every pixel: less than a pixel of shift, and a turn."""
    angle = 2 * math.pi * unit[:, 0] * (1.0 if turns else 0.0)
    shift = (2 * unit[:, 1:] - 1) / side  # half a pixel to either side
    c, s, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    rows = (c, -s, shift[:, 0], s, c, shift[:, 1], zero, zero, zero + 1)
    found: Tensor = torch.stack(rows, -1).unflatten(-1, (3, 3))
    return found


def _shifts(by: Tensor) -> Tensor:
    """Matrices (N, 3, 3) of shifts (N, 2)."""
    found = torch.eye(3, dtype=by.dtype, device=by.device).repeat(len(by), 1, 1)
    found[:, :2, 2] = by
    return found


def strengths(chart: Chart, config: Views, numbers: Numbers, n: int) -> Tensor:
    """Random factors (n, 1, 1, 1) of the strength of pictures; 1 where brightness is asked for."""
    most = 0.0 if "value" in chart.names else 2 * config.jitter
    return torch.exp(most * (2 * numbers.rand(n, 1, 1, 1) - 1))


def round_window(height: int, width: int, radius: float, margin: float) -> Tensor:
    """Round window (H, W) with a soft edge of two pixels, inside the shorter side."""
    side, short = max(height, width), min(height, width)
    edge = min(radius * side / 2, short / 2) - margin
    pixels = radii(height, width, torch.device("cpu")) * side / 2
    return ((edge - pixels) / 2 + 0.5).clamp(0, 1)
