"""Densities over moves of each picture, and the smallest sets that hold 90 % of them."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.learners.orbit_posterior.canonical import moments
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.numbers import picture_numbers, place_numbers
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

MASS = 0.9
CHUNK = 512  # pictures at a time
CELLS = 60  # of densities that are counted from samples
MORE = 8  # candidates for each version
SHOWN, LEAST_SHOWN, MANY = 1.3, 0.12, 100_000  # of the range of moves that is shown


@dataclass(frozen=True)
class Densities:
    """The density of one coordinate of the moves that take a picture to its other poses.

    Args:
        coordinate: which one; values outside [-reach, reach] are counted in the outermost cells.
        mass: (N, cells), adding up to one for each picture.
        samples: number of samples that the mass was counted from; None if it was computed.
    """

    coordinate: Coordinate
    mass: Tensor
    samples: int | None = None

    @property
    def cell(self) -> float:
        """Length of a cell, in the parameter's own unit; 1 for elements of a finite group."""
        finite = self.coordinate.kind == "finite"
        return 1.0 if finite else self.coordinate.span / self.mass.shape[1]

    def widths(self) -> Tensor:
        """Length (N,) of the smallest set that holds 90 %; effective number of elements."""
        if self.coordinate.kind == "finite":
            return effective_number(self.mass)
        cells = smallest_set(self.mass)
        if self.samples is not None:
            # The set prefers cells that hold more by chance: deviations of a cell's count, shared
            # between neighbours, move the edge of the set by so much (exact for a uniform law).
            chance = (2 / 3 * cells / (MASS * self.samples)).sqrt()
            cells = (cells / (1 - 0.195 * chance).clamp_min(0.5)).clamp(
                max=MASS * len(self.mass[0])
            )
        return cells * self.cell

    def centres(self) -> Tensor:
        """Centre (N,) of the smallest set: comparable between pictures, unlike the mode."""
        if self.coordinate.kind == "finite":
            return self.mass.argmax(-1).float()
        inside = in_smallest_set(self.mass)
        place = ((torch.arange(inside.shape[1]) + 0.5) * self.cell - self.coordinate.reach)[None]
        if self.coordinate.kind == "line":
            return (inside * place).sum(-1) / inside.sum(-1)
        angle = place * (math.pi / self.coordinate.reach)
        x, y = (inside * torch.cos(angle)).sum(-1), (inside * torch.sin(angle)).sum(-1)
        return torch.atan2(y, x) * (self.coordinate.reach / math.pi)


