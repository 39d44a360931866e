"""Trials of moves with small networks: each alone, together, and once more on other folds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.analysis.augmentation_laws import Law
from symmetries.analysis.quick_networks import Size, held_out_scores
from symmetries.auditing.estimate import estimate
from symmetries.data import ImageSet
from symmetries.results import Conflict, Estimate, TriedMove
from symmetries.training.step import mix

REPEATS = 2  # of all folds, each with its own cuts and networks
HELPS = 0.5  # standard errors that a gain must have


@dataclass(frozen=True)
class Task:
    """Labelled pictures and everything that trainings on them share.

    Args:
        images: as they were read.
        pixels: (N, C, H, W) small enough, on the device.
        labels: (N,).
        names: of the classes.
        fill: value around moved pictures; None reflects them.
        conflicts: what labels forbid.
        limits: for each class, how far each kind of move may go.
        size: of the trainings.
        seed: of everything.
        advance: called after each training of all folds.
    """

    images: ImageSet
    pixels: Tensor
    labels: Tensor
    names: tuple[str, ...]
    fill: float | None
    conflicts: tuple[Conflict, ...]
    limits: list[dict[str, float]]
    size: Size
    seed: int
    advance: Callable[[str], None]

    def laws(self, **amounts: float) -> list[Law]:
        """The law of each class: these amounts, as far as its labels allow."""
        return [Law(**amounts).within(limits) for limits in self.limits]

    def scores(self, laws: list[Law], test: list[Law], seed: int, text: str) -> Tensor:
        """Scores (R, 2, N) of held-out pictures, as they are and moved by ``test``, R times."""
        how = (self.pixels, self.labels, len(self.names), laws, self.fill, self.size)
        parts = [held_out_scores(*how, mix(self.seed, seed, k), test) for k in range(REPEATS)]
        self.advance(text)
        return torch.stack(parts)


def try_moves(
    task: Task, amounts: dict[str, tuple[float, ...]]
) -> tuple[list[TriedMove], dict[str, float]]:
    """Every move alone, and the amounts of those that helped, together if that is better."""
    still = task.laws()
    none = task.scores(still, still, 0, "without")[:, 0]
    tried, chosen, seen = [], {}, {tuple(still)}
    for name, sizes in amounts.items():
        best = 0.0
        for amount in sizes:
            laws = task.laws(**{name: amount})
            if tuple(laws) in seen:  # no class may go further
                task.advance(name)
                continue
            seen.add(tuple(laws))
            gain = points(task.scores(laws, still, 0, f"{name} {amount:g}")[:, 0] - none)
            tried.append(TriedMove.model_validate({"name": name, "amount": amount, "gain": gain}))
            if gain.mean > max(best, HELPS * gain.standard_error):
                best, chosen[name] = gain.mean, amount
    if len(chosen) > 1:
        together = points(task.scores(task.laws(**chosen), still, 0, "together")[:, 0] - none)
        alone = max((t for t in tried if chosen.get(t.name) == t.amount), key=lambda t: t.gain.mean)
        if together.mean < alone.gain.mean:
            chosen = {alone.name: alone.amount}
    return tried, chosen


def confirm(task: Task, chosen: dict[str, float]) -> Tensor:
    """Scores (2, R, 2, N) on other folds: without and with, as they are and moved as prescribed."""
    still, laws, seed = task.laws(), task.laws(**chosen), 1
    none = task.scores(still, laws, seed, "confirms")
    if not chosen:
        task.advance("confirms")
        return torch.stack((none, none))
    return torch.stack((none, task.scores(laws, laws, seed, "confirms")))


def points(differences: Tensor) -> Estimate:
    """Mean of differences (R, N) of scores in points, over repeats and pictures.

    Pictures differ, and so do networks of the same kind: the larger error counts.
    """
    found = estimate(100 * differences.mean(0))
    spread = 100 * float(differences.mean(1).std()) / math.sqrt(len(differences))
    return Estimate.normal(found.mean, max(found.standard_error, spread))
