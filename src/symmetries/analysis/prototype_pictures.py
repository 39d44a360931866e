"""Pictures of a two-stage model: examples that move, their prototypes, and new versions."""

import torch
from torch import Tensor

from symmetries.analysis.pictures import (
    element_labels,
    example_indices,
    example_labels,
    for_display,
    to_bytes,
)
from symmetries.analysis.prototype_densities import BINS, PoseDensity, pose_densities, smoothed
from symmetries.data import ImageSet
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.coordinates import repeat_elements
from symmetries.results import SymmetrySummary
from symmetries.results.pictures import Film, SymmetryPictures

EXAMPLES = 6
VERSIONS = 8
STEPS = 41  # positions of a slider


def draw_prototypes(
    images: ImageSet, model: SymmetryModel, summary: SymmetrySummary
) -> SymmetryPictures:
    """Examples with their prototypes and new versions, and films along each parameter.

    Args:
        images: that the examples are chosen from.
        model: fitted.
        summary: its summary, for the widths that decide how much of the range is shown.
    """
    chosen = example_indices(images, EXAMPLES)
    examples = images.images[chosen].to(model.device)
    shown = for_display(examples)
    films = []
    side = max(model.shape[1:])
    for index, found in enumerate(pose_densities(model, summary, examples, model.seed)):
        values, frames, weights = orbit_frames(model, examples, shown, found, index)
        numbers = values.tolist()
        if summary.transformations[index].unit != "elements":
            parameter = model.group.parameters[index]
            numbers = [parameter.display(value, side)[0] for value in numbers]
        names = element_labels(model.group)
        films.append(Film(numbers, to_bytes(frames), weights.numpy(), names))
    rows = gallery(model, examples, shown, VERSIONS, model.seed)
    return SymmetryPictures(example_labels(images, chosen), to_bytes(rows), films)


@torch.no_grad()
def orbit_frames(
    model: SymmetryModel, images: Tensor, shown: Tensor, density: PoseDensity, index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures of the examples moved along one parameter.

    Args:
        model: fitted.
        images: (E, C, H, W) on the model's device.
        shown: the same examples, of any resolution.
        density: of the parameter, on these examples.
        index: which parameter of the group.

    Returns:
        Values (S,) of the offset in the parameter's own unit, frames (E, S, C, H, W), and weights
        (E, S): the density of each frame as a share of the example's largest.
    """
    group = model.group
    if group.finite:
        back = group.inverse(model.element(images))
        values = torch.arange(group.order)
        every = group.elements(images.device)
        element = group.compose(every[None], back[:, None])
        weights = density.density / density.density.amax(1, keepdim=True)
        return values, model.act.orbit(element, shown), weights
    values = torch.linspace(float(density.edges[0]), float(density.edges[-1]), STEPS)
    eta = torch.zeros(len(images), STEPS, group.dim, device=images.device)
    eta[..., index] = (density.centre[:, None] + values).to(eta)
    element = group.exp(eta)
    bins = ((values - values[0]) / (values[-1] - values[0]) * BINS).long().clamp(0, BINS - 1)
    smooth = smoothed(density.density, reach=6)  # one image alone: more noise
    weights = smooth[:, bins] / smooth.amax(1, keepdim=True).clamp_min(1e-12)
    return values, model.act.orbit(element, shown), weights


@torch.no_grad()
def gallery(
    model: SymmetryModel, images: Tensor, shown: Tensor, versions: int, seed: int
) -> Tensor:
    """Rows of pictures (E, 2 + versions, C, H, W): each example, its prototype, new versions.

    Args:
        model: fitted.
        images: (E, C, H, W) on the model's device.
        shown: the same examples, of any resolution.
        versions: how many new ones.
        seed: of the new ones.
    """
    group = model.group
    generator = torch.Generator(images.device).manual_seed(seed)
    back = group.inverse(model.element(images))
    eta = model.sample_eta(images, versions, generator)
    element = group.compose(group.exp(eta), repeat_elements(back, versions))
    parts = (shown[:, None], model.act(back, shown)[:, None], model.act.orbit(element, shown))
    return torch.cat(parts, 1)
