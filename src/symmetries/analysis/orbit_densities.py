"""Fit an orbit posterior for ``symmetries discover``, describe its result, and draw poses."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.images import ImageAction
from symmetries.analysis.pictures import (
    element_labels,
    example_indices,
    example_labels,
    for_display,
    to_bytes,
)
from symmetries.analysis.provenance import Info, class_names, data_summary
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import group_name
from symmetries.learners.orbit_posterior import (
    OrbitConfig,
    OrbitFindings,
    OrbitPosterior,
    PictureFinding,
)
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.record import class_counts, shown_cells, symmetry_summary
from symmetries.learners.orbit_posterior.versions import action_on, moved_as_given, new_versions
from symmetries.results import Quality, SymmetryResult
from symmetries.results.pictures import Film, Portrait, PosePictures

EXAMPLES = 6
VERSIONS = 9
STEPS = 41  # positions of a slider


def check_orbit_group(group: Group[Any]) -> None:
    """Raise an error, with the remedy, for a group that an orbit posterior does not support."""
    ImageAction(group)  # refuses groups of signals and of points
    try:
        Chart(group, 8)
    except ValueError as error:
        if not group.closed:
            error.add_note("the two-stage model takes it, too (method two-stage)")
        raise


def check_orbit_preset(preset: str) -> None:
    """Raise an error for a preset that only the two-stage model has."""
    if preset == "paper":
        remedy = 'only discover has it, by the published model: add the method "two-stage"'
        raise invalid("preset", "quick or default", repr(preset), remedy)


def fit_orbits(
    images: ImageSet,
    group: Group[Any],
    preset: str,
    *,
    check: bool,
    fill: float,
    seed: int,
    **training: Any,  # noqa: ANN401 - of OrbitPosterior.fit
) -> OrbitPosterior:
    """An orbit posterior, fitted to images; ``check`` says whether its summary tests itself."""
    _, channels, height, width = images.images.shape
    action = action_on(images.images, group, fill)
    config = OrbitConfig.preset(preset).replace(check=check)
    model = OrbitPosterior(action, (channels, height, width), config, seed)
    model.fit(images, **training)
    return model


def describe_orbits(images: ImageSet, model: OrbitPosterior, info: Info) -> SymmetryResult:
    """Return the numbers and the pictures of a fitted orbit posterior.

    Args:
        images: that it was fitted to, in their order.
        model: fitted; it tests itself here if its configuration says so.
        info: says how it was fitted, and how long all of it took.
    """
    names = class_names(images)
    found = model.findings(images, class_names=names, seed=model.seed)
    summary = symmetry_summary(found, class_counts(images.labels, names))
    last = {} if model.history is None else model.history.last
    result = SymmetryResult(
        warnings=summary.warnings,
        method="orbit",
        group=group_name(model.action.group),
        data=data_summary(images),
        transformations=summary.transformations,
        classes=summary.classes,
        check=summary.check,
        subgroup=summary.subgroup,
        quality=Quality(images=summary.images, gain=summary.gain, losses={"training": last}),
        run=info().model_copy(update={"threads": model.threads}),
    )
    return result.attach(draw_poses(images, model, found), model)


@torch.no_grad()
def draw_poses(images: ImageSet, model: OrbitPosterior, found: OrbitFindings) -> PosePictures:
    """Return examples that move along each parameter, new versions of them, and portraits.

    Args:
        images: of the fit, in their order.
        model: fitted.
        found: its findings on these.
    """
    chosen = example_indices(images, EXAMPLES)
    folds = model.folds(len(images))[chosen]
    examples = images.images[chosen].to(model.device)
    shown = for_display(examples)
    densities = read_densities(model, examples, folds)
    films = [_film(model, examples, shown, found, densities, j) for j in range(len(densities))]
    generator = torch.Generator().manual_seed(model.seed)
    versions = new_versions(model, examples, VERSIONS, generator, folds)
    drawn = for_display(versions.flatten(0, 1)).unflatten(0, versions.shape[:2])
    return PosePictures(
        labels=example_labels(images, chosen),
        gallery=to_bytes(torch.cat((shown[:, None], drawn), 1)),
        films=films,
        surest=[_portrait(images, found, one, densities) for one in found.surest],
        least_sure=[_portrait(images, found, one, densities) for one in found.least_sure],
    )


def read_densities(model: OrbitPosterior, images: Tensor, folds: Tensor) -> list[Densities]:
    """Return densities of pictures (N, C, H, W), each by the fit of its fold (N,)."""
    rows, parts = [], []
    for fold in folds.unique().tolist():
        inside = (folds == fold).nonzero()[:, 0]
        rows.append(inside)
        parts.append(model.densities(images[inside.to(images.device)], fold, model.seed))
    order = torch.cat(rows).argsort()
    return [
        Densities(one[0].coordinate, torch.cat([d.mass for d in one])[order], one[0].samples)
        for one in zip(*parts, strict=True)
    ]


def _film(
    model: OrbitPosterior,
    examples: Tensor,
    shown: Tensor,
    found: OrbitFindings,
    densities: list[Densities],
    j: int,
) -> Film:
    """Return examples moved along the coordinate of number j, from the middle of their poses.

    Of several poses each example starts from its own.
    """
    density, part = densities[j], found.summary.parameters[j]
    coordinate, side = density.coordinate, max(model.shape[1:])
    if coordinate.kind == "finite":
        offsets = torch.arange(coordinate.size, dtype=torch.float32)
        places = offsets.expand(len(examples), -1)
        values = offsets.tolist()
    else:
        low, high = shown_cells(part.unit, part.width90, part.edges, part.poses)
        first, last = (edge * density.cell - coordinate.reach for edge in (low, high))
        offsets = torch.linspace(first, last, STEPS)
        middles = density.centres()[:, None] if part.poses == 1 else torch.zeros(len(examples), 1)
        places = middles + offsets
        values = [coordinate.display(float(value), side)[0] for value in offsets]
    u = torch.zeros(len(examples), len(offsets), len(densities), device=examples.device)
    u[..., j] = places.to(u)
    every = shown.repeat_interleave(len(offsets), 0)
    frames = moved_as_given(model, u.flatten(0, 1), every).clamp(0, 1).unflatten(0, places.shape)
    weights = weights_at(density, places)
    labels = element_labels(model.chart.finite) if coordinate.kind == "finite" else []
    return Film(values, to_bytes(frames), weights.numpy(), labels)


def weights_at(density: Densities, places: Tensor) -> Tensor:
    """Mass (E, S) at places, in the coordinate's own unit, as a share of each picture's largest."""
    coordinate, cells = density.coordinate, density.mass.shape[1]
    if coordinate.kind == "finite":
        index, inside = places.long(), torch.ones_like(places)
    else:
        index = ((places + coordinate.reach) / density.cell).floor().long()
        inside = ((index >= 0) & (index < cells)).float()
        circular = coordinate.kind == "circle"
        inside = torch.ones_like(inside) if circular else inside
        index = index % cells if circular else index.clamp(0, cells - 1)
    found = density.mass.gather(1, index) * inside
    return found / density.mass.amax(1, keepdim=True).clamp_min(1e-12)


def _portrait(
    images: ImageSet, found: OrbitFindings, one: PictureFinding, like: list[Densities]
) -> Portrait:
    picture = for_display(images.images[one.index : one.index + 1])
    return Portrait(
        label=example_labels(images, [one.index])[0],
        picture=to_bytes(picture)[0],
        widths=one.widths,
        densities={
            d.coordinate.name: _centred(d, one, part.poses)
            for d, part in zip(like, found.summary.parameters, strict=True)
        },
    )


def _centred(like: Densities, one: PictureFinding, poses: int) -> list[float]:
    """Return the density of a picture around the centre of its smallest set, on the whole range.

    Several poses have no centre, and are counted from the picture as it is.
    """
    name = like.coordinate.name
    mass = torch.tensor(one.densities[name])[None]
    if like.coordinate.kind == "finite" or poses > 1:
        return mass[0].tolist()
    own = Densities(like.coordinate, mass, like.samples)
    step = round(float(own.centres()) / own.cell)
    rolled = mass[0].roll(-step)
    if like.coordinate.kind == "line" and step:
        beyond = slice(len(rolled) - step, None) if step > 0 else slice(0, -step)
        rolled[beyond] = 0.0
    return rolled.tolist()
