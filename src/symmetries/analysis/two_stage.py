"""The two-stage symmetry model for ``symmetries discover --method two-stage``: fit and show."""

from typing import Any

import torch
from torch import Tensor

from symmetries.analysis.pictures import (
    element_labels,
    example_indices,
    example_labels,
    for_display,
    spread_indices,
    to_bytes,
)
from symmetries.analysis.prototype_densities import (
    BINS,
    PoseDensity,
    mean_density,
    pose_densities,
    smoothed,
)
from symmetries.analysis.provenance import Info, class_names, data_summary
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import group_name
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.coordinates import repeat_elements
from symmetries.results import ClassSymmetries, Histogram, Quality, SymmetryResult, SymmetrySummary
from symmetries.results.pictures import Film, SymmetryPictures

LOOKED_AT = 512  # images that widths are measured on
EXAMPLES = 6
VERSIONS = 8
STEPS = 41  # positions of a slider


def fit_two_stage(
    images: ImageSet,
    group: Group[Any],
    preset: str,
    *,
    fill: float,
    seed: int,
    **training: Any,  # noqa: ANN401 - of SymmetryModel.fit
) -> SymmetryModel:
    """Return a symmetry model of prototypes, fitted to images."""
    _, channels, height, width = images.images.shape
    model = SymmetryModel(group, (channels, height, width), preset, fill=fill, seed=seed)
    model.fit(images, **training)
    return model


def describe_two_stage(images: ImageSet, model: SymmetryModel, info: Info) -> SymmetryResult:
    """Return the numbers and the pictures of a fitted symmetry model.

    Args:
        images: that it was fitted to.
        model: fitted.
        info: says how it was fitted, and how long all of it took.
    """
    some = images.subset(spread_indices(len(images), LOOKED_AT))
    summary = model.summary(some, most=LOOKED_AT, seed=model.seed)
    densities = pose_densities(model, summary, some.images.to(model.device), model.seed)
    transformations = tuple(
        part.model_copy(
            update={
                "histogram": Histogram(edges=found.shown, density=mean_density(found, part.unit))
            }
        )
        for part, found in zip(summary.transformations, densities, strict=True)
    )
    stages = {} if model.history is None else model.history.stages
    result = SymmetryResult(
        method="two-stage",
        group=group_name(model.group),
        data=data_summary(images),
        transformations=transformations,
        classes=_classes(some, summary, densities),
        quality=Quality(
            images=summary.images,
            content_kept=summary.content_kept,
            losses={stage: history.last for stage, history in stages.items()},
        ),
        run=info(),
    )
    return result.attach(draw_prototypes(images, model, summary), model)


def _classes(
    images: ImageSet, summary: SymmetrySummary, densities: list[PoseDensity]
) -> dict[str, ClassSymmetries]:
    """Return the widths of each class with its densities."""
    if images.labels is None:
        return {}
    names = class_names(images)
    pairs = list(zip(summary.transformations, densities, strict=True))
    found = {}
    for label in sorted(set(images.labels.tolist())):
        chosen = images.labels == label
        density = {part.name: mean_density(p, part.unit, chosen) for part, p in pairs}
        found[names[label]] = summary.classes[names[label]].model_copy(update={"density": density})
    return found


def draw_prototypes(
    images: ImageSet, model: SymmetryModel, summary: SymmetrySummary
) -> SymmetryPictures:
    """Return examples with their prototypes and new versions, and films along each parameter.

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
    """Return pictures of the examples moved along one parameter.

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
