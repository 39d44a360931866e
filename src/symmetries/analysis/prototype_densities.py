"""Densities that a symmetry model learned, around the most common pose of each image.

Transformations are counted from the image itself, log(e e_x^-1) for e ~ p(. | x_hat), so that the
choice of prototypes plays no part; and shown as offsets from the image's most common pose: 0 is
where the density of a parameter, smoothed, is largest.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from symmetries.groups.base import Parameter
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.summary import counted_from_images
from symmetries.results import SymmetrySummary

BINS = 60
SAMPLES = 1024  # of eta for each image
WIDER = 1.1  # than the 90 % width to either side
NARROWEST = 1 / 8  # of the whole range: no picture of a density is narrower


@dataclass(frozen=True)
class PoseDensity:
    """Densities of one parameter, by image.

    Args:
        name: of the parameter.
        edges: (bins + 1,) in the parameter's own unit, offsets from the most common pose.
        shown: the edges in the unit that a person reads.
        density: (N, bins), per unit.
        centre: (N,) the most common pose, in the parameter's own unit.
    """

    name: str
    edges: Tensor
    shown: tuple[float, ...]
    density: Tensor
    centre: Tensor


def most_common_pose(eta: Tensor, bound: float, period: float | None) -> Tensor:
    """The mode (N,) of samples (N, S), from a histogram smoothed over an eighth of the range.

    Args:
        eta: samples.
        bound: end of the range [-bound, bound].
        period: of an angle; the ends are then neighbours.

    Example:
        >>> eta = 1 + 0.1 * torch.randn(2, 500, generator=torch.Generator().manual_seed(0))
        >>> bool((most_common_pose(eta, 3.0, None) - 1).abs().max() < 0.15)
        True
    """
    bins, reach = 96, 12
    place = ((eta / bound + 1) / 2 * bins).floor().long()
    place = place.remainder(bins) if period is not None else place.clamp(0, bins - 1)
    counts = torch.zeros(len(eta), bins).scatter_add_(1, place, torch.ones_like(eta))
    window = torch.hann_window(2 * reach + 1, periodic=False)[None, None]
    mode = "circular" if period is not None else "constant"
    smooth = conv1d(pad(counts[:, None], (reach, reach), mode=mode), window)[:, 0]
    return ((smooth.argmax(1) + 0.5) / bins * 2 - 1) * bound


def pose_densities(
    model: SymmetryModel, summary: SymmetrySummary, images: Tensor, seed: int
) -> list[PoseDensity]:
    """Return one density for each parameter of a continuous group, or one for a finite group.

    Args:
        model: fitted.
        summary: its summary, for the widths that decide how much of the range is shown.
        images: (N, C, H, W) on the model's device.
        seed: of the samples.
    """
    if model.group.finite:
        return [_finite_density(model, summary, images)]
    generator = torch.Generator(images.device).manual_seed(seed)
    eta = model.sample_eta(images, SAMPLES, generator)
    eta = counted_from_images(model, images, eta).cpu()
    side = max(model.shape[1:])
    widths = own_widths(model, summary)
    return [
        _density(parameter, eta[..., i], model.bounds[i], widths[i], side)
        for i, parameter in enumerate(model.group.parameters)
    ]


def own_widths(model: SymmetryModel, summary: SymmetrySummary) -> list[float]:
    """Return the widths of a summary in the parameters' own units."""
    side = max(model.shape[1:])
    widths = []
    for parameter, part in zip(model.group.parameters, summary.transformations, strict=True):
        one, unit = parameter.display(1.0, side)
        ratio = torch.tensor(part.width90)
        widths.append(float(ratio.log()) if unit == "factor" else part.width90 / one)
    return widths


def _density(
    parameter: Parameter, eta: Tensor, bound: float, width: float, side: int
) -> PoseDensity:
    period = 2 * parameter.bound if parameter.angle else None
    if period is not None:
        eta = torch.remainder(eta + parameter.bound, period) - parameter.bound
    centre = most_common_pose(eta, parameter.bound if parameter.angle else 2 * bound, period)
    offset = eta - centre[:, None]
    if period is not None:
        offset = torch.remainder(offset + period / 2, period) - period / 2
    whole = parameter.bound if parameter.angle else 2 * bound
    reach = max(WIDER * width, NARROWEST * whole)
    if period is not None:
        reach = min(reach, period / 2)
    edges = torch.linspace(-reach, reach, BINS + 1)
    place = ((offset / reach + 1) / 2 * BINS).floor().long()
    inside = (place >= 0) & (place < BINS)
    counts = torch.zeros(len(eta), BINS)
    counts.scatter_add_(1, place.clamp(0, BINS - 1), inside.float())
    shown = tuple(parameter.display(float(edge), side)[0] for edge in edges)
    one, unit = parameter.display(1.0, side)
    per_unit = 2 * reach / BINS * (1.0 if unit == "factor" else one)
    return PoseDensity(parameter.name, edges, shown, counts / eta.shape[1] / per_unit, centre)


@torch.no_grad()
def _finite_density(model: SymmetryModel, summary: SymmetrySummary, images: Tensor) -> PoseDensity:
    """Return probabilities of the elements, not centred, as elements have no natural order."""
    distribution: Any = model.generative.distribution
    p = distribution.log_probs(model.generative(model.prototype(images))).exp().cpu()
    edges = torch.arange(p.shape[1] + 1) - 0.5
    part = summary.transformations[0]
    return PoseDensity(part.name, edges, tuple(edges.tolist()), p, torch.zeros(len(p)))


def smoothed(density: Tensor, reach: int = 3) -> Tensor:
    """Return densities (..., bins) without the noise of counting, their integral kept."""
    window = torch.hann_window(2 * reach + 3, periodic=False)[1:-1]
    flat = density.reshape(-1, 1, density.shape[-1])
    kept = conv1d(pad(flat, (reach, reach), mode="replicate"), window[None, None] / window.sum())
    return kept.reshape(density.shape)


def mean_density(found: PoseDensity, unit: str, chosen: Tensor | None = None) -> tuple[float, ...]:
    """Return the density averaged over all images, or the chosen ones, smooth enough to draw."""
    density = found.density if chosen is None else found.density[chosen]
    mean = density.mean(0)
    kept = mean if unit == "elements" else smoothed(mean, reach=1)
    return tuple(float(f"{value:.4g}") for value in kept.tolist())
