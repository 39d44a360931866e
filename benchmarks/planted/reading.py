"""From a method's answer to what is stored: densities on a frame that pictures have in common.

Methods count moves from the picture, so every picture has a density in a place of its own. Each is
laid on its median (on a circle, cut opposite to the shortest arc that holds 90 %), which for a
planted uniform is the canonical pose, and then they are averaged. A method that is too narrow stays
too narrow in this frame; laid on the true pose instead, the average over pictures would be right
even for one that says that nothing moves. (The middle of the shortest interval itself is no good
frame: for a uniform density many intervals are as short.)
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.planted.planting import Planted
from benchmarks.planted.protocol import Answer, Found
from benchmarks.planted.records import FoundRow
from benchmarks.planted.truth import (
    BINS,
    FINITE,
    MASS,
    Natural,
    period_of,
    reach,
    shown_width,
)
from torch import Tensor


def shortest_interval(samples: Tensor, period: float | None) -> tuple[Tensor, Tensor]:
    """Middle and length (M,) of the shortest interval that holds 90 % of samples (M, S).

    Example:
        >>> middle, length = shortest_interval(torch.linspace(1, 3, 201)[None], None)
        >>> round(float(length), 3)
        1.8
    """
    if period is not None:
        samples = samples.remainder(period)
    ordered = samples.sort(1).values
    count = samples.shape[1]
    inside = min(math.ceil(MASS * count), count - 1)
    if period is not None:
        ordered = torch.cat((ordered, ordered + period), 1)[:, : count + inside]
    lengths = ordered[:, inside:] - ordered[:, : ordered.shape[1] - inside]
    length, start = lengths.min(1)
    first = ordered.gather(1, start[:, None])[:, 0]
    return first + length / 2, length


def centres(moves: Tensor, period: float | None) -> Tensor:
    """The centre (M,) of each picture's moves (M, S): their median."""
    if period is None:
        return moves.median(1).values
    middle, _ = shortest_interval(moves, period)
    return middle + wrapped(moves - middle[:, None], period).median(1).values


def centred_density(moves: Tensor, limit: float, period: float | None) -> Tensor:
    """Masses (BINS,) of moves (M, S) around the centre of each picture's.

    Args:
        moves: in the parameter's own unit.
        limit: half the range of the bins; what is beyond counts in the outermost ones.
        period: circumference of an angle.
    """
    offset = wrapped(moves - centres(moves, period)[:, None], period)
    place = ((offset / limit + 1) / 2 * BINS).floor().long().clamp(0, BINS - 1)
    counts = torch.bincount(place.flatten(), minlength=BINS).double()
    return counts / counts.sum()


def wrapped(values: Tensor, period: float | None) -> Tensor:
    """Angles between minus and plus half a period; others as they are."""
    if period is None:
        return values
    return (values + period / 2).remainder(period) - period / 2


def read(answer: Answer, truth: Mapping[str, Any], planted: Planted) -> list[FoundRow]:
    """The rows to store of an answer.

    Args:
        answer: of a method.
        truth: of the cell, by parameter.
        planted: the pictures and what was planted into each.
    """
    missing = set(truth) - {found.name for found in answer.found}
    if missing:
        raise ValueError(f"answer: expected {', '.join(truth)}, got none for {sorted(missing)}")
    return [_row(found, truth[found.name], planted) for found in answer.found]


def _row(found: Found, truth: Mapping[str, Any], planted: Planted) -> FoundRow:
    stated = {
        "name": found.name,
        "verdict": found.verdict,
        "width90": found.width90,
        "interval": found.interval,
    }
    if found.name in FINITE:
        top = None if found.probabilities is None else float(found.probabilities.amax(1).mean())
        return FoundRow(**stated, top=top)
    if found.moves is None:
        return FoundRow(**stated)
    side = planted.images.shape[-1]
    period = period_of(found.name)
    moves = found.moves.double()
    limit = reach(found.name, truth["half"], Natural(**truth["natural"]), side)
    density = centred_density(moves, limit, period)
    miss = None
    if found.name in planted.planted:
        rows = torch.arange(len(moves)) if found.rows is None else found.rows
        pose = planted.planted[found.name][rows].double()
        if found.name in planted.natural:
            pose = pose + planted.natural[found.name][rows].double()
        distance = float(wrapped(centres(moves, period) + pose, period).abs().median())
        miss = round(shown_width(found.name, distance, side), 4)
    masses = tuple(round(value, 4) for value in density.tolist())  # files stay small
    return FoundRow(**stated, density=masses, centre_miss=miss)
