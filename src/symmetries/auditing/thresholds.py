"""Saliency similarity as a function of the threshold above which a pixel counts as salient.

The paper keeps what is above 0.9 of the largest value of a map, often one or two pixels of a
picture (Moskalev et al. 2023, section 4.1). The curve has that as one of its points.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from symmetries.auditing.gradients import integrated_gradients
from symmetries.auditing.models import Model
from symmetries.auditing.saliency import keep_largest, smooth

THRESHOLDS = tuple(i / 10 for i in range(10))
PAPER = 0.9
FEWEST = 2.0  # pixels of a picture below which a similarity is a matter of chance
SMALL = 64  # pixels on the longer side above which maps are smoothed before thresholds


@dataclass(frozen=True)
class SalientPixels:
    """Absolute integrated gradients, and the maps that are left of them above thresholds.

    Args:
        steps: of the integration.
        baseline: of the integration.
        thresholds: shares of the largest value.
        sigma: width in pixels of the paper's 3 x 3 filter behind a threshold.
    """

    steps: int = 50
    baseline: float | Tensor = 0.0
    thresholds: tuple[float, ...] = THRESHOLDS
    sigma: float = 1.0

    def __call__(self, model: Model, x: Tensor, target: Tensor) -> Tensor:
        """Absolute integrated gradients of the shape of x."""
        found = integrated_gradients(model, x, target, steps=self.steps, baseline=self.baseline)
        return found.abs()

    def paper(self, attribution: Tensor) -> Tensor:
        """The paper's maps: values above 0.9 of the largest, filtered."""
        return self._kept(attribution, PAPER)

    def above(self, attribution: Tensor) -> list[Tensor]:
        """Maps for each threshold; those of large pictures are smoothed first."""
        smoothed = smooth_large(attribution)
        return [self._kept(smoothed, threshold) for threshold in self.thresholds]

    def pixels(self, attribution: Tensor) -> Tensor:
        """Number of pixels (N, T) that are above each threshold, in any channel."""
        smoothed = smooth_large(attribution)
        counts = []
        for threshold in self.thresholds:
            kept = keep_largest(smoothed, threshold) > 0
            kept = kept.any(1) if kept.ndim == 4 else kept
            counts.append(kept.flatten(1).sum(1))
        return torch.stack(counts, 1).to(attribution.dtype)

    def _kept(self, attribution: Tensor, threshold: float) -> Tensor:
        kept = keep_largest(attribution, threshold)
        return smooth(kept, self.sigma) if kept.ndim == 4 and self.sigma > 0 else kept


def smooth_large(maps: Tensor) -> Tensor:
    """Maps (N, C, H, W) of more than 64 pixels, smoothed by a Gaussian of 1/28 of the longer side.

    So blobs are compared in large pictures, as the paper's filter does in pictures of 28 pixels.
    The border is periodic, as in :func:`~symmetries.auditing.saliency.smooth`; smaller maps, and
    those of other data, stay as they are.

    Example:
        >>> smooth_large(torch.ones(1, 1, 8, 8)).shape
        torch.Size([1, 1, 8, 8])
    """
    if maps.ndim != 4 or max(maps.shape[-2:]) <= SMALL:
        return maps
    sigma = max(maps.shape[-2:]) / 28
    reach = min(math.ceil(3 * sigma), *(side - 1 for side in maps.shape[-2:]))
    offsets = torch.arange(-reach, reach + 1, dtype=maps.dtype, device=maps.device)
    taps = torch.exp(-0.5 * (offsets / sigma).square())
    taps = taps / taps.sum()
    flat = maps.reshape(-1, 1, *maps.shape[-2:])
    flat = F.conv2d(F.pad(flat, (0, 0, reach, reach), mode="circular"), taps[None, None, :, None])
    flat = F.conv2d(F.pad(flat, (reach, reach, 0, 0), mode="circular"), taps[None, None, None])
    return flat.reshape(maps.shape)


def area(similarities: Tensor, thresholds: tuple[float, ...] = THRESHOLDS) -> Tensor:
    """Mean similarity (N,) over thresholds, from similarities (N, T), by the trapezoidal rule.

    Example:
        >>> area(torch.ones(2, 10)).tolist()
        [1.0, 1.0]
    """
    at = torch.tensor(thresholds, dtype=similarities.dtype, device=similarities.device)
    return torch.trapezoid(similarities, at, dim=1) / (at[-1] - at[0])
