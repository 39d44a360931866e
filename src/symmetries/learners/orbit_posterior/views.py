"""Pictures as the network sees them: moved, and with nothing left that tells how far.

Every view is made alike, whatever the move r is: the picture is blurred a little, resampled twice
(x to T_s x to T_r x, with s random), blurred again by a random amount, given noise, and seen
through one fixed window which no move within the reach of pi brings the frame's edge into.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.actions.permute import permute, permutes_pixels
from symmetries.learners.orbit_posterior.chart import SHIFTS, STRETCHES, Chart
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.numbers import Numbers
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import warp

LARGEST_CANVAS = 2.0  # sides of the picture
SMALLEST_WINDOW = 0.4  # radius in half-images
CONTENT = 0.05  # of the range of values: what differs more from the background is content
LOOKED_AT = 1024


@dataclass(frozen=True)
class Frame:
    """What surrounds the pictures, found from the data.

    Args:
        plain: whether there is one background value around the content.
        fill: that value, or the mean of all values.
        radius: half-images from the middle that hold the content, where there is a background.
    """

    plain: bool
    fill: float
    radius: float


@torch.no_grad()
def find_frame(images: Tensor, fill: float) -> Frame:
    """The frame of pictures (N, C, H, W) around which an action puts the value ``fill``."""
    x = images[:LOOKED_AT]
    low, high = x.aminmax()
    differs = (x - fill).abs().amax(1) > CONTENT * (high - low)
    border = torch.cat((differs[:, (0, -1)].flatten(), differs[:, :, (0, -1)].flatten()))
    plain = bool(border.float().mean() < 0.1)
    if not plain:
        return Frame(False, float(x.mean()), 1.0)
    distance = radii(x.shape[-2], x.shape[-1], x.device)
    farthest = (differs * distance).flatten(1).amax(1)
    return Frame(True, fill, float(farthest.quantile(0.99).clamp(0.1, math.sqrt(2))))


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
        pad, radius = self._canvas(max(height, width))
        self.pad = pad
        self.shape = (shape[0], height + 2 * pad, width + 2 * pad)
        self.unit = max(height, width) / max(self.shape[1:])  # half-images per half-canvas
        window = round_window(*self.shape[1:], radius / self.unit if pad else radius, config.margin)
        self.register_buffer("window", torch.ones_like(window) if self.permutes else window)
        self.window: Tensor
        # Shifts are in half-images, the canvas may be larger.
        self.register_buffer("units", torch.tensor([[self.unit], [self.unit], [1.0]]))
        self.units: Tensor

    @property
    def too_small(self) -> bool:
        """Whether moves go so far that the window that is valid for all of them is tiny."""
        return not self.permutes and not self.frame.plain and self._valid() < SMALLEST_WINDOW

    def forward(self, images: Tensor, u: Tensor, numbers: Numbers) -> Tensor:
        """Views (N, C, H', W') of pictures (N, C, H, W) moved by coordinates u (N, D)."""
        n, config = len(images), self.config
        x = images
        if self.chart.colours is not None:
            x = ColourAction(self.chart.colours)(self.chart.colour(u).to(x.dtype), x.clamp(0, 1))
        x = (x - self.frame.fill) / self.scale
        x = x * torch.exp(2 * config.jitter * (2 * numbers.rand(n, 1, 1, 1) - 1)).to(x.dtype)
        if self.pad:
            mode = "constant" if self.frame.plain else "replicate"
            x = F.pad(x, (self.pad,) * 4, mode=mode)
        if not self.permutes:
            x = self._resampled(blur(x, x.new_full((1,), config.before)), u, numbers)
        else:
            x = warp(x, affine_inverse(self._jitter(numbers, n))[:, :2].to(x.dtype), **self._how())
            if self.chart.finite is not None:
                x = permute(self.chart.finite, u[:, 0].long(), x)
        sigma = config.least + (config.most - config.least) * numbers.rand(n)
        x = blur(x, self._level(sigma.to(x.dtype), u))
        noise = config.noise * numbers.rand(n, 1, 1, 1) * numbers.randn(*x.shape)
        return (x + noise.to(x.dtype)) * self.window

    def _resampled(self, x: Tensor, u: Tensor, numbers: Numbers) -> Tensor:
        """Two resamplings, by random s and by r s^-1."""
        n = len(x)
        matrix = self.chart.matrix(u)
        matrix = torch.cat((matrix[..., :2], matrix[..., 2:] * self.units), -1)
        between = _between(numbers.rand(n, 3), self.turns, max(x.shape[-2:])).to(matrix.dtype)
        first = between @ self._jitter(numbers, n).to(matrix.dtype)
        x = warp(x, affine_inverse(first)[:, :2], **self._how())
        theta = between @ affine_inverse(matrix)
        return warp(x, theta[:, :2], **self._how())

    def _how(self) -> dict[str, Any]:
        """Interpolation and padding."""
        padding = "constant" if self.frame.plain else "reflect"
        return {"interpolation": self.action.interpolation, "padding": padding}

    def _jitter(self, numbers: Numbers, n: int) -> Tensor:
        """Random zooms and shifts (n, 3, 3) that are not asked for: more pictures to learn from.

        Pictures without a background are only enlarged, and stay within their frame.
        """
        amount, names = self.config.jitter, self.chart.names
        unit = numbers.rand(n, 3)
        zoom = amount * (2 * unit[:, 0] - 1 if self.frame.plain else unit[:, 0])
        zoom = zoom * (0.0 if set(names) & set(STRETCHES) else 1.0)
        room = zoom.new_full((n,), amount) if self.frame.plain else 1 - torch.exp(-zoom)
        room = room * (0.0 if set(names) & set(SHIFTS) else 0.7 * self.unit)
        shift = room[:, None] * (2 * unit[:, 1:] - 1)
        factor, zero = torch.exp(zoom), torch.zeros_like(zoom)
        rows = (factor, zero, shift[:, 0], zero, factor, shift[:, 1], zero, zero, zero + 1)
        found: Tensor = torch.stack(rows, -1).unflatten(-1, (3, 3))
        return found

    def _level(self, sigma: Tensor, u: Tensor) -> Tensor:
        """Blur that makes up for what a zoom did to the sharpness of the picture."""
        names = [name for name in STRETCHES if name in self.chart.names and name != "shear"]
        if not names:
            return sigma
        columns = [u[:, self.chart.names.index(name)] for name in names]
        zoom = torch.stack(columns, -1).mean(-1)
        most = max(self.chart.reach[name] for name in names)
        own = self.config.before**2 + 1 / 12  # of the blur before, and of a pixel
        missing = own * (math.exp(2 * most) - torch.exp(2 * zoom))
        return (sigma.square() + missing).sqrt()

    def _canvas(self, side: int) -> tuple[int, float]:
        """Pixels to add on each side, and the radius of the window in half-images."""
        if self.permutes:
            return 0, 2.0
        if not self.frame.plain:
            return 0, max(self._valid(), SMALLEST_WINDOW / 2)
        if not self._travels():
            return 0, 1.0
        reach = self.chart.reach
        shift = math.hypot(*(reach.get(name, 0.0) for name in SHIFTS))
        grown = math.exp(max((reach.get(name, 0.0) for name in STRETCHES), default=0.0))
        needed = min(max(1.0, self.frame.radius * grown + shift), LARGEST_CANVAS)
        return math.ceil((needed - 1) * side / 2), needed

    def _travels(self) -> bool:
        return any(name in self.chart.reach for name in (*SHIFTS, *STRETCHES))

    def _valid(self) -> float:
        """Radius, in half-images, that every move fills from within the frame."""
        reach = self.chart.reach
        shift = math.hypot(*(reach.get(name, 0.0) for name in SHIFTS))
        shrunk = sum(reach.get(name, 0.0) for name in ("shear",)) + max(
            (reach.get(name, 0.0) for name in STRETCHES if name != "shear"), default=0.0
        )
        return max(0.0, (1 - shift)) * math.exp(-shrunk)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur of pictures (N, C, H, W) by sigma in pixels: (N,), or one for all, (1,)."""
    height, width = images.shape[-2:]
    rows = _taps(sigma.to(images.dtype), height)
    columns = rows if width == height else _taps(sigma.to(images.dtype), width)
    return rows @ images @ columns.transpose(-1, -2)


