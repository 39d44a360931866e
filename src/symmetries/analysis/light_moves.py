"""Changes of light: brightness, contrast, colour, sharpness, tones."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

KINDS = (
    "brightness",
    "contrast",
    "saturation",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)
GREY = (0.2989, 0.587, 0.114)  # weights of colours


def grey(x: Tensor) -> Tensor:
    """Grey pictures (N, 1, H, W)."""
    if x.shape[1] != 3:
        return x.mean(1, keepdim=True)
    red, green, blue = x.unbind(1)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue)[:, None]


def relit(x: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Pictures with one change of light each.

    Args:
        x: (N, C, H, W) from 0 to 1.
        kind: (N,) places in KINDS; below 0 nothing changes.
        amount: (N,) from -1 to 1.
    """
    made = x.clone()
    for place, change in enumerate(CHANGES):
        (rows,) = torch.nonzero(kind == place, as_tuple=True)
        if len(rows):
            own = change(x[rows], amount[rows, None, None, None])
            made[rows] = own.clamp(0, 1)
    return made


def contrasted(x: Tensor, amount: Tensor) -> Tensor:
    """Pictures further from their mean, or nearer to it."""
    middle = grey(x).mean((2, 3), keepdim=True)
    return middle + (1 + amount) * (x - middle)


def saturated(x: Tensor, amount: Tensor) -> Tensor:
    """Pictures further from grey, or nearer to it."""
    mono = grey(x)
    return mono + (1 + amount) * (x - mono)


def sharpened(x: Tensor, amount: Tensor) -> Tensor:
    """Pictures further from their blurred form, or nearer to it."""
    return blurred(x) * -amount + (1 + amount) * x


def posterized(x: Tensor, amount: Tensor) -> Tensor:
    """Pictures with fewer bits."""
    levels = torch.exp2(8 - (6 * amount.abs()).round())
    steps = (255 * x).round() * levels / 256
    return steps.floor() * 256 / levels / 255


def stretched(x: Tensor) -> Tensor:
    """Pictures whose values go from 0 to 1 in every channel."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    wide = high - low
    return torch.where(wide > 0, (x - low) / wide.clamp_min(1e-6), x)


def blurred(x: Tensor) -> Tensor:
    """Pictures smoothed by 3 x 3 pixels, the middle one five times, but for their borders."""
    inside = (9 * F.avg_pool2d(x, 3, 1) + 4 * x[..., 1:-1, 1:-1]) / 13
    rows = torch.cat((x[..., 1:-1, :1], inside, x[..., 1:-1, -1:]), -1)
    return torch.cat((x[..., :1, :], rows, x[..., -1:, :]), -2)


def equalized(x: Tensor) -> Tensor:
    """Pictures whose 256 tones occur equally often in every channel, as nearly as can be."""
    tones = (255 * x).round().clamp(0, 255).long().flatten(2)
    counts = torch.zeros(*tones.shape[:2], 256, device=x.device).scatter_add_(
        2, tones, torch.ones_like(tones, dtype=torch.float32)
    )
    last = counts.gather(2, tones.amax(2, keepdim=True))
    step = ((counts.sum(2, keepdim=True) - last) / 255).floor()
    before = counts.cumsum(2) - counts
    table = ((before + (step / 2).floor()) / step.clamp_min(1)).floor().clamp(0, 255) / 255
    return torch.where(step > 0, table.gather(2, tones), x.flatten(2)).view_as(x)


# What each of KINDS does to pictures (N, C, H, W), by amounts (N, 1, 1, 1) from -1 to 1.
CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda x, amount: x * (1 + amount),
    contrasted,
    saturated,
    sharpened,
    posterized,
    lambda x, amount: torch.where(x >= 1 - amount.abs(), 1 - x, x),
    lambda x, _: stretched(x),
    lambda x, _: equalized(x),
)
