"""New versions of pictures, and pictures in the middle of their poses."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_whole
from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group
from symmetries.learners.orbit_posterior.reading import Densities, content_centre
from symmetries.learners.orbit_posterior.views import find_frame
from symmetries.ops.warp import Padding

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

PART = 4096  # pictures that are moved at a time


def action_on(images: Tensor, group: Group[Any], fill: float) -> ImageAction:
    """How a group acts on pictures like these (N, C, H, W).

    Around a background its value is filled in; pictures that fill their frame are reflected at its
    edges, so that new versions have no corners of one colour.
    """
    plain = find_frame(images, fill).plain
    return ImageAction(group, fill=fill, padding="constant" if plain else "reflect")


def new_versions(
    model: "OrbitPosterior",
    images: Tensor,
    copies: int = 1,
    generator: torch.Generator | None = None,
    folds: Tensor | None = None,
) -> Tensor:
    """New versions (N, copies, C, H, W) of pictures, by the fits of all folds in turn.

    A mixture over the fits: version c of picture i is drawn by fit (i + c) modulo their number.

    Args:
        model: fitted.
        images: (N, C, H, W).
        copies: of each.
        generator: source of randomness, on the CPU.
        folds: (N,) the fit to ask for each picture, such as the one that has not seen it.
    """
    check_whole(copies, "copies")
    every = images.repeat_interleave(copies, 0)
    if folds is None:
        place = torch.arange(len(images))[:, None] + torch.arange(copies)
        folds = place % model.fold_count
    else:
        folds = folds.cpu()[:, None].expand(-1, copies)
    rows = folds.flatten()
    found = torch.empty_like(every)
    for fold in range(model.fold_count):
        chosen = (rows == fold).nonzero()[:, 0].to(images.device)
        if len(chosen):
            found[chosen] = model.sample(every[chosen], 1, generator, fold)[:, 0]
    versions: Tensor = found.unflatten(0, (len(images), copies))
    return versions


@torch.no_grad()
def centred(model: "OrbitPosterior", images: Tensor, names: Collection[str]) -> Tensor:
    """Pictures (N, C, H, W) moved to the middle of the poses that occur of their like.

    That is the centre of the smallest set that holds 90 % of a picture's density, the mean over all
    fits; of a finite group it is the most likely element.

    Args:
        model: fitted.
        images: (N, C, H, W).
        names: of the coordinates along which they are moved.
    """
    parts = [model.densities(images, fold) for fold in range(model.fold_count)]
    columns = []
    for one in zip(*parts, strict=True):
        mass = torch.stack([density.mass for density in one]).mean(0)
        centres = Densities(one[0].coordinate, mass, one[0].samples).centres()
        columns.append(centres * (one[0].coordinate.name in names))
    return moved(model, torch.stack(columns, -1).to(images), images)


def moved(model: "OrbitPosterior", u: Tensor, images: Tensor) -> Tensor:
    """Pictures (N, C, H, W), of any resolution, moved by elements of coordinates u (N, D).

    Beside shifts, turns and stretches leave the centre of the content where it is, as densities
    are read; else the middle of the frame.
    """
    pairs = zip(u.to(images.device).split(PART), images.split(PART), strict=True)
    return torch.cat([_moved(model, *pair) for pair in pairs])


def _moved(model: "OrbitPosterior", u: Tensor, images: Tensor) -> Tensor:
    chart, frame = model.chart, model.frame
    centre = content_centre(images, model)
    if chart.colours is not None:
        images = ImageAction(chart.colours)(chart.colour(u), images)
    padding: Padding = "constant" if frame.plain else "reflect"
    if chart.planar is not None:
        matrix = chart.matrix(u)
        if centre is not None:
            fixed = centre - (matrix[:, :2, :2] @ centre[:, :, None])[..., 0]
            matrix[:, :2, 2] += fixed
        act = ImageAction(Affine2(), interpolation="bicubic", padding=padding, fill=frame.fill)
        return act(matrix, images)
    if chart.finite is not None:
        act = ImageAction(chart.finite, padding=padding, fill=frame.fill)
        return act(u[:, 0].long(), images)
    return images
