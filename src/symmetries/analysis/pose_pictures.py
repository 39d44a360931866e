"""Pictures of an orbit posterior: examples that move, new versions, surest and least sure ones."""

import torch
from torch import Tensor

from symmetries.analysis.pictures import (
    element_labels,
    example_indices,
    example_labels,
    for_display,
    to_bytes,
)
from symmetries.data import ImageSet
from symmetries.learners.orbit_posterior import OrbitFindings, OrbitPosterior, PictureFinding
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.record import shown_cells
from symmetries.learners.orbit_posterior.versions import moved_as_given, new_versions
from symmetries.results.pictures import Film, Portrait, PosePictures

EXAMPLES = 6
VERSIONS = 9
STEPS = 41  # positions of a slider


@torch.no_grad()
def draw_poses(images: ImageSet, model: OrbitPosterior, found: OrbitFindings) -> PosePictures:
    """Examples that move along each parameter, new versions of them, and portraits.

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
    """Densities of pictures (N, C, H, W), each by the fit of its fold (N,)."""
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
    """Examples moved along the coordinate of number j, from the middle of their poses.

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
    """The density of a picture around the centre of its smallest set, on the whole range.

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
