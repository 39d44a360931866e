"""Densities of pictures by several fits, and a width for each coordinate from them."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.calibrating import (
    Sets,
    joined,
    read_sets,
    recalibrated,
    shortest_arc,
)
from symmetries.learners.orbit_posterior.chart import STRETCHES, Coordinate
from symmetries.learners.orbit_posterior.reading import Densities, read
from symmetries.learners.orbit_posterior.symmetric import self_symmetric
from symmetries.learners.orbit_posterior.verdicts import (
    FULL_SHARE,
    WIDE_SHARE,
    Headline,
    LearningCurve,
    headline,
    small_widths,
    uniform_width,
)
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

MOST_SYMMETRIC = 0.8
NORMAL_MEDIAN, NORMAL_WIDTH = 0.6745, 3.29  # of its absolute values, and 90 % width; standard law
APART = 1.3  # shortest arc over smallest set: what falls into separate parts
WIDER = 1.5  # than the headline: what differs from it
MANY_WIDER = 0.15  # of the pictures


@dataclass(frozen=True)
class Crossed:
    """Densities of pictures by several fits.

    Args:
        choosing: by a fit that chooses which pictures can be told.
        reading: by the fit that has not seen them.
        sets: of ``reading``, for calibrated widths.
        fewer: sets of the pictures of the first fold, which come first, by the fit on a share of
            the rest.
        folds: (N,) the fold of each picture.
        rows: (N,) which pictures of the data these are.
    """

    choosing: list[Densities]
    reading: list[Densities]
    sets: list[Sets]
    fewer: list[Sets]
    folds: Tensor
    rows: Tensor


def crossed(model: "OrbitPosterior", images: Tensor, seed: int) -> Crossed:
    """Read pictures (N, C, H, W) of the fit, shrunk, by the fit of their fold and by another."""
    folds = model.folds(len(images))
    most = model.config.reading.pictures
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(mix(seed, 3)))
    rows = order[:most].sort().values
    count = model.fold_count
    pieces: list[list[list[Densities]]] = [[], []]
    places, sets = [], []
    for fold in range(count):
        inside = rows[folds[rows] == fold]
        places.append(inside)
        other = (fold + 1) % count
        pieces[0].append(read(model, model.fits[other], images[inside], mix(seed, other, 0)))
        own, lengths = read_sets(model, model.fits[fold], images[inside], mix(seed, fold, 1))
        pieces[1].append(own)
        sets.append(lengths)
    densities = [
        [
            Densities(c, torch.cat([piece[j].mass for piece in side]), side[0][j].samples)
            for j, c in enumerate(model.chart.coordinates)
        ]
        for side in pieces
    ]
    every = torch.cat(places)
    fewer = read_sets(model, model.smaller_fit, images[places[0]], mix(seed, count))[1]
    both = [joined(column) for column in zip(*sets, strict=True)]
    return Crossed(densities[0], densities[1], both, fewer, folds[every], every)


def headlines(
    model: "OrbitPosterior", found: Crossed, usable: Tensor, repeats: bool, seed: int
) -> list[Headline]:
    """One headline for each coordinate, from the pictures that are usable (N,)."""
    lines = []
    for j, (choosing, reading, fewer) in enumerate(
        zip(found.choosing, found.sets, found.fewer, strict=True)
    ):
        widths, own = choosing.widths()[usable], fewer[usable[: len(fewer)]]
        rule, cell = model.config.reading, choosing.cell
        cell = 0.02 if choosing.coordinate.kind == "finite" else cell
        # Which content it is must be recognised before its shape tells how it was stretched.
        known = choosing.coordinate.name not in STRETCHES or not model.chart.shapes
        curve = LearningCurve(model.smaller_share, repeats and model.frame.plain and known)
        line = headline(widths, reading[usable], own, found.folds[usable], rule, cell, seed, curve)
        if not known:
            line = with_disagreement(line, choosing, found.reading[j], usable)
        lines.append(possible(line, choosing.coordinate))
    return lines


def with_disagreement(line: Headline, one: Densities, other: Densities, usable: Tensor) -> Headline:
    """The interval where two fits place the same pictures differently along a line.

    Errors of a fit add to the width by their squares, and are no law of the data.

    Args:
        line: of the told pictures among those that are usable (N,).
        one: densities by one fit.
        other: by another.
        usable: (N,).
    """
    apart = (one.centres() - other.centres())[usable][line.told]
    error = float(apart.abs().median()) / NORMAL_MEDIAN / math.sqrt(2)
    least = math.sqrt(max(0.0, line.width**2 - (NORMAL_WIDTH * error) ** 2))
    return replace(line, low=min(line.low, least))


def possible(line: Headline, coordinate: Coordinate) -> Headline:
    """A width and its interval no larger than of the uniform law, and of one element at least."""
    most, least = uniform_width(coordinate), 1.0 if coordinate.kind == "finite" else 0.0
    ends = {n: max(least, min(getattr(line, n), most)) for n in ("width", "low", "high")}
    return replace(line, **ends)


def calibrated(found: Crossed, lines: list[Headline], usable: Tensor) -> Crossed:
    """The same with densities of told pictures that are calibrated on these.

    Others stay as they were read: calibrated on pictures that stay still, densities of pictures
    that turn would fall into parts.
    """
    reading = []
    for density, sets, line in zip(found.reading, found.sets, lines, strict=True):
        told = torch.zeros(len(density.mass), dtype=torch.bool)
        told[usable] = line.told
        right = recalibrated(density, sets[told].needed)
        mass = torch.where(told[:, None], right.mass, density.mass)
        reading.append(replace(right, mass=mass))
    return replace(found, reading=reading)


def told_pictures(density: Densities, line: Headline, usable: Tensor) -> Densities:
    """The densities of the pictures that a headline is read from."""
    return replace(density, mass=density.mass[usable][line.told])


def in_parts(told: Densities) -> bool:
    """Whether the poses of told pictures fall into separate parts, such as two half a turn apart.

    Networks see the axis of an object before they see its direction, so that this may be what the
    data have, or all that the network could tell. Parts that lie as near as what counts as small
    are no parts.
    """
    if told.coordinate.kind == "finite":
        return False
    arcs = shortest_arc(told)
    far = float(arcs.median()) > small_widths(told.coordinate)[1]
    return far and float((arcs / told.widths().clamp_min(1e-9)).median()) > APART


def wider_pictures(found: Crossed, j: int, line: Headline, usable: Tensor) -> float | None:
    """Width of the pictures that clearly vary more than the told ones, where these are many.

    A class may turn while another does not. Pictures whose pose cannot be told have wide densities,
    too, but these are nearly uniform or fall into separate parts, or are not wider once they are
    calibrated. What is as small as nothing is no difference, either. Mirror images that are rare
    may be missing of some contents by chance, and these are the surest: if others are not as sure
    that there are none, and not ignorant either, pictures differ.

    Args:
        found: of all pictures.
        j: number of the coordinate.
        line: its headline.
        usable: (N,) pictures that count.
    """
    density = found.choosing[j]
    coordinate, small = density.coordinate, small_widths(density.coordinate)[1]
    own = Densities(coordinate, density.mass[usable], density.samples)
    widths = own.widths()
    if coordinate.kind == "finite":
        least = small if line.width < small else WIDER * line.width
        wider = ~line.told & (widths < FULL_SHARE * coordinate.size) & (widths > least)
    else:
        least = max(WIDER * line.width, small)
        whole = shortest_arc(own) < 1.1 * widths
        narrow = widths < WIDE_SHARE * uniform_width(coordinate)
        wider = ~line.told & whole & narrow & (widths > WIDER * line.width + own.cell)
    rows = wider.nonzero()[:, 0]
    if len(rows) <= MANY_WIDER * len(wider):
        return None
    width = found.sets[j][usable].width(rows)
    return width if width > least else None


def usable_pictures(
    model: "OrbitPosterior", images: Tensor, found: Crossed
) -> tuple[Tensor, list[str]]:
    """Which of the pictures that were read (N,) are not left alone by some move; and warnings.

    All of them where nearly none is usable: then nothing can be told.
    """
    alike = self_symmetric(images[found.rows], model.chart, model.frame)
    share = float(alike.float().mean())
    if share <= MOST_SYMMETRIC:
        return ~alike, []
    text = "of the pictures look the same after some of the moves: nothing can be told from these"
    return torch.ones_like(alike), [f"{100 * share:.0f} % {text}"]
