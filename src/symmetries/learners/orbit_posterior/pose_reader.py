"""The most likely poses of pictures, read from an orbit posterior in a fixed way.

The densities that widths are read from see random views of each picture. A model that is put to
work must answer the same every time and be written to a file, so that it reads plain views: no
jitter, no noise, the middle of every blur.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import ImageSet
from symmetries.learners.base import run_options
from symmetries.learners.orbit_posterior.blurring import blur
from symmetries.learners.orbit_posterior.chart import STRETCHES, Coordinate
from symmetries.learners.orbit_posterior.fitting import Fit, resident, shrunk
from symmetries.learners.orbit_posterior.model import OrbitPosterior
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.learners.orbit_posterior.rounds import device_of
from symmetries.learners.orbit_posterior.views import View

NEVER = -60.0  # a logarithm that takes a pose out of the choice
BESIDE = 2  # bins on either side of the best one over which its place is averaged


class Middle:
    """The middle of every random number, on the device of a picture."""

    def __init__(self, like: Tensor) -> None:
        self.like = like

    def rand(self, *shape: int) -> Tensor:
        """One half each."""
        return self.like.new_full(shape, 0.5)

    def randn(self, *shape: int) -> Tensor:
        """Zeros."""
        return self.like.new_zeros(shape)


class PlainView(View):
    """A view of pictures that are not stretched, whose sharpness is levelled without directions."""

    def _level(self, x: Tensor, sigma: Tensor, u: Tensor) -> Tensor:
        stretches = [self.chart.reach[name] for name in STRETCHES if name in self.chart.names]
        if stretches:
            own = self.config.before**2 + 1 / 12
            own += 1 / 6 if self.action.interpolation == "bilinear" else 0.0
            sigma = (sigma.square() + own * (math.exp(2 * max(stretches)) - 1)).sqrt()
        return blur(x, sigma)


def fit_whole(model: OrbitPosterior, images: Tensor | ImageSet, **training: Any) -> None:  # noqa: ANN401
    """Fit one network to all pictures, in one round: what reads poses needs no folds.

    Widths of the data are read by fits that have not seen them, in rounds until they settle. Here
    only the poses of other pictures are asked for, so that one training, as long as all rounds
    together, whose rate falls once, is better.

    Args:
        model: is changed; its reach is not widened.
        images: (N, C, H, W), or a set.
        training: as of :meth:`OrbitPosterior.fit`.
    """
    run = {"device": "auto", "precision": "32-true", **run_options(training)}
    recipe = model.config.training
    once = {"steps": recipe.steps * 2 ** (recipe.rounds - 1), "rounds": 1}
    model.config = model.config.replace(training=once)
    small = resident(model.prepared(images, folds=1), device_of(run))
    fit = Fit(model, model.fits[0], 0, small, run, "poses")
    fit.finish()
    model.gains, model.history, model.fitted = [-fit.best], fit.history, True
    model.to(device_of(run)).eval()


class PoseReader(nn.Module):
    r"""Coordinates u of the moves r that most likely made pictures y = T_r x from the data's poses.

    The coordinates are chosen one after the other, each at the mode of its density given those
    before it. Several poses differ in the first coordinate: each further one is the mode of what is
    left when the poses around those before it are taken out.

    Args:
        model: a fitted orbit posterior; its networks are copied.
        views: number of poses K of each picture.
        limits: by name, how far angles go at most, in radians; all around by default.
    """

    ground: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(
        self, model: OrbitPosterior, views: int = 1, limits: Mapping[str, float] | None = None
    ) -> None:
        super().__init__()
        self.chart, self.views = model.chart, views
        self.limits = dict(limits or {})
        config = model.view.config.replace(jitter=0.0, noise=0.0, grain=0.0)
        channels, height, width = model.shape
        rows, columns = (_shrinking(height, width, model.config.network.largest, k) for k in (0, 1))
        shape = (channels, len(rows), len(columns))
        levels = model.levels
        how = (model.action, model.chart, shape, model.frame, config)
        self.view: View | PoseView
        if model.poses is None:
            self.view, self.asked = PlainView(*how, *levels), self.chart.coordinates
        else:
            self.view = PoseView(*how, levels[1], model.poses)
            self.asked = self.view.coordinates
        self.fits = copy.deepcopy(model.fits).requires_grad_(False).eval()  # type: ignore[attr-defined]
        first = self.asked[0]
        self.whole = len(self.asked) == 1 and first.kind != "line"
        self.readings = min(model.config.views.readings, first.size) if self.whole else 1
        self.register_buffer("ground", torch.tensor(model.ground)[:, None, None])
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.to(model.device)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Coordinates (N, K, D), their weights (N, K), and a log-ratio (N,).

        The log-ratio is log q at the most likely pose minus log q of no move: how much more the
        data look like the picture in that pose than like the picture as it is.
        """
        x = self.rows @ images @ self.columns.T - self.ground
        log_q, contexts, unmoved = self._first(x)
        first = self.asked[0]
        left = log_q + self._mask(first, log_q)
        found, weights = [], []
        for k in range(self.views):
            u, best, mass, left = self._mode(first, log_q, left)
            coordinates, level = [u], best
            for j in range(1, len(self.asked)):
                given = torch.stack(coordinates, -1)
                density = self._next(j, given, contexts)
                masked = density + self._mask(self.asked[j], density)
                u, best, _, _ = self._mode(self.asked[j], density, masked)
                coordinates.append(u)
                level = level + best
            found.append(torch.stack(coordinates, -1))
            weights.append(mass)
            if k == 0:
                ratio = level - self._unmoved(unmoved, log_q, contexts)
        weight, poses = torch.stack(weights, -1), torch.stack(found, 1)
        if isinstance(self.view, PoseView):
            poses = self.view.moves(poses, x)
        return poses, weight / weight.sum(-1, keepdim=True), ratio

    def _first(self, x: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """Log-density (N, size) of the first coordinate, features of the plain view, and no move.

        Where the law of moves is uniform on the whole group, moved views are read too, and what is
        found is moved back: q(r | T_a x) = q(a^-1 r | x).
        """
        coordinate, finite = self.asked[0], self.chart.finite
        n, size, readings = x.shape[0], coordinate.size, self.readings
        steps = [index * size // readings for index in range(readings)]
        amounts = torch.tensor([self._amount(step) for step in steps], device=x.device)
        dimensions = len(self.asked)
        u = amounts[:, None, None].expand(readings, n, dimensions).reshape(-1, dimensions)
        many = x[None].expand(readings, *x.shape).flatten(0, 1)
        asked, *shown = self.view(many, u, Middle(many))
        total, contexts = x.new_zeros(n, size), []
        for fit in self.fits:
            context = fit.read(shown)
            contexts.append(context[:n])
            log_p = F.log_softmax(fit.head.logits(0, u[:, :0], context).float(), -1)
            for step, part in zip(steps, log_p.unflatten(0, (readings, n)).unbind(0), strict=True):
                if finite is not None:
                    every = finite.elements(x.device)
                    part = part[:, finite.product(torch.full_like(every, step), every)]
                total = total + (part.roll(-step, -1) if finite is None else part)
        return F.log_softmax(total / (readings * len(self.fits)), -1), contexts, asked[:n]

    def _amount(self, step: int) -> float:
        """The first coordinate of a move by so many bins, or the number of an element."""
        coordinate = self.asked[0]
        if coordinate.kind == "finite" or step == 0:
            return float(step)
        angle = step * coordinate.span / coordinate.size
        return (angle + coordinate.reach) % coordinate.span - coordinate.reach

    def _next(self, j: int, given: Tensor, contexts: list[Tensor]) -> Tensor:
        """Log-density (N, size) of coordinate j given those before it."""
        pairs = zip(self.fits, contexts, strict=True)
        parts = [F.log_softmax(fit.head.logits(j, given, c).float(), -1) for fit, c in pairs]
        return F.log_softmax(torch.stack(parts).mean(0), -1)

    def _unmoved(self, u: Tensor, log_q: Tensor, contexts: list[Tensor]) -> Tensor:
        """Log q (N,) of no move: of what the view of a picture as it is asks for, u (N, D)."""
        total = _at(self.asked[0], u[:, 0], _smooth(self.asked[0], log_q))
        for j in range(1, len(self.asked)):
            density = self._next(j, u[:, :j], contexts)
            total = total + _at(self.asked[j], u[:, j], _smooth(self.asked[j], density))
        return total

    def _mask(self, coordinate: Coordinate, like: Tensor) -> Tensor:
        """Zero for bins (size,) within the limits, and very little for others."""
        limit = self.limits.get(coordinate.name, math.inf)
        if coordinate.kind == "finite" or limit >= coordinate.reach:
            return like.new_zeros(coordinate.size)
        cell = coordinate.span / coordinate.size
        middle = (torch.arange(coordinate.size, device=like.device) + 0.5) * cell - coordinate.reach
        return torch.where(middle.abs() <= limit + cell, 0.0, NEVER)

    def _mode(
        self, coordinate: Coordinate, log_q: Tensor, left: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Value (N,) and log-density at the mode of ``left``, the mass around it, and what is left.

        Args:
            coordinate: which one.
            log_q: (N, size) its log-density.
            left: the same without what is not to be chosen.
        """
        size, place = coordinate.size, torch.arange(coordinate.size, device=log_q.device)
        smooth = _smooth(coordinate, log_q)
        best = _smooth(coordinate, left).argmax(-1, keepdim=True)
        apart = (place - best).abs()
        finite = coordinate.kind == "finite"
        if coordinate.kind == "circle":
            apart = torch.minimum(apart, size - apart)
        reach = 0 if finite else size // (2 * self.views)
        around = apart <= reach
        mass = torch.where(around, left.exp(), 0.0).sum(-1)
        rest = torch.where(around, left + NEVER, left)
        level = smooth.gather(1, best)[:, 0]
        if finite:
            return best[:, 0].to(log_q.dtype), level, mass, rest
        offset = torch.arange(-BESIDE, BESIDE + 1, device=log_q.device)
        beside = best + offset
        inside = torch.ones_like(beside, dtype=torch.bool)
        if coordinate.kind == "line":
            inside = (beside >= 0) & (beside < size)
        share = log_q.exp().gather(1, beside % size) * inside
        middle = best[:, 0] + (share * offset).sum(-1) / share.sum(-1).clamp_min(1e-12) + 0.5
        value = middle * (coordinate.span / size) - coordinate.reach
        if coordinate.kind == "circle":
            value = torch.remainder(value + coordinate.reach, coordinate.span) - coordinate.reach
        return value, level, mass, rest


def _smooth(coordinate: Coordinate, log_q: Tensor) -> Tensor:
    """Log-density (N, size) averaged over neighbouring bins with weights 1, 2, 1."""
    if coordinate.kind == "finite":
        return log_q
    q = log_q.exp()
    if coordinate.kind == "circle":
        before, after = q.roll(1, -1), q.roll(-1, -1)
    else:
        before = torch.cat((q[:, :1], q[:, :-1]), -1)
        after = torch.cat((q[:, 1:], q[:, -1:]), -1)
    return ((before + 2 * q + after) / 4).clamp_min(math.exp(2 * NEVER / 3)).log()


def _at(coordinate: Coordinate, value: Tensor, log_q: Tensor) -> Tensor:
    """Log-density (N,) at values (N,): the mean of the nearest bins."""
    if coordinate.kind == "finite":
        return log_q.gather(1, value.long()[:, None])[:, 0]
    place = (value / coordinate.reach + 1) / 2 * coordinate.size - 0.5
    both = torch.stack((place.floor(), place.ceil()), -1).long()
    circle = coordinate.kind == "circle"
    both = both % coordinate.size if circle else both.clamp(0, coordinate.size - 1)
    near = log_q.gather(1, both)
    return torch.logaddexp(near[:, 0], near[:, 1]) - math.log(2)


def _shrinking(height: int, width: int, largest: int, axis: int) -> Tensor:
    """The matrix (small, large) by which :func:`shrunk` shrinks one axis of a picture."""
    large = (height, width)[axis]
    # The longer side decides; the other axis is constant in these pictures.
    unit = torch.eye(large)[:, None]
    shape = (large, 1, height, width)
    pictures = unit[..., None].expand(shape) if axis == 0 else unit[..., None, :].expand(shape)
    small = shrunk(pictures.contiguous(), largest)
    return (small[:, 0, :, 0] if axis == 0 else small[:, 0, 0, :]).T.contiguous()
