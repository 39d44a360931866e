"""Figure 1: points in the plane, and models with none, some and full invariance to rotation."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from symmetries.nn.natural_linear import NaturalLinear

FEATURES, SIGMA, ANGLES = 1024, 5.0, 64
WIDTHS = (0.0, 45.0, 180.0)


def points(seed: int) -> tuple[Tensor, Tensor]:
    """Two classes at two radii, seen in a sector of a third of a turn only."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(40) % 2
    angle = (torch.rand(40, generator=generator) - 0.5) * (2 * math.pi / 3)
    radius = 0.35 + 0.4 * label + 0.06 * torch.randn(40, generator=generator)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), 1), label


def features(x: Tensor, weight: Tensor, offset: Tensor, width: float) -> Tensor:
    """Random Fourier features of weights turned by angles up to the width, averaged."""
    angles = torch.linspace(-1, 1, ANGLES) * math.radians(width)
    c, s = angles.cos(), angles.sin()
    turn = torch.stack((torch.stack((c, -s), -1), torch.stack((s, c), -1)), -2)
    moved = torch.einsum("di,sij->sdj", weight, turn)
    responses = torch.einsum("nj,sdj->snd", x, moved) + offset
    return math.sqrt(2 / FEATURES) * responses.cos().mean(0)


def toy(
    folder: str | None, device: torch.device, seed: int, steps: int | None
) -> Iterator[dict[str, object]]:
    """Probabilities on a grid, for three widths; on the CPU, in a moment."""
    x, y = points(seed)
    generator = torch.Generator().manual_seed(seed)
    weight = SIGMA * torch.randn(FEATURES, 2, generator=generator)
    offset = 2 * math.pi * torch.rand(FEATURES, generator=generator)
    line = torch.linspace(-1, 1, 81)
    grid = torch.cartesian_prod(line.flip(0), line)[:, [1, 0]]
    sign = 2.0 * y - 1
    pictures, bounds = [], []
    for width in WIDTHS:
        head = NaturalLinear(FEATURES, 1, bias=False, prior_variance=30.0, learn_prior=False)
        phi = features(x, weight, offset, width)[None]
        for step in range(steps or 40):
            mean, variance = head(phi)
            noise = torch.randn(64, 1, 1, 1, generator=generator)
            logit = mean + (0 if step == 0 else 1) * variance.sqrt() * noise
            p = logit.sigmoid()
            curvature = (p * (1 - p)).mean(0)
            slope = y[None, :, None] - p.mean(0)
            head.update(phi, curvature * mean + slope, curvature, 0.5)
        mean, variance = head(phi)
        logit = mean + variance.sqrt() * torch.randn(256, 1, 1, 1, generator=generator)
        fit = torch.nn.functional.logsigmoid(logit[..., 0] * sign).mean(0).sum()
        bounds.append(float(fit - head.kl()))
        shown, spread = head(features(grid, weight, offset, width)[None])
        # Probit's approximation of the mean of a sigmoid.
        p = (shown / (1 + math.pi / 8 * spread).sqrt()).sigmoid()
        pictures.append(p.reshape(81, 81).numpy())
    yield {
        "seed": seed,
        "widths": list(WIDTHS),
        "elbo": bounds,
        "arrays": {"probabilities": np.stack(pictures), "points": x.numpy(), "labels": y.numpy()},
    }
