r"""Calibrated widths: sets of moves that hold 90 % of the true moves, not 90 % of a density.

A network's density is wider than the truth by its bins and its errors, or narrower where it is
overconfident. On pictures that it has not seen the true move is known: a picture that we moved by s
is led back by s^-1. Let a be the mass of the smallest set of a picture's density that contains its
true move. The 90 % quantile of a over pictures is the mass whose smallest sets hold 90 % of the
true moves (conformal prediction with highest-density sets); their length is the width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.numbers import picture_numbers
from symmetries.learners.orbit_posterior.reading import (
    CHUNK,
    MASS,
    Densities,
    drawn_lines,
    effective_number,
    read,
    read_moved,
)
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

FINE = 8  # parts of a cell, between whose middles densities are interpolated
LEVELS = 201
KNOTS = 21
SPREAD = 0.02  # of the mass
MOVES_OF_FEW = 4  # known moves of each picture where every one counts


@dataclass(frozen=True)
class Sets:
    """Lengths of the smallest sets of each picture, and which of them contains the true move.

    Args:
        lengths: (N, LEVELS) of the sets that hold 0 to all of the mass, in the parameter's unit;
            for a finite group the effective number of elements, whatever the mass.
        needed: (N, K) mass of the smallest set that contains the true move, for K known moves.
    """

    lengths: Tensor
    needed: Tensor

    def __getitem__(self, rows: Tensor | slice) -> "Sets":
        return Sets(self.lengths[rows], self.needed[rows])

    def __len__(self) -> int:
        return len(self.needed)

    def level(self) -> float:
        """Mass whose smallest sets hold 90 % of the true moves."""
        return float(self.needed.quantile(MASS))

    def widths(self, level: float | None = None) -> Tensor:
        """Lengths (N,) of the sets that hold that mass, by default the calibrated one."""
        level = self.level() if level is None else level
        place = min(max(level, 0.0), 1.0) * (LEVELS - 1)
        low = min(int(place), LEVELS - 2)
        below, above = self.lengths[:, low], self.lengths[:, low + 1]
        return below + (place - low) * (above - below)

    def width(self, rows: Tensor | None = None) -> float:
        """The median of the calibrated widths, of all or of some pictures."""
        if rows is None:
            return float(self.widths().median())
        return float(self.widths(float(self.needed[rows].quantile(MASS)))[rows].median())

    def log_error(self, resamples: int, seed: int) -> float:
        """Standard error of the width's logarithm, by a bootstrap over pictures."""
        generator = torch.Generator().manual_seed(seed)
        draws = torch.randint(len(self), (resamples, len(self)), generator=generator)
        widths = torch.tensor([self.width(rows) for rows in draws])
        return float(widths.clamp_min(1e-9).log().std())


def joined(parts: Sequence[Sets]) -> Sets:
    """The sets of several groups of pictures, one after the other."""
    return Sets(torch.cat([p.lengths for p in parts]), torch.cat([p.needed for p in parts]))


def read_sets(
    model: "OrbitPosterior", network: PoseNetwork, images: Tensor, seed: int
) -> tuple[list[Densities], list[Sets]]:
    """Densities of pictures (N, C, H, W), shrunk, and their sets, one entry for each coordinate.

    The mass that is needed comes from moved pictures: a network that tells too little gives all
    pictures the same density, and around the picture itself that may seem right. Poses that are
    computed are those of the data, and the pictures stay as they are: stretches of turned pictures
    have other directions, in which the data vary by other amounts.
    """
    densities = read(model, network, images, seed)
    generator = torch.Generator().manual_seed(mix(seed, 32))
    drawn = drawn_lines(model)
    still = [d.coordinate.kind == "line" and d.coordinate.name not in drawn for d in densities]
    needed: list[list[Tensor]] = [[] for _ in densities]
    for number in range(MOVES_OF_FEW if model.few else 1):
        ties = torch.rand(len(images), generator=generator)
        truth = torch.zeros(len(images), len(densities))
        moved = densities
        if not all(still):
            moved, truth = read_moved(model, network, images, mix(seed, 31, number))
        for j, density in enumerate(moved):
            known = (densities[j], torch.zeros_like(ties)) if still[j] else (density, truth[:, j])
            needed[j].append(needed_mass(*known, ties))
    pairs = zip(densities, needed, strict=True)
    return densities, [sets_of(own, torch.stack(mass, -1)) for own, mass in pairs]


def sets_of(density: Densities, needed: Tensor) -> Sets:
    """The sets of pictures as they are, and the mass (N, K) that is needed after known moves."""
    coordinate = density.coordinate
    if coordinate.kind == "finite":
        number = effective_number(density.mass)
        return Sets(number[:, None].expand(-1, LEVELS).clone(), torch.full_like(needed, MASS))
    fine = refined(density)
    ordered = fine.sort(-1, descending=True).values
    total = ordered.cumsum(-1)
    cells = torch.arange(1, fine.shape[1] + 1, dtype=fine.dtype).expand_as(total).contiguous()
    levels = torch.linspace(0, 1, LEVELS).expand(len(fine), -1).contiguous()
    lengths = _interpolated(levels, total, cells) * (coordinate.span / fine.shape[1])
    return Sets(lengths, needed)


