"""How an orbit posterior is fitted: several folds, each in rounds until its answer has settled."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import invalid
from symmetries.learners.orbit_posterior.calibrating import read_sets
from symmetries.learners.orbit_posterior.chart import widened
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.numbers import place_numbers
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.learners.orbit_posterior.reading import far_moves, outer_mass
from symmetries.learners.orbit_posterior.rounds import (
    LOOKED_AT,
    UNSETTLED,
    Run,
    device_of,
    fit_round,
    join,
    split_held_out,
)
from symmetries.learners.orbit_posterior.verdicts import told
from symmetries.training import History
from symmetries.training.side_by_side import side_by_side, sleep_while_waiting, torch_threads
from symmetries.training.source import fits_on_device
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

VIEWED = 512  # views that show the network what varies
READ = 512  # held-out pictures whose widths are looked at
OUTER = 0.01  # of q may lie in the outer 5 % of the reach
WIDER = 2.0
MOST_TRIES = 4
IN_SIGHT = 0.1  # of the strength of the pixel that is seen best
MANY_COORDINATES = 6


def shrunk(images: Tensor, largest: int) -> Tensor:
    """Pictures (N, C, H, W) whose longer side is at most ``largest`` pixels."""
    height, width = images.shape[-2:]
    if max(height, width) <= largest:
        return images
    size = [max(8, round(side * largest / max(height, width))) for side in (height, width)]
    return F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False)


def resident(images: Tensor, device: torch.device) -> Tensor:
    """Pictures on a GPU, if they fit there: folds are cut out where the fits need them."""
    cuda = device.type == "cuda" and fits_on_device((images,), device)
    return images.to(device) if cuda else images


def fold_of(count: int, folds: int, seed: int, first: Tensor | None = None) -> Tensor:
    """The fold (N,) of each picture: parts of equal size, drawn at random.

    Args:
        count: N.
        folds: how many.
        seed: of the draw.
        first: (N,) the first copy of each picture, whose fold it shares: a fit that has seen one
            copy knows the pose of all. None where that is not known.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, 11)))
    place = torch.empty(count, dtype=torch.int64)
    place[order] = torch.arange(count) % folds
    return place if first is None or len(first) != count else place[first]


def fit_folds(model: "OrbitPosterior", images: Tensor, run: Run) -> History:
    """Fit the network of each fold to the pictures outside of it, and one to fewer pictures.

    First rounds of the first fold find the reach of pi. What remains is independent, and is fitted
    side by side.

    Args:
        model: is changed.
        images: (N, C, H, W), shrunk.
        run: fields of :class:`symmetries.training.TrainConfig`.
    """
    _check_in_sight(model)
    folds = model.folds(len(images))
    together = _can_share_cores(model, run)
    if together and device_of(run).type == "cuda":
        sleep_while_waiting()
    images = resident(images, device_of(run)) if _processes(run) == 1 else images
    with torch_threads(model.threads if together else torch.get_num_threads()):
        first, history = _find_reach(model, images, folds, run)
        others = {**run, "progress": False} if together else run  # one bar at a time
        fits = [first]
        for fold in range(1, model.fold_count):
            own = images[folds != fold]
            fits.append(Fit(model, model.fits[fold], fold, own, others, f"fold{fold}"))
        rest = (folds != 0).nonzero()[:, 0]
        rest = rest[model.first[rest].argsort(stable=True)]  # copies side by side
        fewer = images[rest[: round(model.smaller_share * len(rest))].to(images.device)]
        fits.append(Fit(model, model.smaller_fit, model.fold_count, fewer, others, "fewer"))
        if together:
            finish = [fit.finish for fit in fits]
            side_by_side(finish, threads=model.threads, device=device_of(run))
        for fit in fits:
            fit.finish()  # nothing is left to do where they were fitted side by side
            join(history, fit.history)
        for fit in fits[:-1]:
            model.gains[fit.fold], model.rises[fit.fold] = -fit.best, fit.rise
        model.drifts = _mean_drifts(model, [fit.drift for fit in fits[:-1]])
        unseen = some_of(images[folds == 0], LOOKED_AT)
        if isinstance(model.view, PoseView):
            model.set_reach(far_moves(model, model.fits[0], unseen))
        model.outer = outer_mass(model, model.fits[0], unseen)
    return history


