"""The self-test: known transformations are planted into the data, and looked for again."""

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries.actions.colours import ColourAction, rgb_to_hsv
from symmetries.actions.images import ImageAction
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.fitting import fit_round, split_held_out
from symmetries.learners.orbit_posterior.reading import read, smallest_set
from symmetries.learners.orbit_posterior.views import radii
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import warp
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

# Half-widths that are planted, as a share of the reach: of an angle that is 180 degrees.
NARROW, WIDE = 0.12, 0.4
SHARE = 0.5  # of the steps of a round
INVISIBLE = 0.8  # of the uniform width: data that have nearly everything show no more
RUN: dict[str, Any] = {"progress": False, "log_every": 10**6}


@dataclass(frozen=True)
class Planted:
    """One planted width, in the units of a person.

    Args:
        name: of the parameter.
        unit: of the widths.
        planted: 90 % width of what was planted.
        expected: 90 % width of that on top of what the data had.
        recovered: what was found.
        ratio: recovered to expected, as lengths.
        length: expected width in the parameter's own unit.
        visible: whether it could be seen: data that turn fully show no further turns.
    """

    name: str
    unit: str
    planted: float
    expected: float
    recovered: float
    ratio: float
    length: float
    visible: bool


@dataclass(frozen=True)
class Unseen:
    """Pictures that the first fit has not seen, and which of them can be told.

    Args:
        rows: (M,) of the data.
        told: by coordinate, (M,): chosen by another fit, before anything was planted.
    """

    rows: Tensor
    told: tuple[Tensor, ...]


def plant_and_recover(
    model: "OrbitPosterior",
    images: Tensor,
    unseen: Unseen,
    means: list[Tensor],
    widths: list[float],
    seed: int,
) -> list[Planted]:
    """Plant a narrow and a wide transformation, all parameters at once, and fit again.

    Each fit starts from the weights of the first fold and takes half a round.

    Args:
        model: fitted.
        images: (N, C, H, W) of its fit, shrunk.
        unseen: where widths are read.
        means: mean density of each coordinate of the told pictures, centred.
        widths: of each coordinate as found before.
        seed: of what is planted.
    """
    rows = []
    for number, share in enumerate((NARROW, WIDE)):
        generator = torch.Generator().manual_seed(mix(seed, 21, number))
        u = model.chart.draw(
            torch.rand(len(images), len(model.chart.coordinates), generator=generator)
        )
        for j, c in enumerate(model.chart.coordinates):
            if c.kind != "finite":
                u[:, j] *= share
        found = _refit(model, _moved(model, images, u), unseen, mix(seed, 22, number))
        for j, c in enumerate(model.chart.coordinates):
            rows.append(_row(model, c, share, means[j], widths[j], found[j]))
    return rows


def canonical_width(
    model: "OrbitPosterior", images: Tensor, unseen: Unseen, coordinate: Coordinate, seed: int
) -> float:
    """Width found after every picture was brought to a pose that a rule gives.

    Turned so that its centre of brightness lies above the middle, or so that this is as far up
    and to the right as elements of the finite group allow: a law as narrow as can be, which a
    network that could not see it could not see in the data either.
    """
    moved = _by_rule(model, images, coordinate)
    j = model.chart.names.index(coordinate.name)
    return _refit(model, moved, unseen, mix(seed, 23), 1.0)[j]


def _refit(
    model: "OrbitPosterior", images: Tensor, unseen: Unseen, seed: int, share: float = SHARE
) -> list[float]:
    """Widths of told, unseen pictures after a training from where the first fit stands.

    It takes a ``share`` of the steps of a round.
    """
    recipe = model.config.training
    short = replace(recipe, steps=max(1, round(share * recipe.steps)), lr=recipe.lr / 2)
    network: Any = copy.deepcopy(model.fits[0])
    rest = images[model.folds(len(images)) != 0]
    kept, held = split_held_out(rest, model.config.held_out, seed)
    run = {**RUN, "device": model.device.type}
    fit_round(model, network, kept, held, short, run, "planted", mix(seed, 5))
    found = read(model, network.to(model.device).eval(), images[unseen.rows], mix(seed, 6))
    widths = [density.widths() for density in found]
    return [float(w[told].median()) for w, told in zip(widths, unseen.told, strict=True)]


