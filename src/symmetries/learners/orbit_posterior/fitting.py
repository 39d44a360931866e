"""How an orbit posterior is fitted: several folds, each in rounds until its answer has settled."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.groups.names import group_name
from symmetries.learners.orbit_posterior.chart import widened
from symmetries.learners.orbit_posterior.config import Training
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.reading import outer_mass
from symmetries.training import History, train
from symmetries.training.best import BestWeights
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

LEAST_HELD_OUT = 16
MOST_HELD_OUT = 2048
LOOKED_AT = 1024  # held-out views at each look
LOOKS = 10  # over a round
OUTER = 0.01  # of q may lie in the outer 5 % of the reach
WIDER = 1.6
FEWEST_STEPS = 600  # of a round; few pictures are overfitted by more
OVERFITS = 0.7  # of a round: what is best before is followed by no other round
MOST_TRIES = 4
Run = Mapping[str, Any]  # fields of TrainConfig


def shrunk(images: Tensor, largest: int) -> Tensor:
    """Pictures (N, C, H, W) whose longer side is at most ``largest`` pixels."""
    height, width = images.shape[-2:]
    if max(height, width) <= largest:
        return images
    size = [max(8, round(side * largest / max(height, width))) for side in (height, width)]
    return F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False)


def fold_of(count: int, folds: int, seed: int) -> Tensor:
    """The fold (N,) of each picture: parts of equal size, drawn at random."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, 11)))
    place = torch.empty(count, dtype=torch.int64)
    place[order] = torch.arange(count) % folds
    return place


def fit_folds(model: "OrbitPosterior", images: Tensor, run: Run) -> History:
    """Fit the network of each fold to the pictures outside of it; widens pi where it must.

    Args:
        model: is changed.
        images: (N, C, H, W), shrunk.
        run: fields of :class:`symmetries.training.TrainConfig`.
    """
    history = History()
    folds = model.folds(len(images))
    for attempt in range(MOST_TRIES):
        part = _fit_fold(model, model.fits[0], 0, images[folds != 0], run, f"fold0-try{attempt}")
        join(history, part)
        last = attempt == MOST_TRIES - 1
        if not _widen(model, images[folds == 0][:LOOKED_AT], last):
            break
    for fold in range(1, model.fold_count):
        rest = images[folds != fold]
        join(history, _fit_fold(model, model.fits[fold], fold, rest, run, f"fold{fold}"))
    half = images[folds != 0][::2]
    join(history, _fit_fold(model, model.half_fit, model.fold_count, half, run, "half"))
    return history


def _fit_fold(
    model: "OrbitPosterior",
    network: PoseNetwork,
    fold: int,
    images: Tensor,
    run: Run,
    name: str,
) -> History:
    """Train in rounds until one improves the held-out likelihood by little."""
    kept, held = split_held_out(images, model.config.held_out, mix(model.seed, 12, fold))
    history = History()
    recipe = model.config.training
    before = 0.0  # of the uniform law, which a new network has
    rise = 0.0  # what the last round brought, unless held-out pictures had been best long before
    for number in range(recipe.rounds):
        seed = mix(model.seed, fold, number)
        part, loss, overfits = fit_round(
            model, network, kept, held, recipe, run, f"{name}-round{number}", seed, before
        )
        join(history, part)
        rise = 0.0 if overfits else max(0.0, before - loss)
        settled = overfits or (number > 0 and rise < recipe.settled)
        before = min(before, loss)
        if settled:
            break
    if fold < model.fold_count:
        model.gains[fold], model.rises[fold] = -before, rise
    return history


def fit_round(
    model: "OrbitPosterior",
    network: PoseNetwork,
    kept: Tensor,
    held: Tensor,
    recipe: Training,
    run: Run,
    name: str,
    seed: int,
    best: float = math.inf,
) -> tuple[History, float, bool]:
    """One training of a network, which ends with the weights that explain held-out pictures best.

    Args:
        model: for its view and chart.
        network: is changed.
        kept: pictures to learn from.
        held: pictures to stop by.
        recipe: steps and rates.
        run: fields of :class:`symmetries.training.TrainConfig`.
        name: of the run's folder within ``out``.
        seed: of its random numbers.
        best: held-out loss of the weights that it starts from.

    Returns:
        What was logged; the best held-out loss: minus the nats gained over the uniform law; and
        whether held-out pictures were explained best long before the end.
    """
    steps = min(recipe.steps, FEWEST_STEPS + len(kept))
    batch = min(recipe.batch_size, max(16, len(kept) // 2))
    recipe = replace(recipe, steps=steps, batch_size=batch)
    out = None if run.get("out") is None else Path(run["out"]) / name
    known = {"group": group_name(model.chart.group), "reach": str(model.chart.reach)}
    known |= {name: getattr(model.action, name) for name in ("fill", "padding", "interpolation")}
    settings = plain_settings(model.config.replace(check=True), **known)
    own = {**run, "out": out, "title": name, "settings": settings, "seed": seed}
    config = recipe.train_config(**own, given_seed=model.seed)

    def loss(net: Any, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        x = batch[0]
        view = model.view.to(x.device)
        u = model.chart.draw(step.rand(len(x), len(model.chart.coordinates)))
        return {"loss": -net(view(x, u, step), u).mean()}

    start = {name: value.detach().clone() for name, value in network.state_dict().items()}
    times = max(1, LOOKED_AT // len(held))
    seen = held.repeat(times, 1, 1, 1)[:LOOKED_AT]
    watch = BestWeights(network, seen, loss, config, looks=LOOKS)
    history = train(network, loss, (kept,), config, on_step=watch)
    watch.restore()
    if watch.best > best:
        network.load_state_dict(start)
    network.float().eval()  # densities are read in single precision, whatever the training's was
    return history, watch.best, watch.when < OVERFITS * config.steps


def split_held_out(images: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures to learn from, and pictures to stop by."""
    count = min(max(round(share * len(images)), LEAST_HELD_OUT), MOST_HELD_OUT, len(images) // 2)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images[order[count:]], images[order[:count]]


def join(history: History, part: History) -> None:
    """Append a round to the history of a whole fit."""
    first = history.step[-1] if history.step else 0
    for look, step in enumerate(part.step):
        numbers = {name: values[look] for name, values in part.metrics.items()}
        history.append(first + step, numbers, history.seconds + part.times[look])
    history.seconds += part.seconds
    history.steps_per_second = part.steps_per_second


def _widen(model: "OrbitPosterior", images: Tensor, last: bool) -> bool:
    """Whether pi had to reach further: then the model is built again with the new reach.

    After the ``last`` attempt it stays as it is, and what lies at the ends is remembered.
    """
    wider = {}
    outer = model.outer = outer_mass(model, model.fits[0], images)
    for coordinate in model.chart.coordinates:
        if coordinate.kind == "line" and outer[coordinate.name] > OUTER:
            reach = widened(coordinate, WIDER)
            if reach > coordinate.reach * 1.01:
                wider[coordinate.name] = reach
    if last or not wider:
        return False
    rebuilt = model.chart.wider(wider)
    if model.would_be_too_small(rebuilt):
        return False
    model.rebuild(rebuilt)
    return True
