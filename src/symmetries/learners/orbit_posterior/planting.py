"""The self-test: known transformations are planted into the data, and looked for again."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.building import build_networks
from symmetries.learners.orbit_posterior.calibrating import Sets, joined, read_sets
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.expected_widths import expected_widths
from symmetries.learners.orbit_posterior.fitting import Fit
from symmetries.learners.orbit_posterior.planted_places import placed
from symmetries.learners.orbit_posterior.posing import posed_by_rule
from symmetries.learners.orbit_posterior.reading import MASS, Densities
from symmetries.learners.orbit_posterior.rounds import fit_round, split_held_out
from symmetries.learners.orbit_posterior.separate_poses import shares_of_poses
from symmetries.learners.orbit_posterior.verdicts import (
    CHANCE,
    SEEN,
    SYSTEMATIC,
    Headline,
    small_widths,
    uniform_width,
)
from symmetries.learners.orbit_posterior.versions import moved
from symmetries.training.side_by_side import side_by_side
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

# Half-widths that are planted, as a share of the reach: of an angle that is 180 degrees.
NARROW, WIDE = 0.12, 0.4
SHARE, POWER_SHARE = 1.0, 2.0  # of the steps of a first round: of a refit, of the test of power
SHAPES_SHARE = 4.0  # of a refit where shapes change, which take many rounds to learn
INVISIBLE = 0.8  # of the uniform width: data that have nearly everything show no more
RUN: dict[str, Any] = {"progress": False, "log_every": 10**6}


@dataclass(frozen=True)
class Planted:
    """One planted width, in the units of a person.

    Args:
        name: of the parameter.
        unit: of the widths.
        planted: 90 % width of what was planted.
        expected: 90 % width of that on top of what the data had; of that alone where shifts take
            the place of those that the data had.
        recovered: what was found.
        ratio: recovered to expected, as lengths.
        length: expected width in the parameter's own unit.
        visible: whether it could be seen: data that turn fully show no further turns.
        added: whether it came on top of what the data had, and not in its place.
        error: standard error of the logarithm of what was found, by a bootstrap over pictures.
    """

    name: str
    unit: str
    planted: float
    expected: float
    recovered: float
    ratio: float
    length: float
    visible: bool
    added: bool = True
    error: float = 0.0


def nearest_planted(planted: list[Planted], name: str, width: float) -> Planted | None:
    """The planted width of a parameter that is nearest to one that was found; None without any."""
    rows = [p for p in planted if p.name == name and p.visible and p.ratio > 0]
    ratio = math.log(max(width, 1e-9))
    return min(rows, key=lambda p: abs(math.log(max(p.length, 1e-9)) - ratio), default=None)


def with_misses(line: Headline, coordinate: Coordinate, planted: list[Planted]) -> Headline:
    """The interval with what the self-test missed, beyond the error that every interval has.

    It is the ratio at the planted width nearest to this one. Along a line a picture may also show
    by its sharpness how far it was moved, and then all widths are too small: what the wider
    planting should have added to the square of the width, and what it did, show by how much.
    """
    rows = [p for p in planted if p.name == coordinate.name and p.visible and p.ratio > 0]
    missed = nearest_planted(planted, coordinate.name, line.width)
    if missed is None or coordinate.kind == "finite":
        return line
    ratios = [_beyond(missed)]
    if coordinate.kind == "circle":
        ratios = [max(ratios[0], line.width / uniform_width(coordinate))]  # no interval exceeds it
    elif missed.added:
        wide, before = max(rows, key=lambda p: p.length), line.width**2
        added = (wide.length * _beyond(wide)) ** 2 - before
        share = added / max(wide.length**2 - before, 1e-12)
        ratios = [max(ratios[0], 1.0), min(max(share, 0.05), 1.0) ** 0.5]
    right = [line.width / ratio for ratio in ratios]
    return replace(line, low=min(line.low, *right), high=max(line.high, *right))


def _beyond(row: Planted) -> float:
    """A ratio of widths, less what the systematic error of widths and chance may have made."""
    missed, allowed = math.log(row.ratio), math.hypot(SYSTEMATIC, CHANCE * row.error)
    return math.exp(math.copysign(max(0.0, abs(missed) - allowed), missed))


@dataclass(frozen=True)
class Unseen:
    """Pictures that a fit has not seen, and which of them can be told.

    Args:
        rows: (M,) of the data.
        told: by coordinate, (M,): chosen by another fit, before anything was planted.
        fold: of these pictures.
    """

    rows: Tensor
    told: tuple[Tensor, ...]
    fold: int = 0


def plant_and_recover(
    model: "OrbitPosterior",
    images: Tensor,
    unseen: Sequence[Unseen],
    means: list[Tensor],
    widths: list[float],
    seed: int,
) -> list[Planted]:
    """Plant a narrow and a wide transformation, all parameters at once, and fit again.

    Each fit starts from the weights of a fold and takes as many steps as a first round, or several
    times as many where shapes change.

    Args:
        model: fitted.
        images: (N, C, H, W) of its fit, shrunk.
        unseen: where widths are read, for each fold that is fitted again.
        means: mean density of each coordinate of the told pictures, centred.
        widths: of each coordinate as found before.
        seed: of what is planted.
    """
    refits, places = [], []
    for number, share in enumerate((NARROW, WIDE)):
        generator = torch.Generator().manual_seed(mix(seed, 21, number))
        u = model.chart.draw(
            torch.rand(len(images), len(model.chart.coordinates), generator=generator)
        )
        for j, c in enumerate(model.chart.coordinates):
            if c.kind != "finite":
                u[:, j] *= share
        u, ranges = placed(model, u, images)
        planted = moved(model, u, images)
        places.append(ranges)
        steps = SHAPES_SHARE if model.chart.shapes else SHARE
        for part in unseen:
            refits.append(partial(_refit, model, planted, part, mix(seed, 22, number), steps))
    rows = []
    at_a_time = None if model.shares_cores else 1
    every = side_by_side(refits, at_a_time, model.threads, model.device)
    for number, (share, ranges) in enumerate(zip((NARROW, WIDE), places, strict=True)):
        expected = expected_widths(model.chart, means, share, mix(seed, 25))
        found = [sets for _, sets in every[number * len(unseen) : (number + 1) * len(unseen)]]
        for j, c in enumerate(model.chart.coordinates):
            pairs = zip(found, unseen, strict=True)
            told = joined([sets[j][part.told[j]] for sets, part in pairs])
            how = (share, expected[j], ranges.get(c.name), mix(seed, 26, number, j))
            rows.append(_row(model, c, widths[j], told, *how))
    return rows


def power_width(
    model: "OrbitPosterior", images: Tensor, unseen: Unseen, j: int, width: float, seed: int
) -> float:
    """Width found of a law half as wide as the one that was found: would it have been seen?

    Every picture is brought to a pose that a rule gives, and an angle is then turned at random
    within half of the width that was found of the data (elements of finite groups stay in their
    poses). It is the width that a quarter of the told pictures stays below, as rules are not as
    clear for all.

    Args:
        model: fitted.
        images: (N, C, H, W) of its fit, shrunk.
        unseen: where widths are read.
        j: number of the coordinate.
        width: found of it.
        seed: of what is planted, and of the training.
    """
    found = math.inf
    for fresh in (False, True):  # a network that ignores a uniform law may not learn to look at it
        sets = _posed_refit(model, images, unseen, j, width, seed, fresh=fresh)[1]
        found = min(found, float(sets.widths(MASS).quantile(0.25)))
        if found < SEEN * width:
            break
    return found


def one_pose_is_seen(
    model: "OrbitPosterior",
    images: Tensor,
    unseen: Unseen,
    j: int,
    width: float,
    order: int,
    seed: int,
) -> bool:
    """Whether a network sees one pose, not several, where a rule brings every picture to one.

    If it does, by most of the density of most told pictures, then several poses that were found of
    the data are there, and not only all that a network can tell. Arguments as for
    :func:`power_width`; ``order`` is the number of poses that were found.
    """
    density = _posed_refit(model, images, unseen, j, width, seed, order)[0]
    return float(shares_of_poses(density, order)[:, 0].median()) > (1 + 1 / order) / 2


def _posed_refit(
    model: "OrbitPosterior",
    images: Tensor,
    unseen: Unseen,
    j: int,
    width: float,
    seed: int,
    order: int = 1,
    fresh: bool = False,
) -> tuple[Densities, Sets]:
    """Densities and sets of told pictures after a training on poses that a rule gives.

    A width of several poses is that of all of them together.
    """
    coordinate = model.chart.coordinates[j]
    posed = posed_by_rule(model, images, coordinate)
    if coordinate.kind != "finite":
        generator = torch.Generator().manual_seed(mix(seed, 24))
        u = model.chart.identity(len(images))
        u[:, j] = (torch.rand(len(images), generator=generator) - 0.5) * width / (2 * MASS * order)
        posed = moved(model, u, posed)
    how = (mix(seed, 23), POWER_SHARE, fresh)
    densities, sets = _refit(model, posed, unseen, *how)
    told = unseen.told[j]
    return replace(densities[j], mass=densities[j].mass[told]), sets[j][told]


def _refit(
    model: "OrbitPosterior",
    images: Tensor,
    unseen: Unseen,
    seed: int,
    share: float,
    fresh: bool = False,
) -> tuple[list[Densities], list[Sets]]:
    """Densities and sets (M,) of unseen pictures after a training.

    It begins where the fit of their fold stands, or with a fresh network, and takes a ``share`` of
    the steps of a first round.
    """
    recipe, fold = model.config.training, unseen.fold
    rest = images[model.folds(len(images)) != fold]
    kept, held = split_held_out(rest, model.config.held_out, seed)
    run = {**RUN, "device": model.device.type}
    network: Any = build_networks(model)[0] if fresh else copy.deepcopy(model.fits[fold])
    if fresh:
        Fit(model, network, fold, rest, run, "planted").look_at_views()
    lr = recipe.lr if fresh else recipe.lr / 2
    short = replace(recipe, steps=max(1, round(share * recipe.steps)), lr=lr)
    fit_round(model, network, kept, held, short, run, "planted", mix(seed, 5))
    return read_sets(model, network.to(model.device).eval(), images[unseen.rows], mix(seed, 6))


def _row(
    model: "OrbitPosterior",
    c: Coordinate,
    width: float,
    told: Sets,
    share: float,
    expected: float,
    place: float | None,
    seed: int,
) -> Planted:
    """What was recovered of one coordinate: the width of ``told`` where ``expected`` should be."""
    side, found = max(model.shape[1:]), told.width()
    finite = c.kind == "finite"
    uniform = float(c.size) if finite else MASS * c.span
    planted = uniform if finite else share * uniform
    visible = width < INVISIBLE * uniform
    if place is not None:
        expected = planted = 2 * MASS * place
        visible = expected > small_widths(c)[1]  # else there is no room
    return Planted(
        name=c.name,
        unit=c.display(planted, side)[1],
        planted=c.display(planted, side)[0],
        expected=c.display(expected, side)[0],
        recovered=c.display(found, side)[0],
        ratio=found / max(expected, 1e-9),
        length=expected,
        visible=visible,
        added=place is None,
        error=told.log_error(model.config.reading.resamples, seed),
    )
