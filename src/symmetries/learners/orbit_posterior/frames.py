"""What surrounds the content of pictures: a background, the frame's edge, or a round window."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of

CONTENT = 0.05  # of the range of values: what differs more from the background is content
NOISE = 5.0  # standard deviations of the noise around the content
LEAST_CONTENT = 0.005  # of the pixels: backgrounds that differ as much as contents are none
SELDOM = 0.003  # of the pictures
SMALLEST_DISC = 0.75  # radius of a round window, in half-images
LEAST_INSIDE = 0.5  # of the pixels of a disc: those that must be filled
FILLED = 0.8  # of the pixels of a round window differ from what is around it
LOOKED_AT = 1024
MOST_VALUES = 2**25  # of large pictures fewer are looked at


@dataclass(frozen=True)
class Frame:
    """What surrounds the pictures, found from the data.

    Args:
        plain: whether there is one background value around the content.
        fill: that value, or the mean of all values.
        radius: half-images from the middle that hold the content, where there is a background; else
            those of the disc that pictures fill: 1 for the whole frame, less for a round window.
        faint: what differs less from the background belongs to it: noise, paper, JPEG.
    """

    plain: bool
    fill: float
    radius: float
    faint: float = 0.0

    def content(self, images: Tensor) -> Tensor:
        """Pictures less their background: exactly zero around the content, where it is plain.

        Noise would end at the frame's edge, and tell the network how the frame was moved.
        """
        away = images - self.fill
        return away * (away.abs() > self.faint).to(away.dtype)


@torch.no_grad()
def find_frame(images: Tensor, fill: float) -> Frame:
    """The frame of pictures (N, C, H, W) around which an action puts the value ``fill``.

    A disc that is filled by nearly all pictures is a round window: its edge stays when content
    turns, so that it is no content.
    """
    x = some_of(images, max(64, min(LOOKED_AT, MOST_VALUES // images[0].numel())))
    low, high = x.aminmax()
    least = CONTENT * (high - low)
    distance = radii(x.shape[-2], x.shape[-1], x.device)
    disc = _find_disc(x, distance, least)
    if disc is not None:
        return disc
    away = (x - fill).abs().amax(1)
    faint = torch.maximum(least, NOISE * _border_noise(x, least))
    differs = away > faint
    border = torch.cat((differs[:, (0, -1)].flatten(), differs[:, :, (0, -1)].flatten()))
    plain = bool(border.float().mean() < 0.1) and bool(differs.float().mean() > LEAST_CONTENT)
    if not plain:
        return Frame(False, float(x.mean()), 1.0)
    radius = min(max(_farthest(differs, distance), 0.1), math.sqrt(2))
    return Frame(True, fill, radius, float(faint))


@torch.no_grad()
def channel_offsets(images: Tensor, fill: float) -> tuple[float, ...]:
    """By how much a coloured background differs from one value in each channel; zeros elsewhere.

    Args:
        images: (N, C, H, W).
        fill: the value.
    """
    x = some_of(images, LOOKED_AT).transpose(0, 1)
    low, high = x.aminmax()
    like = CONTENT * (high - low)
    border = torch.cat((x[..., (0, -1), :].flatten(1), x[..., (0, -1)].flatten(1)), 1)
    middles = border.median(1).values
    agrees = ((border - middles[:, None]).abs() < like).float().mean(1) > 0.9
    if not bool(agrees.all()) or not bool(middles.max() - middles.min() > like):
        return (0.0,) * len(middles)
    return tuple((middles - fill).tolist())


def _border_noise(x: Tensor, like: Tensor) -> Tensor:
    """Standard deviation of what is around the content, from medians over the border.

    Within pictures it is zero where neighbours are much alike: textures are smoother than what they
    vary by, and noise is not. Plain backgrounds may differ between pictures, too, as paper does.
    """
    edges = [edge.flatten(2) for edge in (x[..., (0, -1), :], x[..., (0, -1)].mT)]
    border = torch.cat(edges, -1)
    own = border.median(-1, keepdim=True).values
    away = (border - own).abs()
    steps = torch.cat([edge.unflatten(-1, (2, -1)).diff(dim=-1).flatten() for edge in edges])
    noise, step = away.median(), steps.abs().median()
    within = noise if bool(step > noise) else noise.new_zeros(())
    alike = bool((away < torch.maximum(like, NOISE * within)).float().mean() > 0.9)
    between = (own - own.median(0).values).abs().median() if alike else noise.new_zeros(())
    return torch.hypot(within, between) / 0.6745


def _farthest(differs: Tensor, distance: Tensor) -> float:
    """Distance from the middle within which pixels differ, but for those of very few pictures."""
    often = differs.sum(0) > max(2, SELDOM * len(differs))
    return float(distance[often].max()) if bool(often.any()) else 0.0


def _find_disc(x: Tensor, distance: Tensor, least: Tensor) -> Frame | None:
    """The frame of square pictures in a round window: one value in the corners, a filled disc."""
    side = x.shape[-1]
    corners = distance > 1 + 1 / side
    if x.shape[-2] != side or not bool(corners.any()):
        return None
    around = x[..., corners].median()
    differs = (x - around).abs().amax(1) > least
    radius = min(_farthest(differs, distance), 1.0)
    inside = distance < radius - 3 / side
    if radius < SMALLEST_DISC or bool(differs[:, corners].float().mean() > 0.01):
        return None
    if int(inside.sum()) < LEAST_INSIDE * int((distance < radius).sum()):
        return None  # of few pixels: a digit of 8 x 8 fills the middle, too
    filled = bool(differs[:, inside].float().mean() > FILLED)
    return Frame(False, float(x[..., inside].mean()), radius - 1 / side) if filled else None


def radii(height: int, width: int, device: torch.device) -> Tensor:
    """Distance (H, W) of pixel centres from the middle, in halves of the longer side."""
    x, y = (torch.arange(side, device=device) * 2 + 1 - side for side in (width, height))
    return torch.hypot(y[:, None].float(), x[None].float()) / max(height, width)
