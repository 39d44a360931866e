"""Saliency maps of a classifier, and their similarity when the input is transformed.

Reference: Moskalev, Sepliarskaia, Bekkers, Smeulders 2023, "On genuine invariance learning without
weight-tying", sections 3.2 and 4.1. The paper keeps what is above 0.9 of the largest value of a
map, often one or two pixels of a picture; :class:`SalientPixels` has other thresholds as well.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symmetries._validation.checks import check_finite, check_floats, check_number
from symmetries._validation.placement import check_same
from symmetries.actions.base import Action
from symmetries.auditing.elements import Moves, check_moves, make_moves
from symmetries.auditing.estimate import estimate
from symmetries.auditing.gradients import integrated_gradients
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.models import (
    Model,
    check_callable,
    check_classifier,
    logits_of,
    model_device,
    untouched,
)
from symmetries.groups.base import Group
from symmetries.results import Estimate

Saliency = Callable[[Model, Tensor, Tensor], Tensor]
THRESHOLDS = tuple(i / 10 for i in range(10))
PAPER = 0.9
FEWEST = 2.0  # pixels of a picture below which a similarity is a matter of chance
SMALL = 64  # pixels on the longer side above which maps are smoothed before thresholds


def saliency_map(
    model: Model,
    x: Inputs,
    target: Tensor,
    *,
    steps: int = 50,
    baseline: float | Tensor = 0.0,
    threshold: float = 0.9,
    sigma: float = 1.0,
) -> Tensor:
    """Return the paper's saliency map (section 4.1): the most important pixels, slightly smoothed.

    The map is the absolute integrated gradient, with values below ``threshold`` times the maximum
    of an example set to zero, and a 3 x 3 Gaussian filter (see :func:`smooth` for the border).

    Args:
        model: callable from images to logits.
        x: (N, C, H, W); data of another rank is not smoothed.
        target: (N,) int64, the class that is explained.
        steps: number of steps of the integration.
        baseline: baseline of the integration.
        threshold: fraction of the maximum.
        sigma: width of the filter in pixels; 0 omits it.

    Returns:
        Non-negative maps of the shape of x.
    """
    check_number(threshold, "threshold", 0, 1)
    x = inputs_of(x, model)
    found = integrated_gradients(model, x, target, steps=steps, baseline=baseline)
    return salient(found.abs(), threshold, sigma)


def salient(maps: Tensor, threshold: float, sigma: float = 1.0) -> Tensor:
    """Non-negative maps (N, ...) above a share of each map's largest value, filtered if images."""
    kept = keep_largest(maps, threshold)
    return smooth(kept, sigma) if maps.ndim == 4 and sigma > 0 else kept


def keep_largest(maps: Tensor, threshold: float) -> Tensor:
    """Return non-negative maps (N, ...) without what is below a share of each map's largest value.

    Example:
        >>> keep_largest(torch.tensor([[1.0, 0.5, 0.2]]), 0.5).tolist()
        [[1.0, 0.5, 0.0]]
    """
    largest = maps.flatten(1).amax(1).reshape(-1, *[1] * (maps.ndim - 1))
    return torch.where(maps < threshold * largest, torch.zeros_like(maps), maps)


def smooth(maps: Tensor, sigma: float) -> Tensor:
    """Apply a 3 x 3 Gaussian filter to maps (N, C, H, W); sigma is in pixels.

    The border is periodic. The filter therefore commutes with quarter turns, flips and cyclic
    shifts, and an invariant model has a similarity of exactly 1.

    Example:
        >>> round(smooth(torch.ones(1, 1, 3, 3), 1.0)[0, 0, 0, 0].item(), 6)
        1.0
    """
    offsets = torch.tensor([-1.0, 0.0, 1.0], dtype=maps.dtype, device=maps.device)
    taps = torch.exp(-0.5 * (offsets / sigma).square())
    taps = taps / taps.sum()
    flat = maps.reshape(-1, 1, *maps.shape[-2:])
    flat = F.pad(flat, (1, 1, 1, 1), mode="circular")
    return F.conv2d(flat, (taps[:, None] * taps)[None, None]).reshape(maps.shape)


def map_similarity(maps: Tensor, moved: Tensor) -> Tensor:
    """Return the cosine (N,) of two saliency maps (N, ...) of each example; 1 if both are zero."""
    check_floats(maps, "maps", "...", "P")
    check_same(maps=maps, moved=moved)
    a, b = maps.flatten(1), moved.flatten(1)
    scale = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    both_zero = (a == 0).all(1) & (b == 0).all(1)
    cosine = (a * b).sum(1) / scale.clamp_min(torch.finfo(a.dtype).tiny)
    return torch.where(both_zero, torch.ones_like(cosine), cosine)