def _check_in_sight(model: "OrbitPosterior") -> None:
    """Raise an error if moves leave nothing to see of pictures without a plain background."""
    if float(model.view.window.max()) < IN_SIGHT:
        height, width = model.view.shape[1:]
        got = f"{height} x {width} pixels without a plain background"
        remedy = "give larger pictures, or ask for fewer parameters"
        raise invalid("images", "something that stays in sight under all moves", got, remedy)


def _mean_drifts(model: "OrbitPosterior", drifts: list[tuple[float, ...]]) -> dict[str, float]:
    """What the last round changed of the width of each coordinate, over the fits that say so."""
    known = [drift for drift in drifts if drift]
    means = [sum(column) / len(known) for column in zip(*known, strict=True)]
    return dict(zip(model.chart.names, means, strict=False))


def _can_share_cores(model: "OrbitPosterior", run: Run) -> bool:
    """Whether fits will run side by side: on a CPU or a GPU, in one process."""
    return _processes(run) == 1 and device_of(run).type in ("cpu", "cuda") and model.shares_cores


def _processes(run: Run) -> int:
    count: int = run.get("devices", 1) * run.get("nodes", 1)
    return count


def _find_reach(
    model: "OrbitPosterior", images: Tensor, folds: Tensor, run: Run
) -> tuple["Fit", History]:
    """The first fit after its first round, with a pi that reaches as far as the data need.

    Where pi turns out to be too narrow for unseen pictures, the model is built again with a wider
    one. The history has the rounds that were in vain. The range of computed poses is known.
    """
    history = History()
    rest, unseen = images[folds != 0], some_of(images[folds == 0], LOOKED_AT)
    for attempt in range(MOST_TRIES):
        fit = Fit(model, model.fits[0], 0, rest, run, f"fold0-try{attempt}")
        fit.round()
        if attempt < MOST_TRIES - 1 and _wider(model, unseen):
            if not fit.settled:
                fit.round()  # a network that has learned little takes far moves for likely
            wider = _wider(model, unseen)
            if wider:
                model.rebuild(model.chart.wider(wider))
                join(history, fit.history)
                continue
        break
    return fit, history