def _taps(sigma: Tensor, size: int) -> Tensor:
    """Matrices (N, 1, size, size) whose rows are normalised Gaussians around the diagonal."""
    place = torch.arange(size, device=sigma.device)
    profile = torch.exp(-0.5 * (place / sigma.clamp_min(0.05)[:, None]).square())
    taps = profile[:, (place[:, None] - place[None]).abs()]
    return (taps / taps.sum(-1, keepdim=True))[:, None]


def _between(unit: Tensor, turns: bool, side: int) -> Tensor:
    """Random motions (N, 3, 3) that change every pixel: less than a pixel of shift, and a turn."""
    angle = 2 * math.pi * unit[:, 0] * (1.0 if turns else 0.0)
    shift = (2 * unit[:, 1:] - 1) / side  # half a pixel to either side
    c, s, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    rows = (c, -s, shift[:, 0], s, c, shift[:, 1], zero, zero, zero + 1)
    found: Tensor = torch.stack(rows, -1).unflatten(-1, (3, 3))
    return found


def radii(height: int, width: int, device: torch.device) -> Tensor:
    """Distance (H, W) of pixel centres from the middle, in halves of the longer side."""
    x, y = (torch.arange(side, device=device) * 2 + 1 - side for side in (width, height))
    return torch.hypot(y[:, None].float(), x[None].float()) / max(height, width)


def round_window(height: int, width: int, radius: float, margin: float) -> Tensor:
    """Round window (H, W) with a soft edge of two pixels, inside the shorter side."""
    side, short = max(height, width), min(height, width)
    edge = min(radius * side / 2, short / 2) - margin
    pixels = radii(height, width, torch.device("cpu")) * side / 2
    return ((edge - pixels) / 2 + 0.5).clamp(0, 1)
