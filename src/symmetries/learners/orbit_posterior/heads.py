r"""Densities over moves: one histogram for each coordinate, given the coordinates before it.

.. math:: q(u | c) = \prod_j q_j(u_j | u_{<j}, c)

A histogram starts uniform, has the sharp edges that densities of poses have, closes up where the
coordinate is an angle, and is a categorical where it is an index; so rotations, products with
finite groups, and semidirect products with flips are one case.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.numbers import Numbers

WAVES = 6
SPREAD = 0.05  # of the mass that densities begin with is everywhere
Known = dict[int, Tensor]  # features of coordinates by their number


class Histograms(nn.Module):
    """The densities q(u | c) of coordinates u (N, D) given features c (N, F).

    Args:
        coordinates: of the chart.
        features: number of features.
        hidden: units of each density's hidden layer.
        dropout: after it, while training.
        seen: how many features each density sees; all.
        last: whether these are the last ones, instead of the first.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> from symmetries.learners.orbit_posterior.chart import Chart
        >>> head = Histograms(Chart(Affine2("rotation"), 72).coordinates, 8)
        >>> float(head.log_ratio(torch.zeros(2, 1), torch.randn(2, 8)).abs().max()) < 1e-6
        True
    """

    def __init__(
        self,
        coordinates: Sequence[Coordinate],
        features: int,
        hidden: int = 256,
        dropout: float = 0.0,
        seen: Sequence[int] | None = None,
        last: Sequence[bool] | None = None,
    ) -> None:
        super().__init__()
        self.coordinates = tuple(coordinates)
        self.dropout = dropout
        self.parts = nn.ModuleList()
        self.seen = tuple(seen or [features] * len(self.coordinates))
        self.last = tuple(last or [False] * len(self.coordinates))
        known = 0
        for coordinate, own in zip(self.coordinates, self.seen, strict=True):
            logits = nn.Linear(hidden, coordinate.size)
            nn.init.zeros_(logits.weight)
            nn.init.zeros_(logits.bias)
            layers = (nn.Linear(own + known, hidden), nn.GELU(), nn.LayerNorm(hidden))
            # Nothing stands where stored weights have counted a layer of dropout.
            self.parts.append(nn.Sequential(*layers, nn.Identity(), logits))
            known += coordinate.size if coordinate.kind == "finite" else 2 * WAVES

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights: training may cast them."""
        return next(self.parameters()).dtype

    @torch.no_grad()
    def begin_at(self, u: Tensor) -> None:
        """Start the densities of lines at the law of coordinates u (N, D), instead of uniform.

        Few pictures tell little more of a computed place or size than how those are distributed.
        """
        for j, coordinate in enumerate(self.coordinates):
            if coordinate.kind == "line":
                layers: Any = self.parts[j]
                layers[4].bias.copy_(_smooth_histogram(coordinate, u[:, j]).log())

    def log_ratio(
        self,
        u: Tensor,
        context: Tensor,
        numbers: Numbers | None = None,
        wanted: Sequence[int] | None = None,
    ) -> Tensor:
        """Log q(u | c) / pi(u), (N,): nats gained over the uniform law.

        A value between the middles of two bins belongs to both, by its distance to them.

        Args:
            u: (N, D).
            context: (N, F).
            numbers: source of dropout's; None drops nothing.
            wanted: numbers of the coordinates that count, given those before each; None: all.
        """
        total = torch.zeros(len(u), device=u.device)
        known: Known = {}
        for j in range(len(self.coordinates)) if wanted is None else wanted:
            total = total + self._terms(j, u, context, numbers, known)
        return total

    def _terms(
        self, j: int, u: Tensor, context: Tensor, numbers: Numbers | None, known: Known
    ) -> Tensor:
        """What the coordinate of number j adds to the log-ratio, (N,)."""
        coordinate = self.coordinates[j]
        log_p = F.log_softmax(self.logits(j, u, context, numbers, known).float(), -1)
        low, share = _bin(coordinate, u[:, j])
        high = (low + 1) % coordinate.size
        both = log_p.gather(1, torch.stack((low, high), -1))
        shares = torch.stack((1 - share, share), -1)
        return math.log(coordinate.size) + (shares * both).sum(-1)

    def logits(
        self,
        j: int,
        u: Tensor,
        context: Tensor,
        numbers: Numbers | None = None,
        known: Known | None = None,
    ) -> Tensor:
        """Logits (N, size) of coordinate j given those before it.

        Args:
            j: number of the coordinate.
            u: (N, at least j), or as many rows for each of the N; then there are as many logits
                where they differ.
            context: (N, F).
            numbers: source of dropout's; None drops nothing.
            known: features of earlier coordinates, which is added to.
        """
        before = self._before(j, u, {} if known is None else known)
        count = self.seen[j]
        context = context[:, -count:] if self.last[j] else context[:, :count]
        layers: Any = self.parts[j]
        times = len(u) // max(1, len(context))
        if not before:
            first = layers[0](context)
        elif times == 1:
            first = layers[0](torch.cat((context, *before), -1).to(context.dtype))
        else:  # what does not differ is computed once
            weight, same = layers[0].weight, context.shape[1]
            first = F.linear(context, weight[:, :same]).repeat_interleave(times, 0)
            own = torch.cat(before, -1).to(context.dtype)
            first = first + F.linear(own, weight[:, same:], layers[0].bias)
        hidden: Tensor = layers[2](layers[1](first))
        if numbers is not None and self.training and self.dropout:
            kept = numbers.rand(*hidden.shape) >= self.dropout
            hidden = hidden * (kept / (1 - self.dropout)).to(hidden.dtype)
        found: Tensor = layers[4](hidden)
        return found

    def _before(self, j: int, u: Tensor, known: Known) -> list[Tensor]:
        """Features of the coordinates before number j."""
        for i, coordinate in enumerate(self.coordinates[:j]):
            if i not in known:
                known[i] = _waves(coordinate, u[:, i])
        return [known[i] for i in range(j)]

    def probabilities(self, context: Tensor) -> Tensor:
        """Of the bins of the first coordinate, (N, size)."""
        u = context.new_zeros(len(context), 0)
        return F.softmax(self.logits(0, u, context).float(), -1)

    def sample(self, context: Tensor, n: int, numbers: Numbers) -> Tensor:
        """Coordinates (N, n, D) drawn from q, one coordinate after the other."""
        shape = (len(context) * n, len(self.coordinates))
        u = context.new_zeros(shape, dtype=torch.float32)
        known: Known = {}
        for j, coordinate in enumerate(self.coordinates):
            # The first density is the same for all samples of a picture.
            logits = self.logits(j, u, context, known=known).float()
            total = F.softmax(logits, -1).cumsum(-1)
            unit = numbers.rand(len(context), n).reshape(len(total), -1) * total[:, -1:]
            index = torch.searchsorted(total, unit).clamp_max(coordinate.size - 1).flatten()
            if coordinate.kind == "finite":
                u[:, j] = index.to(u.dtype)
            else:
                place = numbers.rand(len(context), n).flatten()
                u[:, j] = ((index + place) / coordinate.size * 2 - 1) * coordinate.reach
        return u.reshape(len(context), n, -1)

    def levels(self, u: Tensor, context: Tensor) -> Tensor:
        """The probability integral transform (N, D): uniform on [0, 1] if q is calibrated.

        Of an index it is spread over the step of the distribution function by its middle.
        """
        found, known = [], Known()
        for j, coordinate in enumerate(self.coordinates):
            p = F.softmax(self.logits(j, u, context, known=known).float(), -1)
            total = F.pad(p.cumsum(-1), (1, 0))
            if coordinate.kind == "finite":
                index, share = u[:, j].long(), torch.full_like(u[:, j], 0.5)
            else:
                place = (u[:, j] / coordinate.reach + 1) / 2 * coordinate.size
                index = place.floor().long().clamp(0, coordinate.size - 1)
                share = (place - index).clamp(0, 1)
            low, high = (total.gather(1, i[:, None])[:, 0] for i in (index, index + 1))
            found.append(low + share * (high - low))
        return torch.stack(found, -1)