@dataclass
class Fit:
    """A network and its training in rounds, until the answer has settled.

    The answer is the width of each coordinate, read from held-out pictures as it will be read from
    unseen ones. It has settled when a round that was as long as all before it changed neither the
    widths nor the held-out likelihood by much.

    Args:
        model: for its view, chart and settings.
        network: is changed.
        fold: number of the fit, by which its random numbers differ from those of others.
        images: (N, C, H, W) to learn from and to stop by.
        run: fields of :class:`symmetries.training.TrainConfig`.
        name: of the folders of its rounds.
        bests: held-out loss of each part of the network; none before the first round.
        rise: what the last round brought, without parts that had been best long before its end.
        widths: of the held-out pictures after the last round, by coordinate.
        drift: logarithm of what the last round changed them by; none where it overfits.
        rounds: how many there were.
        settled: whether no other round is needed.
        history: of all rounds.
    """

    model: "OrbitPosterior"
    network: PoseNetwork
    fold: int
    images: Tensor
    run: Run
    name: str
    bests: dict[str, float] = field(default_factory=dict)
    rise: float = 0.0
    widths: tuple[float, ...] = ()
    drift: tuple[float, ...] = ()
    rounds: int = 0
    settled: bool = False
    history: History = field(default_factory=History)

    @cached_property
    def split(self) -> tuple[Tensor, Tensor]:
        """Pictures to learn from, and pictures to stop by: the same in every round."""
        config, seed = self.model.config, mix(self.model.seed, 12, self.fold)
        return split_held_out(self.images, config.held_out, seed)

    @property
    def best(self) -> float:
        """Held-out loss: minus the nats gained over the uniform law."""
        return sum(self.bests.values())

    def round(self) -> None:
        """Train once more."""
        model, number = self.model, self.rounds
        recipe = model.config.training
        if number == 0:
            self.look_at_views()
        longer = replace(recipe, steps=recipe.steps * 2 ** max(0, number - 1))
        before = self.bests or dict.fromkeys(self.network.parts, 0.0)  # that of the uniform law
        part, losses, early = fit_round(
            model,
            self.network,
            *self.split,
            longer,
            self.run,
            f"{self.name}-round{number}",
            mix(model.seed, self.fold, number),
            before,
        )
        join(self.history, part)
        overfits = early == set(losses)
        self.rise = sum(max(0.0, before[p] - losses[p]) for p in losses if p not in early)
        self.rounds += 1
        self.bests = {p: min(before[p], losses[p]) for p in losses}
        earlier, self.widths = self.widths, ()
        if not overfits and self.most_rounds > 1:
            self.widths = held_out_widths(model, self.network, self.split[1])
        pairs = zip(earlier, self.widths, strict=False)  # there are none before the second round
        self.drift = tuple(math.log(now / old) for old, now in pairs)
        change = max(map(abs, self.drift), default=math.inf)
        steady = self.rise < recipe.settled and change < recipe.steady
        self.settled = overfits or steady or self.rounds >= self.most_rounds

    @torch.no_grad()
    def look_at_views(self) -> None:
        """Show the network what its views and poses are like, before it learns from them."""
        model, device = self.model, device_of(self.run)
        rows = torch.arange(VIEWED)
        x = self.split[0][rows % len(self.split[0])].to(device)
        numbers = place_numbers(mix(model.seed, 14, self.fold), rows.to(device))
        u = model.chart.draw(numbers.rand(VIEWED, len(model.chart.coordinates)))
        asked, *shown = model.view.to(device)(x, u, numbers)
        self.network.to(device).learn_whitening(shown)
        if isinstance(model.view, PoseView):
            self.network.head.begin_at(asked)

    @property
    def most_rounds(self) -> int:
        """One more from six coordinates on, or if the last of several brought much."""
        most = self.model.config.training.rounds
        many = len(self.model.chart.coordinates) >= MANY_COORDINATES
        return most + int(many or (most > 1 and self.rise > UNSETTLED))

    def finish(self) -> None:
        """Train until it has settled."""
        while not self.settled:
            self.round()


def held_out_widths(
    model: "OrbitPosterior", network: PoseNetwork, held: Tensor
) -> tuple[float, ...]:
    """Calibrated width of each coordinate, of the pictures whose pose the network tells best."""
    densities, sets = read_sets(model, network.to(model.device), held[:READ], model.seed)
    found = []
    for density, own in zip(densities, sets, strict=True):
        chosen = told(density.widths(), model.config.reading, density.cell)
        least = 0.0 if density.coordinate.kind == "finite" else density.cell
        found.append(own[chosen].width() + least)
    return tuple(found)


def _wider(model: "OrbitPosterior", images: Tensor) -> dict[str, float]:
    """A larger reach, by name, of coordinates whose moves have to go further; none if all is well.

    Where pictures have no background moves may not go so far that little is left in sight.
    """
    wider = {}
    outer = outer_mass(model, model.fits[0], images)
    for coordinate in model.chart.coordinates:
        if outer.get(coordinate.name, 0.0) > OUTER:
            reach = widened(coordinate, WIDER)
            if reach > coordinate.reach * 1.01:
                wider[coordinate.name] = reach
    return {} if model.would_be_too_small(model.chart.wider(wider)) else wider