def saliency_similarity(
    model: Model,
    x: Inputs,
    group: str | Group[Any] | Action,
    y: Tensor | None = None,
    *,
    saliency: Saliency = saliency_map,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> Estimate:
    """Estimate SI, the mean cosine of m(x) and g^-1 m(g x) over examples and elements (equation 3).

    Args:
        model: any callable from (N, ...) to logits (N, K).
        x: (N, ...); a tensor, an array, an ``ImageSet`` or a ``DataLoader``.
        group: a group, its name, or an action; see :func:`symmetries.auditing.elements.make_moves`.
        y: (N,) the classes that the maps explain; those predicted for x by default.
        saliency: ``saliency(model, x, y)`` gives maps of the shape of x. The paper's by default;
            for other options of it use ``functools.partial(saliency_map, steps=20)``.
        identity: whether the identity of a finite group counts (its cosine is 1).
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box that they are drawn from; the group's bounds by default.
        batch_size: number of examples at once.
        seed: random seed of the elements.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> x = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        >>> by_sum = lambda x: x.sum((2, 3)) * torch.tensor([1.0, -1.0])
        >>> round(saliency_similarity(by_sum, x, Cyclic(4)).mean, 6)
        1.0
    """
    x = inputs_of(x, model)
    with untouched(model):
        check_classifier(model, x, y)
    moves = make_moves(
        group, x, identity=identity, samples=samples, half_width=half_width, seed=seed
    )
    return estimate(mean_similarity(model, x, y, moves, saliency, batch_size))


def mean_similarity(
    model: Model,
    x: Tensor,
    y: Tensor | None,
    moves: Moves,
    saliency: Saliency = saliency_map,
    batch_size: int = 256,
) -> Tensor:
    """Return (N,): the cosine of m(x) and g^-1 m(g x), averaged over the elements g.

    Args:
        model: callable from inputs to logits.
        x: (N, ...).
        y: (N,) classes that the maps explain; those predicted for x if None.
        moves: the elements.
        saliency: function that returns the maps.
        batch_size: number of examples at once.
    """
    check_callable(model)
    check_moves(x, moves, batch_size)
    device = model_device(model, x)
    values = []
    with untouched(model):
        for start in range(0, len(x), batch_size):
            batch = x[start : start + batch_size].to(device)
            target = targets(model, batch, None if y is None else y[start : start + batch_size])
            maps = saliency(model, batch, target)
            total = torch.zeros_like(maps.flatten(1)[:, 0])
            for element in moves.of(start, start + len(batch), device):
                moved = saliency(model, moves.action(element, batch), target)
                total += map_similarity(maps, moves.back(element, moved))
            values.append(total / len(moves))
    result = torch.cat(values)
    check_finite(result, "saliency maps")
    return result


def targets(model: Model, x: Tensor, y: Tensor | None) -> Tensor:
    """Return the classes to explain: the given ones, or the predicted ones."""
    if y is not None:
        return y.to(x.device)
    with torch.no_grad():
        return logits_of(model, x).argmax(1)


@dataclass(frozen=True)
class SalientPixels:
    """Absolute integrated gradients, and the maps that are left of them above thresholds.

    Args:
        steps: of the integration.
        baseline: of the integration.
    """

    steps: int = 50
    baseline: float | Tensor = 0.0

    def __call__(self, model: Model, x: Tensor, target: Tensor) -> Tensor:
        """Absolute integrated gradients of the shape of x."""
        found = integrated_gradients(model, x, target, steps=self.steps, baseline=self.baseline)
        return found.abs()

    def paper(self, attribution: Tensor) -> Tensor:
        """Return the paper's maps: values above 0.9 of the largest, filtered."""
        return salient(attribution, PAPER)

    def above(self, attribution: Tensor) -> list[Tensor]:
        """Return maps for each threshold; those of large pictures are smoothed first."""
        smoothed = smooth_large(attribution)
        return [salient(smoothed, threshold) for threshold in THRESHOLDS]

    def pixels(self, attribution: Tensor) -> Tensor:
        """Number of pixels (N, T) that are above each threshold, in any channel."""
        smoothed = smooth_large(attribution)
        counts = []
        for threshold in THRESHOLDS:
            kept = keep_largest(smoothed, threshold) > 0
            kept = kept.any(1) if kept.ndim == 4 else kept
            counts.append(kept.flatten(1).sum(1))
        return torch.stack(counts, 1).to(attribution.dtype)


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


def area(similarities: Tensor) -> Tensor:
    """Mean similarity (N,) over thresholds, from similarities (N, T), by the trapezoidal rule.

    Example:
        >>> area(torch.ones(2, 10)).tolist()
        [1.0, 1.0]
    """
    at = torch.tensor(THRESHOLDS, dtype=similarities.dtype, device=similarities.device)
    return torch.trapezoid(similarities, at, dim=1) / (at[-1] - at[0])
