"""Trials of augmentations with small networks, and of the best one once more on other folds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.analysis.augmentation_laws import Law
from symmetries.analysis.quick_networks import Size, held_out_scores
from symmetries.auditing.estimate import estimate
from symmetries.data import ImageSet
from symmetries.results import Conflict, Estimate, TriedPolicy
from symmetries.training.step import mix

REPEATS = 2  # of the folds that confirm, each with its own cuts and networks
HELPS = 0.5  # standard errors that a gain must have
Amounts = dict[str, float]  # by move


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

    def scores(self, laws: list[Law], test: list[Law], seeds: list[int], text: str) -> Tensor:
        """Scores (R, 2, N) of held-out pictures, as they are and moved by ``test``, R times."""
        how = (self.pixels, self.labels, len(self.names), laws, self.fill, self.size)
        parts = [held_out_scores(*how, mix(self.seed, seed), test) for seed in seeds]
        self.advance(text)
        return torch.stack(parts)


def try_policies(
    task: Task, bases: tuple[Amounts, ...], added: tuple[Amounts, ...]
) -> tuple[list[TriedPolicy], Amounts]:
    """Try whole augmentations, and add moves to the best one as long as that helps.

    Networks that are trained for a while with one move alone say little about several together, and
    differences of a point drown in those between networks: so few whole augmentations are compared,
    on the same pictures in the same order with the same initial weights.

    Args:
        task: what to train on.
        bases: amounts of motions.
        added: what is tried on top of the best of these, one after the other.

    Returns:
        All that was tried with its gain, and the amounts that are best; none if nothing helps.
    """
    still, seeds = task.laws(), [0]
    none = task.scores(still, still, seeds, "without")[:, 0]
    tried: list[TriedPolicy] = []
    seen = {tuple(still)}

    def gain_of(amounts: Amounts) -> Estimate | None:
        laws = task.laws(**amounts)
        if tuple(laws) in seen:  # no class may go further
            task.advance("as before")
            return None
        seen.add(tuple(laws))
        gain = points(task.scores(laws, still, seeds, name_of(amounts))[:, 0] - none)
        tried.append(TriedPolicy.model_validate({"amounts": amounts, "gain": gain}))
        return gain

    best: tuple[float, Amounts, Estimate | None] = (0.0, {}, None)
    for base in bases:
        gain = gain_of(base)
        if gain is not None and gain.mean > best[0]:
            best = (gain.mean, base, gain)
    for more in added:
        amounts = {**best[1], **more}
        gain = gain_of(amounts)
        if gain is not None and gain.mean > best[0]:
            best = (gain.mean, amounts, gain)
    last = best[2]
    helps = last is not None and last.mean > HELPS * last.standard_error
    return tried, best[1] if helps else {}


def name_of(amounts: Amounts) -> str:
    """The moves of an augmentation, for a bar."""
    return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items())


def confirm(task: Task, chosen: Amounts) -> Tensor:
    """Scores (2, R, 2, N) on other folds: without and with, as they are and moved as prescribed."""
    still, laws = task.laws(), task.laws(**chosen)
    seeds = [1 + k for k in range(REPEATS)]
    none = task.scores(still, laws, seeds, "confirms")
    if not chosen:
        task.advance("confirms")
        return torch.stack((none, none))
    return torch.stack((none, task.scores(laws, laws, seeds, "confirms")))


def points(differences: Tensor) -> Estimate:
    """Mean of differences (R, N) of scores in points, over repeats and pictures.

    Pictures differ, and so do networks of the same kind: the larger error counts.
    """
    found = estimate(100 * differences.mean(0))
    each = 100 * differences.mean(1)
    spread = float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else 0.0
    return Estimate.normal(found.mean, max(found.standard_error, spread))
