"""One training of a network that reads poses, which ends with the weights that are best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._validation.checks import as_device
from symmetries.groups.names import group_name
from symmetries.learners.orbit_posterior.config import Training
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.training import History, train
from symmetries.training.batches import Batch, Prepared
from symmetries.training.best import BestWeights
from symmetries.training.recipe import plain_settings
from symmetries.training.step import Step

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

LEAST_HELD_OUT = 16
MOST_HELD_OUT = 2048
LOOKED_AT = 1024  # held-out views at each look
LOOKS = 10  # over a round
FEWEST_STEPS = 600  # of a round; few pictures are overfitted by more
UNSETTLED = 0.1  # nats: what brings more is not the last round that is worth its time
OVERFITS = 0.7  # of a round: what is best before is followed by no other round
STEPS, VALUES = 8, 2**25  # whose views a GPU makes at once: they take as long as those of one
Run = Mapping[str, Any]  # fields of TrainConfig


def device_of(run: Run) -> torch.device:
    """Where a run will train."""
    name = run.get("device", "auto")
    if name != "auto":
        return as_device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def fit_round(
    model: "OrbitPosterior",
    network: PoseNetwork,
    kept: Tensor,
    held: Tensor,
    recipe: Training,
    run: Run,
    name: str,
    seed: int,
    best: Mapping[str, float] | None = None,
) -> tuple[History, dict[str, float], set[str]]:
    """One training of a network, which ends with the weights that explain held-out pictures best.

    Parts of the network that share no weights end with the best weights of each: shifts of few
    pictures are overfitted long before turns.

    Args:
        model: for its view and chart.
        network: is changed.
        kept: pictures to learn from.
        held: pictures to stop by.
        recipe: steps and rates.
        run: fields of :class:`symmetries.training.TrainConfig`.
        name: of the run's folder within ``out``.
        seed: of its random numbers.
        best: held-out loss of the weights that each part starts from.

    Returns:
        What was logged; the best held-out loss of each part: minus the nats gained over the uniform
        law; and the parts that explained held-out pictures best long before the end.
    """
    steps = min(recipe.steps, FEWEST_STEPS + len(kept))
    # Of few pictures half at a time, in a number that 2 to 16 processes share evenly.
    batch = min(recipe.batch_size, max(16, len(kept) // 2 // 16 * 16))
    recipe = replace(recipe, steps=steps, batch_size=batch)
    out = None if run.get("out") is None else Path(run["out"]) / name
    known = {"group": group_name(model.chart.group), "reach": str(model.chart.reach)}
    known |= {name: getattr(model.action, name) for name in ("fill", "padding", "interpolation")}
    settings = plain_settings(model.config.replace(check=True), **known)
    own = {**run, "out": out, "title": name, "settings": settings, "seed": seed}
    config = recipe.train_config(**own, given_seed=model.seed)

    def views(batch: Batch, numbers: Any) -> Batch:  # noqa: ANN401
        x = batch[0]
        u = model.chart.draw(numbers.rand(len(x), len(model.chart.coordinates)))
        found: Batch = model.view.to(x.device)(x, u, numbers)
        return found

    def loss(net: Any, batch: Batch, step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        asked, *shown = batch if len(batch) > 1 else views(batch, step)
        return {"loss": -net.log_ratio(asked, shown, step).mean()}

    start = {name: value.detach().clone() for name, value in network.state_dict().items()}
    times = max(1, LOOKED_AT // len(held))
    seen = held.repeat(times, 1, 1, 1)[:LOOKED_AT]
    watches = {}
    for part, (weights, wanted) in network.parts.items():
        folder = "best" if part == "all" else f"best-{part}"
        own_loss = partial(_held_out_loss, wanted)
        watches[part] = BestWeights(network, seen, own_loss, config, LOOKS, views, weights, folder)

    def look(step: Step, metrics: Mapping[str, Tensor]) -> None:
        for watch in watches.values():
            watch(step, metrics)

    data: Batch | Prepared = (kept,)
    if device_of(run).type == "cuda" and config.hardware.precision == "32-true":
        at_once = max(1, min(STEPS, VALUES // (batch * math.prod(model.view.shape))))
        data = Prepared((kept,), views, at_once)
    history = train(network, loss, data, config, on_step=look)
    for part, watch in watches.items():
        watch.restore()
        if best is not None and watch.best > best[part]:
            watch.load(start)
    network.float().eval()  # densities are read in single precision, whatever the training's was
    early = {part for part, watch in watches.items() if watch.when < OVERFITS * config.steps}
    return history, {part: watch.best for part, watch in watches.items()}, early


def _held_out_loss(
    wanted: Sequence[int],
    network: Any,  # noqa: ANN401 - a pose network, or what trains one
    batch: Batch,
    step: Step,
) -> dict[str, Tensor]:
    """The loss of some coordinates, of views that are made."""
    asked, *shown = batch
    return {"loss": -network.log_ratio(asked, shown, step, wanted).mean()}


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
