"""New versions of pictures, and pictures in the middle of their poses."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_image_shape, check_whole
from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group
from symmetries.learners.orbit_posterior.frames import find_frame
from symmetries.learners.orbit_posterior.reading import (
    CHUNK,
    Densities,
    content_centre,
    sample_poses,
)
from symmetries.ops.affine_inverse import affine_inverse
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
    rows, found = folds.flatten(), torch.empty_like(every)
    seed, places = drawn_at(len(every), generator)
    for fold in range(model.fold_count):
        chosen = (rows == fold).nonzero()[:, 0]
        if len(chosen):
            here = chosen.to(images.device)
            found[here] = draw_versions(model, every[here], fold, seed, places[chosen])
    versions: Tensor = found.unflatten(0, (len(images), copies))
    return versions


def drawn_at(count: int, generator: torch.Generator | None) -> tuple[int, Tensor]:
    """A seed, and the places (count,) of this process's pictures in the batch of all processes."""
    first = getattr(generator, "rank", 0) * count
    return int(torch.randint(2**31, (), generator=generator)), torch.arange(first, first + count)


@torch.no_grad()
def draw_versions(
    model: "OrbitPosterior", images: Tensor, fold: int, seed: int, places: Tensor
) -> Tensor:
    """One new version T_r^-1 x of each picture (N, C, H, W), with r ~ q(. | x) / pi.

    Args:
        model: fitted.
        images: (N, C, H, W).
        fold: of the fit that is asked.
        seed: of what is drawn.
        places: (N,) of the pictures in a batch: what is drawn for each follows from its place.
    """
    check_image_shape(images, model.shape)
    found = []
    for part, at in zip(images.split(CHUNK), places.split(CHUNK), strict=True):
        x = part.to(model.device)
        u = sample_poses(model, model.fits[fold], model.seen(x), 1, seed, at.to(x.device))
        found.append(_undone(model, u[:, 0], x).to(images))
    return torch.cat(found)


def _undone(model: "OrbitPosterior", u: Tensor, x: Tensor) -> Tensor:
    """T_r^-1 x for coordinates u (N, D) of r, by the action of the model."""
    chart, action = model.chart, model.action
    options: Any = {"interpolation": action.interpolation, "padding": action.padding}
    options["fill"] = action.fill
    if chart.planar is not None:
        x = ImageAction(Affine2(), **options)(affine_inverse(chart.matrix(u).to(x.dtype)), x)
    elif chart.finite is not None:
        x = ImageAction(chart.finite, **options)(chart.finite.inverse(u[:, 0].long()), x)
    if chart.colours is not None:
        x = ImageAction(chart.colours)(-chart.colour(u).to(x.dtype), x)
    return x


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
    return moved_as_given(model, torch.stack(columns, -1).to(images), images)


def moved_as_given(model: "OrbitPosterior", u: Tensor, images: Tensor) -> Tensor:
    """As :func:`moved`, of pictures with the background that they were given with."""
    if not any(model.ground) or images.shape[1] != len(model.ground):
        return moved(model, u, images)
    ground = model.ground_of(images)
    return moved(model, u, images - ground) + ground


def moved(model: "OrbitPosterior", u: Tensor, images: Tensor) -> Tensor:
    """Pictures (N, C, H, W) as networks see them, of any resolution, moved by elements u (N, D).

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