def _bin(coordinate: Coordinate, value: Tensor) -> tuple[Tensor, Tensor]:
    """The bin whose middle is just below a value, and the share of the next one."""
    if coordinate.kind == "finite":
        return value.long(), torch.zeros_like(value)
    place = (value / coordinate.reach + 1) / 2 * coordinate.size - 0.5
    if coordinate.kind == "line":
        place = place.clamp(0, coordinate.size - 1)
        low = place.floor().clamp(max=coordinate.size - 2)
        return low.long(), place - low
    low = place.floor()
    return low.long() % coordinate.size, place - low


def _smooth_histogram(coordinate: Coordinate, values: Tensor) -> Tensor:
    """Masses (size,) of values (N,) on a line, by Gaussians of Silverman's width."""
    size, cell = coordinate.size, coordinate.span / coordinate.size
    middles = (torch.arange(size, device=values.device) + 0.5) * cell - coordinate.reach
    width = 0.9 * values.std() * len(values) ** -0.2
    away = (middles - values[:, None]) / width.clamp_min(cell)
    found = F.softmax(-0.5 * away.square(), -1).mean(0)
    return (1 - SPREAD) * found + SPREAD / size


def _waves(coordinate: Coordinate, value: Tensor) -> Tensor:
    """Features of a coordinate for the densities of later ones."""
    if coordinate.kind == "finite":
        return F.one_hot(value.long(), coordinate.size).to(value.dtype)
    period = math.pi if coordinate.kind == "circle" else math.pi / 2
    angle = value[:, None] * (period / coordinate.reach)
    angle = angle * torch.arange(1, WAVES + 1, device=value.device, dtype=value.dtype)
    return torch.cat((torch.cos(angle), torch.sin(angle)), -1)
