"""Training one method for all seeds at once, and choosing the best moment of each run."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from networks import Perceptrons
from torch import Tensor, nn
from torch.nn import functional as F

from symmetries.auditing.elements import make_moves
from symmetries.auditing.saliency import mean_similarity, saliency_map
from symmetries.groups import FiniteGroup
from symmetries.learners.penalties import ConstrainedWeight, Penalty, orbit_penalty
from symmetries.training.config import TrainConfig
from symmetries.training.loop import train
from symmetries.training.step import Step

AVERAGE_EVERY = 5  # steps
AVERAGE_SHARE = 0.02  # of the newest weights: a mean over some 250 steps


@dataclass(frozen=True)
class Method:
    """How a network is trained.

    Args:
        start: of the weights; see ``networks.perceptron``.
        penalty: on the invariance error, or None for augmentation alone.
        target: similarity of saliency maps that the weight of the penalty is steered to.
        floor: least similarity (on the validation set) of a moment that may be chosen.
        nu: weight of the penalty at first.
        bounds: of the weight.
        steer: how fast the weight is steered.
        rate: of Adam.
        centred: whether the logits of an image sum to 0 (networks.Centre).
        averaged: whether a running mean of the weights is looked at, not the weights themselves.
    """

    start: str = "random"
    penalty: Penalty | None = None
    target: float = 0.98
    floor: float = 0.97
    nu: float = 1.0
    bounds: tuple[float, float] = (0.1, 1e4)
    steer: float = 0.2
    rate: float = 8e-4
    centred: bool = False
    averaged: bool = True

    @property
    def steered(self) -> bool:
        """Whether the weight of the penalty changes during training."""
        return self.penalty is not None and self.bounds[0] < self.bounds[1]


# Normalised LI and DI need a far larger weight than LI to reach the same similarity.
FAR: dict[str, Any] = {"target": 0.96, "floor": 0.95, "bounds": (0.01, 1e8)}
METHODS = {
    "WT": Method(start="tied", rate=2.4e-3),
    "DA": Method(rate=2.4e-3),
    "IR": Method(start="orbits", penalty="li"),
    "IR-free": Method(start="orbits", penalty="li", bounds=(1e-6, 1e4)),
    # As in the paper, from random weights; the three penalties of its section 4.4.
    "IR-random": Method(penalty="li", target=0.96, floor=0.95, nu=10.0),
    # A constant has no normalised error: a large weight too early makes the network one.
    "NLI-random": Method(penalty="nli", nu=0.1, steer=0.5, **FAR),
    # Nor has a large constant in all logits, which no prediction shows: here there is none.
    "NLI-centred": Method(penalty="nli", nu=0.1, steer=0.5, centred=True, **FAR),
    "DI-random": Method(penalty="di", nu=100.0, **FAR),
    # As the paper has them: its rate, no running mean, the moment of best validation accuracy.
    "WT-plain": Method(start="tied", averaged=False),
    "DA-plain": Method(averaged=False),
}
WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # of the penalty, fixed
METHODS |= {
    f"IR-nu-{nu:g}": Method(penalty="li", nu=nu, bounds=(nu, nu), floor=-1.0, averaged=False)
    for nu in WEIGHTS
}


@dataclass(frozen=True)
class Task:
    """Data of one group: standardised images (N, C, H, W) and labels, on the device."""

    group: FiniteGroup
    table: Tensor
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    other: Tensor  # the set that the test images drift to, paired by label
    classes: int


@dataclass(frozen=True)
class Fit:
    """Trained networks, and how training went."""

    models: list[nn.Sequential]
    validation: list[float]
    similarity: list[float]
    nu: list[float]
    chosen: list[int]
    seconds: float


def fit(task: Task, method: Method, seeds: Sequence[int], **options: Any) -> Fit:  # noqa: ANN401
    """Train a network for each seed with one method; the options of :func:`fit_together`."""
    return fit_together(task, [method], seeds, **options)[0]


def fit_together(
    task: Task,
    methods: Sequence[Method],
    seeds: Sequence[int],
    *,
    steps: int,
    batch_size: int,
    check_every: int,
    progress: bool = True,
) -> list[Fit]:
    """Train a network for each method and seed, keep each run's of best validation accuracy.

    What is looked at, chosen and returned are running means of the weights, if the methods want
    them. With a penalty only moments count whose maps are similar enough; if none is, the most
    similar. Several methods train side by side if all have a penalty, one rate, and all or none of
    them a running mean.
    """
    if len({(method.averaged, method.rate) for method in methods}) > 1:
        raise ValueError("methods with and without a running mean, or of two rates, train apart")
    x, y = task.train
    device = x.device
    every = [method for method in methods for _ in seeds]
    runs = len(every)
    model = Perceptrons(
        [*seeds] * len(methods),
        x[0].numel(),
        task.classes,
        [method.start for method in every],
        task.table,
        [method.centred for method in every],
    )
    orbits = x.flatten(1)[:, task.table]  # (N, |G|, D)
    order = [torch.randperm(len(x), generator=torch.Generator().manual_seed(s)) for s in seeds]
    order = torch.stack(order * len(methods)).to(device)
    weights = nn.ModuleList(_weight(method) for method in every).to(device)
    kinds = [method.penalty for method in every if method.penalty is not None]

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        places = order[:, batch[0]]  # every run has its own order of the images
        labels = y[places]
        if not kinds:
            turn = torch.randint(
                len(task.table), places.shape, generator=step.generator, device=device
            )
            logits = model(orbits[places, turn])
            return {"loss": runs * F.cross_entropy(logits.flatten(0, 1), labels.flatten())}
        points = orbits[places]  # (R, B, |G|, D)
        logits = model(points.flatten(1, 2)).unflatten(1, points.shape[1:3])
        repeated = labels[..., None].expand(logits.shape[:3])
        task_loss = F.cross_entropy(logits.flatten(0, 2), repeated.flatten())
        pairs = zip(logits, kinds, strict=True)
        errors = torch.stack([orbit_penalty(z, kind) for z, kind in pairs])
        nu = torch.stack([weight.nu for weight in weights])
        return {"loss": runs * task_loss + (nu * errors).sum(), "penalty": errors.mean().detach()}

    chooser = _Chooser(task, every, model, weights)

    def on_step(step: Step, _metrics: Any) -> None:  # noqa: ANN401 - of the training loop
        if (step.index + 1) % AVERAGE_EVERY == 0:
            chooser.average()
        if (step.index + 1) % check_every == 0 or step.index + 1 == steps:
            chooser.look(step.index + 1)

    config = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        lr=methods[0].rate,
        device=device.type,
        progress=progress,
        seed=seeds[0],
    ).replace(schedule="constant", log_every=check_every)
    history = train(model, loss, (torch.arange(len(x)),), config, on_step=on_step)
    share = history.seconds / len(methods)
    return [chooser.result(i * len(seeds), len(seeds), share) for i in range(len(methods))]


def _weight(method: Method) -> ConstrainedWeight:
    return ConstrainedWeight(
        method.target, "similarity", start=method.nu, rate=method.steer, bounds=method.bounds
    )


class _Chooser:
    """Looks at the validation set now and then, steers the penalty, keeps each run's best."""

    def __init__(
        self, task: Task, methods: list[Method], model: Perceptrons, weights: nn.ModuleList
    ) -> None:
        self.task, self.methods, self.weights = task, methods, weights
        self.newest, self.averages = model, 0
        self.model = copy.deepcopy(model).to(task.table.device)
        self.runs = len(model.models)
        self.score = [-float("inf")] * self.runs
        self.numbers = [(0.0, 0.0, 0.0, 0)] * self.runs
        self.best: list[nn.Sequential | None] = [None] * self.runs
        count = min(256, len(task.validation[0]))
        self.some = task.validation[0][:count], task.validation[1][:count]
        self.moves = make_moves(task.group, self.some[0])

    def average(self) -> None:
        self.averages += 1
        share = max(AVERAGE_SHARE, 2 / (self.averages + 1))  # the first steps soon forgotten
        self._towards_newest(share)

    def _towards_newest(self, share: float) -> None:
        with torch.no_grad():
            own, new = list(self.model.parameters()), list(self.newest.parameters())
            torch._foreach_lerp_(own, new, share)

    def look(self, step: int) -> None:
        if not self.methods[0].averaged:
            self._towards_newest(1.0)
        x, y = self.task.validation
        with torch.no_grad():
            logits = self.model(x.flatten(1).expand(self.runs, -1, -1))
        accuracy = (logits.argmax(2) == y).float().mean(1).tolist()
        singles = self.model.singles()
        for run, single in enumerate(singles):
            similarity = nu = 0.0
            score, method = accuracy[run], self.methods[run]
            if method.steered:
                similarity = self.similarity(single)
                weight = self.weights[run]
                nu = float(weight.nu)
                weight.update(similarity)
                score = score if similarity >= method.floor else similarity - 2
            if score > self.score[run]:
                if method.penalty is not None and not method.steered:
                    similarity, nu = self.similarity(single), method.nu
                self.score[run] = score
                self.numbers[run] = (accuracy[run], similarity, nu, step)
                self.best[run] = copy.deepcopy(single)

    def similarity(self, single: nn.Sequential) -> float:
        """SI on some validation images."""
        look = partial(saliency_map, steps=20)
        return float(mean_similarity(single, *self.some, self.moves, look).mean())

    def result(self, first: int, count: int, seconds: float) -> Fit:
        own = slice(first, first + count)
        models = [model for model in self.best[own] if model is not None]
        accuracy, similarity, nu, chosen = (list(c) for c in zip(*self.numbers[own], strict=True))
        return Fit(models, accuracy, similarity, nu, chosen, seconds)
