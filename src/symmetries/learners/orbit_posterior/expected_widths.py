"""Widths that data should have after known transformations were planted into them."""

import math

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.chart import STRETCHES, Chart, Coordinate
from symmetries.learners.orbit_posterior.reading import MASS, smallest_set

FROM, TO = 64, 1024  # pictures between which moves are drawn


def expected_widths(chart: Chart, means: list[Tensor], share: float, seed: int) -> list[float]:
    """Widths that data should have after moves were planted on top of their own.

    Moves along one coordinate, and moves that commute, add up. Turns and shapes do not commute: a
    turned stretch is one in another direction. There the moves between pictures are drawn.

    Args:
        chart: of the group.
        means: mean density of each coordinate of the data, centred.
        share: of the reach, that is planted to either side.
        seed: of what is drawn.
    """
    found = []
    for c, mean in zip(chart.coordinates, means, strict=True):
        if c.kind == "finite":
            found.append(float(c.size))
            continue
        spread = _spread(mean, share * len(mean), c.kind == "circle")
        found.append(float(smallest_set(spread)) * c.span / len(mean))
    if not (chart.shapes and "rotation" in chart.names):
        return found
    generator = torch.Generator().manual_seed(seed)
    shape = (FROM + TO, len(found))
    own, planted = torch.zeros(shape), torch.zeros(shape)
    mixed = [j for j, name in enumerate(chart.names) if name in ("rotation", *STRETCHES)]
    for j in mixed:
        c, mean = chart.coordinates[j], means[j]
        unit = torch.rand(2, FROM + TO, generator=generator)
        place = torch.multinomial(mean, FROM + TO, True, generator=generator) + unit[0]
        own[:, j] = place / len(mean) * c.span - c.reach
        planted[:, j] = share * c.reach * (2 * unit[1] - 1)
    every = (chart.matrix(planted) @ chart.matrix(own))[:, :2, :2]
    block = every[None, FROM:] @ torch.linalg.inv(every[:FROM, None])
    moves = chart.coordinates_of(
        block, torch.zeros(FROM, TO, 2), torch.zeros(*block.shape[:2], shape[1])
    )
    for j in mixed:
        found[j] = float(smallest_intervals(moves[..., j], chart.coordinates[j]).median())
    return found


def smallest_intervals(values: Tensor, c: Coordinate) -> Tensor:
    """Length (N,) of the shortest interval, or arc, that holds 90 % of values (N, S)."""
    ordered = values.sort(-1).values
    if c.kind == "circle":
        ordered = torch.cat((ordered, ordered + c.span), -1)
    count = math.ceil(MASS * values.shape[-1])
    return (ordered[:, count - 1 :] - ordered[:, : 1 - count]).amin(-1).clamp(max=MASS * c.span)


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
