"""Changes of light: brightness, contrast, colour, sharpness, tones."""

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
    factor = (1 + amount)[:, None, None, None]
    size = amount.abs()[:, None, None, None]
    mono = grey(x)
    middle = mono.mean((2, 3), keepdim=True)
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    wide = high - low
    stretched = torch.where(wide > 0, (x - low) / wide.clamp_min(1e-6), x)
    levels = torch.exp2(8 - (6 * size).round())  # bits that are kept
    steps = (255 * x).round() * levels / 256
    changed = (
        x * factor,
        middle + factor * (x - middle),
        mono + factor * (x - mono),
        blurred(x) * (1 - factor) + factor * x,
        steps.floor() * 256 / levels / 255,
        torch.where(x >= 1 - size, 1 - x, x),
        stretched,
        equalized(x),
    )
    for place, one in enumerate(changed):
        x = torch.where((kind == place)[:, None, None, None], one.clamp(0, 1), x)
    return x


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
