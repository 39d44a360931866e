"""Densities of pictures by several fits, and a width for each coordinate from them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.reading import Densities, read
from symmetries.learners.orbit_posterior.symmetric import self_symmetric
from symmetries.learners.orbit_posterior.verdicts import Headline, headline, uniform_width
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

MOST_SYMMETRIC = 0.8


@dataclass(frozen=True)
class Crossed:
    """Densities of pictures by several fits.

    Args:
        choosing: by a fit that chooses which pictures can be told.
        reading: by the fit that has not seen them.
        half: of the pictures of the first fold, which come first, by the fit on half of the rest.
        folds: (N,) the fold of each picture.
        rows: (N,) which pictures of the data these are.
    """

    choosing: list[Densities]
    reading: list[Densities]
    half: list[Densities]
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
    places = []
    for fold in range(count):
        inside = rows[folds[rows] == fold]
        places.append(inside)
        for side, fit in enumerate(((fold + 1) % count, fold)):
            pieces[side].append(read(model, model.fits[fit], images[inside], mix(seed, fit, side)))
    joined = [
        [
            Densities(c, torch.cat([piece[j].mass for piece in side]), side[0][j].samples)
            for j, c in enumerate(model.chart.coordinates)
        ]
        for side in pieces
    ]
    half = read(model, model.half_fit, images[places[0]], mix(seed, count))
    every = torch.cat(places)
    return Crossed(joined[0], joined[1], half, folds[every], every)


def headlines(model: "OrbitPosterior", found: Crossed, usable: Tensor, seed: int) -> list[Headline]:
    """One headline for each coordinate, from the pictures that are usable (N,)."""
    lines = []
    for choosing, reading, half in zip(found.choosing, found.reading, found.half, strict=True):
        first, second = (side.widths()[usable] for side in (choosing, reading))
        third = half.widths()[usable[: len(half.mass)]]
        rule, cell = model.config.reading, choosing.cell
        cell = 0.02 if choosing.coordinate.kind == "finite" else cell
        line = headline(first, second, third, found.folds[usable], rule, cell, seed)
        lines.append(replace(line, high=min(line.high, uniform_width(choosing.coordinate))))
    return lines


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