def refined(density: Densities) -> Tensor:
    """Mass (N, FINE * cells) of densities that are linear between the middles of the cells.

    A small share is spread over all cells: it leaves their order as it is, and sets that hold all
    of the mass reach everywhere.
    """
    mass = density.mass
    cells = mass.shape[1]
    place = (torch.arange(cells * FINE) + 0.5) / FINE - 0.5
    low = place.floor()
    share = place - low
    both = [low.long(), low.long() + 1]
    circle = density.coordinate.kind == "circle"
    both = [i % cells if circle else i.clamp(0, cells - 1) for i in both]
    found = (1 - share) * mass[:, both[0]] + share * mass[:, both[1]]
    found = found / found.sum(-1, keepdim=True).clamp_min(1e-12)
    return (1 - SPREAD) * found + SPREAD / found.shape[1]


def recalibrated(density: Densities, needed: Tensor) -> Densities:
    """Densities whose smallest sets of mass p hold a share p of the true moves.

    Each cell's mass is changed by how many true moves lie at its height.

    Args:
        density: (N, cells).
        needed: (M, K) of the pictures that calibrate.
    """
    if density.coordinate.kind == "finite":
        return density
    fine = refined(density)
    order = fine.argsort(-1, descending=True)
    total = fine.gather(-1, order).cumsum(-1)
    share = torch.linspace(0, 1, KNOTS)
    knots = needed.quantile(share).cummax(0).values
    knots = torch.cat((knots.new_zeros(1), knots)) + 1e-6 * torch.arange(KNOTS + 1)
    share = torch.cat((share.new_zeros(1), share))
    rows = [values.expand(len(fine), -1).contiguous() for values in (knots, share)]
    reached = _interpolated(total, *rows)
    changed = torch.diff(reached, dim=-1, prepend=reached.new_zeros(len(fine), 1))
    mass = torch.zeros_like(fine).scatter(-1, order, changed).unflatten(-1, (-1, FINE)).sum(-1)
    mass = mass / mass.sum(-1, keepdim=True).clamp_min(1e-12)
    return Densities(density.coordinate, mass)


def shortest_arc(density: Densities, share: float = MASS) -> Tensor:
    """Length (N,) of the shortest arc, or interval, that holds a share of the mass.

    It is longer than the smallest set where that falls into separate parts.
    """
    mass = density.mass
    total = torch.cat((mass.new_zeros(len(mass), 1), mass.cumsum(-1)), -1)
    if density.coordinate.kind == "circle":
        total = torch.cat((total, total[:, 1:] + 1), -1)
    best = mass.new_full((len(mass),), float(mass.shape[1]))
    for start in range(mass.shape[1]):
        target = total[:, start, None] + share
        end = torch.searchsorted(total, target)
        inside = end < total.shape[1]
        end = end.clamp(max=total.shape[1] - 1)
        low, high = total.gather(1, end - 1), total.gather(1, end)
        length = end - 1 - start + (target - low) / (high - low).clamp_min(1e-12)
        best = torch.where(inside[:, 0], torch.minimum(best, length[:, 0]), best)
    return best * density.cell


def needed_mass(density: Densities, truth: Tensor, ties: Tensor) -> Tensor:
    """Mass (N,) of the smallest sets of moved pictures that contain their true moves.

    Args:
        density: of the pictures after known moves.
        truth: (N,) the true moves.
        ties: (N,) uniform numbers that say which of equally likely places come first.
    """
    coordinate = density.coordinate
    if coordinate.kind == "finite":
        return torch.full_like(truth, MASS)
    fine = refined(density)
    cells = fine.shape[1]
    place = (truth / coordinate.reach + 1) / 2 * cells - 0.5
    low = place.floor()
    both = [low.long(), low.long() + 1]
    circle = coordinate.kind == "circle"
    both = [i % cells if circle else i.clamp(0, cells - 1) for i in both]
    below, above = (fine.gather(1, i[:, None])[:, 0] for i in both)
    height = (below + (place - low) * (above - below))[:, None]
    same = (fine - height).abs() <= 1e-4 * height
    higher = ((fine > height) & ~same).float()
    return (fine * (higher + ties[:, None] * same)).sum(-1).clamp(0, 1)


def _interpolated(at: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Values (N, M) at places (N, M) of functions through (0, 0) and points x, y (N, K)."""
    x, y = (torch.cat((v.new_zeros(len(v), 1), v), -1).contiguous() for v in (x, y))
    right = torch.searchsorted(x, at.contiguous()).clamp(1, x.shape[1] - 1)
    x0, x1, y0, y1 = (v.gather(1, i) for v in (x, y) for i in (right - 1, right))
    share = ((at - x0) / (x1 - x0).clamp_min(1e-12)).clamp(0, 1)
    return y0 + share * (y1 - y0)


def calibration_error(
    model: "OrbitPosterior", network: PoseNetwork, images: Tensor, seed: int
) -> dict[str, float]:
    """Largest gap, for each coordinate, between the distribution of PIT values and the uniform.

    Pictures that the network has not seen are moved by known r ~ pi, and the probability integral
    transform of r under q(. | T_r x) is compared with the uniform distribution.
    """
    levels = []
    with torch.no_grad():
        for start in range(0, len(images), CHUNK):
            x = images[start : start + CHUNK].to(model.device)
            numbers = picture_numbers(mix(seed, 7), x)
            u = model.chart.draw(numbers.rand(len(x), len(model.chart.coordinates)))
            asked, *shown = model.view(x, u, numbers)
            levels.append(network.head.levels(asked, network.read(shown)).cpu())
    ordered = torch.cat(levels).sort(0).values
    even = (torch.arange(len(ordered)) + 0.5) / len(ordered)
    gaps = (ordered - even[:, None]).abs().amax(0)
    names = [c.name for c in model.chart.coordinates if c.kind != "finite"]
    places = [j for j, c in enumerate(model.chart.coordinates) if c.kind != "finite"]
    return {name: float(gaps[j]) for name, j in zip(names, places, strict=True)}