def smallest_set(mass: Tensor, share: float = MASS) -> Tensor:
    """Number of cells (...), not always whole, of the smallest set that holds a share of the mass.

    Example:
        >>> smallest_set(torch.full((10,), 0.1)).item()
        9.0
    """
    ordered = mass.sort(-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    return ((share - before) / ordered.clamp_min(1e-12)).clamp(0, 1).sum(-1)


def in_smallest_set(mass: Tensor, share: float = MASS) -> Tensor:
    """How much of each cell (...) belongs to the smallest set."""
    order = mass.argsort(-1, descending=True)
    ordered = mass.gather(-1, order)
    before = ordered.cumsum(-1) - ordered
    taken = ((share - before) / ordered.clamp_min(1e-12)).clamp(0, 1)
    return torch.zeros_like(mass).scatter(-1, order, taken)


def effective_number(mass: Tensor) -> Tensor:
    """Exponential of the entropy (...): 1 for certainty, the number of elements if uniform."""
    entropy: Tensor = torch.special.entr(mass).sum(-1)
    return entropy.exp()


@torch.no_grad()
def read(
    model: "OrbitPosterior", network: PoseNetwork, images: Tensor, seed: int
) -> list[Densities]:
    """Densities of the moves of pictures (N, C, H, W), shrunk: one entry for each coordinate.

    The pictures are seen as in training, and several views are averaged. Where pi is uniform on the
    whole group (rotations alone, finite groups), the views are moved ones, and their densities
    moved back, as q(r | T_a x) = q(a^-1 r | x).
    """
    parts = []
    for start in range(0, len(images), CHUNK):
        x = images[start : start + CHUNK].to(model.device)
        u = model.chart.identity(len(x), x.device)
        parts.append(_masses(model, network, x, u, seed))
    return _joined(model, parts)


@torch.no_grad()
def read_moved(
    model: "OrbitPosterior", network: PoseNetwork, images: Tensor, seed: int
) -> tuple[list[Densities], Tensor]:
    """Densities of pictures after known moves, and the moves (N, D) that lead back.

    Moves go around a circle, and over half the reach of a line where they are drawn. Finite parts
    are left out: rotations are read beside moves that do not mirror.
    """
    chart, parts, truth = model.chart, [], []
    share = dict.fromkeys(drawn_lines(model), 0.5)
    every = [1.0 if c.kind == "circle" else share.get(c.name, 0.0) for c in chart.coordinates]
    far = torch.tensor(every)
    for start in range(0, len(images), CHUNK):
        x = images[start : start + CHUNK].to(model.device)
        numbers = picture_numbers(mix(seed, 1), x)
        u = chart.draw(numbers.rand(len(x), len(chart.coordinates))) * far.to(x.device)
        parts.append(_masses(model, network, x, u, seed))
        truth.append(chart.moves(u[:, None], moved_centre(x, model, u))[:, 0].cpu())
    return _joined(model, parts), torch.cat(truth)


def _masses(
    model: "OrbitPosterior", network: PoseNetwork, x: Tensor, u: Tensor, seed: int
) -> list[Tensor]:
    """Mass (N, cells) of each coordinate of the moves of T_u x."""
    coordinates = model.chart.coordinates
    if len(coordinates) > 1:
        return _read_samples(model, network, x, u, seed)
    one = _read_line if coordinates[0].kind == "line" else _read_whole
    return [one(model, network, x, u, seed)]


def _joined(model: "OrbitPosterior", parts: list[list[Tensor]]) -> list[Densities]:
    masses = [torch.cat(column) for column in zip(*parts, strict=True)]
    samples = None if len(masses) == 1 else model.config.reading.samples
    pairs = zip(model.chart.coordinates, masses, strict=True)
    return [Densities(coordinate, mass, samples) for coordinate, mass in pairs]


def _read_whole(
    model: "OrbitPosterior", network: PoseNetwork, x: Tensor, u: Tensor, seed: int
) -> Tensor:
    """Of a circle or of a finite group; the densities of moved views are moved back."""
    coordinate = model.chart.coordinates[0]
    size, views = coordinate.size, model.config.views.readings
    total = torch.zeros(len(x), size, device=x.device)
    finite = model.chart.finite
    for index in range(views):
        numbers = picture_numbers(mix(seed, index), x)
        step = (index * size) // views if finite is None else index % size
        if finite is None:
            far = u + coordinate.reach + step * coordinate.span / size
            r = far.remainder(coordinate.span) - coordinate.reach
        else:
            r = torch.full_like(u, float(step))
        p = network.head.probabilities(network.read(model.view(x, r, numbers)[1:]))
        if finite is None:
            p = p.roll(-step, -1)
        else:
            every = finite.elements(x.device)
            p = p[:, finite.product(torch.full_like(every, step), every)]
        total += torch.log(p.clamp_min(1e-9)) / views
    mass = F.softmax(total, -1).cpu()
    return mass.flip(-1) if finite is None else mass[:, finite.inverse(finite.elements())]


def _read_line(
    model: "OrbitPosterior", network: PoseNetwork, x: Tensor, u: Tensor, seed: int
) -> Tensor:
    views = model.config.views.readings
    total: Tensor | float = 0.0
    for index in range(views):
        numbers = picture_numbers(mix(seed, index), x)
        context = network.read(model.view(x, u, numbers)[1:])
        total = total + torch.log(network.head.probabilities(context) + 1e-9) / views
    mass = F.softmax(torch.as_tensor(total), -1)
    if not isinstance(model.view, PoseView):
        return mass.flip(-1).cpu()
    asked, coordinate = model.view.coordinates[0], model.chart.coordinates[0]
    middle = (torch.arange(asked.size, device=x.device) + 0.5) * asked.span / asked.size
    poses = (middle - asked.reach)[None, :, None].expand(len(x), -1, -1)
    moves = model.chart.moves(model.view.moves(poses, x), moved_centre(x, model, None))
    return _counted(coordinate, moves[..., 0], mass, CELLS).cpu()


def _read_samples(
    model: "OrbitPosterior", network: PoseNetwork, x: Tensor, u: Tensor, seed: int
) -> list[Tensor]:
    """Marginals of several coordinates, counted from samples of the moves."""
    moves, weight = sample_moves(model, network, x, model.config.reading.samples, seed, u)
    found = []
    for j, coordinate in enumerate(model.chart.coordinates):
        cells = coordinate.size if coordinate.kind == "finite" else CELLS
        found.append(_counted(coordinate, moves[..., j], weight, cells).cpu())
        if coordinate.kind == "finite" and model.chart.planar is not None:
            # Mirrored poses are turned the other way: other coordinates are of those that are not.
            weight = weight * (moves[..., j] == 0) + 1e-9
            weight = weight / weight.sum(-1, keepdim=True)
    return found


@torch.no_grad()
def sample_coordinates(
    model: "OrbitPosterior",
    network: PoseNetwork,
    x: Tensor,
    count: int,
    seed: int,
    u: Tensor | None = None,
    places: Tensor | None = None,
) -> Tensor:
    """Coordinates (N, count, D) of r drawn from q(. | T_u x), from several views of each picture.

    No move u by default. Random numbers belong to the pictures, or to their ``places`` (N,).
    """
    views = min(model.config.views.readings, count)
    at = model.chart.identity(len(x), x.device) if u is None else u
    parts = []
    for index in range(views):
        own = mix(seed, index)
        numbers = picture_numbers(own, x) if places is None else place_numbers(own, places)
        context = network.read(model.view(x, at, numbers)[1:])
        share = count // views + (index < count % views)
        parts.append(network.head.sample(context, share, numbers))
    found = torch.cat(parts, 1)
    return model.view.moves(found, x, u) if isinstance(model.view, PoseView) else found


@torch.no_grad()
def sample_poses(
    model: "OrbitPosterior",
    network: PoseNetwork,
    x: Tensor,
    count: int,
    seed: int,
    places: Tensor,
) -> Tensor:
    """Coordinates (N, count, D) of r drawn from q / pi with respect to Haar measure.

    Where coordinates are not uniform in that measure they are drawn by their weights among more.
    Random numbers belong to the places (N,) of the pictures.
    """
    if not model.weighted:
        return sample_coordinates(model, network, x, count, seed, places=places)
    many = sample_coordinates(model, network, x, MORE * count, seed, places=places)
    chance = place_numbers(mix(seed, 41), places).rand(len(x), many.shape[1]).clamp_min(1e-9)
    # The largest of log w - log(-log u) are draws by the weights w, without repetition (Gumbel).
    scores = model.chart.log_haar(many) - (-chance.log()).log()
    place = scores.topk(count, -1).indices
    return many.gather(1, place[..., None].expand(-1, -1, many.shape[-1]))


@torch.no_grad()
def sample_moves(
    model: "OrbitPosterior",
    network: PoseNetwork,
    x: Tensor,
    count: int,
    seed: int,
    u: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Moves r^-1 (N, S, D) of T_u x, and their weights (N, S), which stand for the Haar measure."""
    r = sample_coordinates(model, network, x, count, seed, u)
    weights = model.chart.log_haar(r) if model.weighted else torch.zeros_like(r[..., 0])
    weight = F.softmax(weights, -1)
    return model.chart.moves(r, moved_centre(x, model, u)), weight


def content_centre(x: Tensor, model: "OrbitPosterior") -> Tensor | None:
    """Centre of mass (N, 2) of what differs from the background; None where there is none."""
    if not model.frame.plain or not {"shift_x", "shift_y"} & set(model.chart.names):
        return None
    return moments(model.frame.content(x))[0]


def moved_centre(x: Tensor, model: "OrbitPosterior", u: Tensor | None) -> Tensor | None:
    """Centre of mass (N, 2) of T_u x; see :func:`content_centre`."""
    centre = content_centre(x, model)
    if centre is None or u is None:
        return centre
    matrix = model.chart.matrix(u).to(centre.dtype)
    return (matrix[:, :2, :2] @ centre[..., None])[..., 0] + matrix[:, :2, 2]


def drawn_lines(model: "OrbitPosterior") -> tuple[str, ...]:
    """Names of the lines along which moves are drawn: poses along the others are computed."""
    computed = {} if model.poses is None else model.poses.reach
    lines = (c.name for c in model.chart.coordinates if c.kind == "line")
    return tuple(name for name in lines if name not in computed)


def outer_mass(model: "OrbitPosterior", network: PoseNetwork, images: Tensor) -> dict[str, float]:
    """How much of q(r | x) lies in the outer 5 % of the reach of each line that is drawn."""
    names = drawn_lines(model)
    if not names:
        return {}
    x = images.to(model.device)
    u = torch.cat([sample_coordinates(model, network, part, 128, 0) for part in x.split(CHUNK)])
    found = {}
    for j, c in enumerate(model.chart.coordinates):
        if c.name in names:
            outside = (u[..., j].abs() > 0.95 * c.reach).float().mean(-1)
            found[c.name] = float(outside.mean())
    return found


def far_moves(model: "OrbitPosterior", network: PoseNetwork, images: Tensor) -> dict[str, float]:
    """How far moves along computed lines go, but for few: the range in which they are shown."""
    x = images.to(model.device)
    parts = [sample_moves(model, network, part, 128, 0)[0].abs() for part in x.split(CHUNK)]
    moves = torch.cat(parts).flatten(0, 1)[:MANY].cpu()
    found, drawn = {}, drawn_lines(model)
    for j, c in enumerate(model.chart.coordinates):
        if c.kind == "line" and c.name not in drawn:
            found[c.name] = max(SHOWN * float(moves[:, j].quantile(0.995)), LEAST_SHOWN)
    return found


def _counted(coordinate: Coordinate, values: Tensor, weight: Tensor, cells: int) -> Tensor:
    """Weighted histogram (N, cells) of values (N, S), shared between neighbouring cells."""
    mass = torch.zeros(len(values), cells, device=values.device)
    if coordinate.kind == "finite":
        return mass.scatter_add_(1, values.long(), weight)
    place = (values / coordinate.reach + 1) / 2 * cells - 0.5
    low = place.floor()
    share = place - low
    for index, part in ((low.long(), 1 - share), (low.long() + 1, share)):
        inside = index % cells if coordinate.kind == "circle" else index.clamp(0, cells - 1)
        mass.scatter_add_(1, inside, part * weight)
    return mass