def _row(
    model: "OrbitPosterior", c: Coordinate, share: float, mean: Tensor, width: float, found: float
) -> Planted:
    side = max(model.shape[1:])
    if c.kind == "finite":
        expected, planted, uniform = float(c.size), float(c.size), float(c.size)
    else:
        cell = c.span / len(mean)
        expected = float(smallest_set(_spread(mean, share * len(mean), c.kind == "circle"))) * cell
        planted, uniform = 0.9 * share * c.span, 0.9 * c.span
    visible = width < INVISIBLE * uniform
    return Planted(
        name=c.name,
        unit=c.display(planted, side)[1],
        planted=c.display(planted, side)[0],
        expected=c.display(expected, side)[0],
        recovered=c.display(found, side)[0],
        ratio=found / max(expected, 1e-9),
        length=expected,
        visible=visible,
    )


def _spread(mean: Tensor, cells: float, circular: bool) -> Tensor:
    """A density (cells,) convolved with a uniform law of that many cells."""
    count = len(mean)
    reach = math.ceil(cells / 2)
    offsets = torch.arange(-reach, reach + 1)
    weight = (cells / 2 + 0.5 - offsets.abs()).clamp(0, 1)
    total = torch.zeros(count if circular else count + 2 * reach)
    for offset, part in zip(offsets.tolist(), weight.tolist(), strict=True):
        places = torch.arange(count) + offset
        places = places % count if circular else places + reach
        total[places] += part * mean
    return total / total.sum()


def _moved(model: "OrbitPosterior", images: Tensor, u: Tensor) -> Tensor:
    """Pictures moved by coordinates u (N, D), as users' pictures were."""
    chart = model.chart
    if chart.colours is not None:
        images = ColourAction(chart.colours)(chart.colour(u), images.clamp(0, 1))
    if chart.planar is not None:
        theta = affine_inverse(chart.matrix(u))[:, :2]
        padding: Any = "constant" if model.frame.plain else "reflect"
        return warp(images, theta, interpolation="bicubic", padding=padding, fill=model.frame.fill)
    if chart.finite is None:
        return images
    return ImageAction(chart.finite, fill=model.frame.fill)(u[:, 0].long(), images)


def _by_rule(model: "OrbitPosterior", images: Tensor, coordinate: Coordinate) -> Tensor:
    """Pictures brought to poses that follow from their brightness or their mean hue."""
    u = model.chart.identity(len(images))
    place = model.chart.names.index(coordinate.name)
    if coordinate.kind == "finite":
        return _best_element(model, images, coordinate.size, u)
    if coordinate.name == "hue":
        hue, saturation, value = rgb_to_hsv(images.clamp(0, 1)).unbind(1)
        weight = saturation * value
        across, up = ((weight * f(hue)).sum((1, 2)) for f in (torch.cos, torch.sin))
        u[:, place] = -torch.atan2(up, across)
        return _moved(model, images, u)
    angle = math.pi / 2 - torch.atan2(*_brightness(images)[::-1])
    u[:, place] = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
    return _moved(model, images, u)


def _best_element(model: "OrbitPosterior", images: Tensor, size: int, u: Tensor) -> Tensor:
    """The versions, among those by elements of a finite group, that are brightest up right."""
    best, score = images, torch.full((len(images),), -math.inf)
    for index in range(size):
        u[:, 0] = index
        moved = _moved(model, images, u)
        across, up = _brightness(moved)
        value = across + 0.5 * up
        best = torch.where((value > score)[:, None, None, None], moved, best)
        score = torch.maximum(score, value)
    return best


def _brightness(images: Tensor) -> tuple[Tensor, Tensor]:
    """How far to the right and how far up pictures are brighter, inside the round window."""
    height, width = images.shape[-2:]
    weight = images.mean(1) - images.mean((1, 2, 3))[:, None, None]
    weight = weight * (radii(height, width, images.device) < 1)
    x = torch.arange(width, device=images.device) * 2.0 + 1 - width
    y = -(torch.arange(height, device=images.device) * 2.0 + 1 - height)
    return (weight * x).sum((1, 2)), (weight * y[:, None]).sum((1, 2))
