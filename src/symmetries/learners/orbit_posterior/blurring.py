"""Gaussian blur of pictures, by one width or by a covariance for each."""

import math

import torch
from torch import Tensor


def blur(images: Tensor, sigma: Tensor, zero_around: bool = False) -> Tensor:
    """Gaussian blur of pictures (N, C, H, W) by sigma in pixels.

    Args:
        images: (N, C, H, W).
        sigma: (N,), or one for all, (1,); (N, 2) along x and along y.
        zero_around: whether pictures are zero beyond their frame, else nothing is known there.
    """
    height, width = images.shape[-2:]
    along = sigma.to(images.dtype)
    if along.ndim == 2:
        columns = _taps(along[:, 0], width, zero_around)
        rows = _taps(along[:, 1], height, zero_around)
    else:
        rows = _taps(along, height, zero_around)
        columns = rows if width == height else _taps(along, width, zero_around)
    return rows @ images @ columns.transpose(-1, -2)


def blur_directed(
    images: Tensor, sigma: Tensor, own: float, most: float, stretched: Tensor
) -> Tensor:
    """Gaussian blur by the covariances sigma^2 + own (most - stretched), none of them negative.

    Args:
        images: (N, C, H, W), with room around the content.
        sigma: (N,) in pixels.
        own: variance in pixels before a stretch A.
        most: largest eigenvalue of A A^T that is made up for.
        stretched: A A^T (N, 2, 2), with y up.
    """
    xx, xy, yy = (stretched[:, i, j].float() for i, j in ((0, 0), (0, 1), (1, 1)))
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    spread = (half.square() + xy.square()).sqrt().clamp_min(1e-6)
    short, long = ((most - value).clamp_min(0) for value in (mean + spread, mean - spread))
    level, slope = (long + short) / 2, (long - short) / (2 * spread)
    entries = (level - slope * half, -slope * xy, level + slope * half)
    xx, xy, yy = (own * entry[:, None, None] for entry in entries)
    more = sigma.float().square()[:, None, None]
    height, width = images.shape[-2:]
    fx = torch.fft.rfftfreq(width, device=images.device)[None, None]
    fy = -torch.fft.fftfreq(height, device=images.device)[None, :, None]  # rows go down
    power = (xx + more) * fx**2 + 2 * xy * fx * fy + (yy + more) * fy**2
    spectrum = torch.fft.rfft2(images.float()) * torch.exp(-2 * math.pi**2 * power)[:, None]
    found: Tensor = torch.fft.irfft2(spectrum, s=(height, width))
    return found.to(images.dtype)


def _taps(sigma: Tensor, size: int, zero_around: bool) -> Tensor:
    """Matrices (N, 1, size, size) whose rows are Gaussians around the diagonal.

    They are normalised within the frame, or with what lies beyond it.
    """
    place = torch.arange(size, device=sigma.device)
    profile = torch.exp(-0.5 * (place / sigma.clamp_min(0.05)[:, None]).square())
    taps = profile[:, (place[:, None] - place[None]).abs()]
    whole = profile[:, :1] + 2 * profile[:, 1:].sum(-1, keepdim=True)
    total = whole[:, None] if zero_around else taps.sum(-1, keepdim=True)
    return (taps / total)[:, None]
