"""Trials of augmentations with small networks, and of the best one once more on other folds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from symmetries.analysis.augmentation_laws import Law
from symmetries.analysis.network_trials import Size
from symmetries.analysis.quick_networks import held_out_scores
from symmetries.auditing.estimate import estimate
from symmetries.data import ImageSet
from symmetries.results import Conflict, Estimate, TriedPolicy
from symmetries.training.step import mix

REPEATS = 2  # of the folds that confirm, each with its own cuts and networks
DECIDES = 1  # of the scores: log-likelihoods differ less by chance than right answers
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
        poses_known: whether limits take into account how far pictures are moved as they are.
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
    poses_known: bool = False

    def laws(self, **amounts: float) -> list[Law]:
        """The law of each class: these amounts, limited to what preserves its labels."""
        return [Law(**amounts).within(limits) for limits in self.limits]

    def allowed(self, amounts: Amounts) -> Amounts:
        """The moves of these amounts that the labels of at least one class allow."""
        own = {name for law in self.laws(**amounts) for name in law.moves()}
        return {name: far for name, far in Law(**amounts).moves().items() if name in own}

    def scores(
        self, policies: list[list[Law]], seeds: list[int], test: list[Law] | None, text: str
    ) -> Tensor:
        """Scores of held-out pictures by policy, see :func:`held_out_scores`."""
        own = [mix(self.seed, seed) for seed in seeds]
        how = (self.pixels, self.labels, policies, self.fill, self.size, own, test)
        found = held_out_scores(*how)
        self.advance(text)
        return found


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
        added: what is tried on top of the best of these, alone and all together that help.

    Returns:
        All that was tried with its gain, and the amounts that are best; none if nothing helps.
    """
    tried: list[TriedPolicy] = []
    seen: dict[tuple[Law, ...], tuple[Tensor, Amounts]] = {}

    def compare(several: list[Amounts], text: str) -> None:
        fresh = {tuple(task.laws(**one)): task.allowed(one) for one in several}
        fresh = {laws: one for laws, one in fresh.items() if laws not in seen}
        if not fresh:  # no class may go further
            return task.advance(text)
        scores = task.scores([list(laws) for laws in fresh], [0], None, text)[:, :, 0]
        for (laws, one), found in zip(fresh.items(), scores, strict=True):
            seen[laws] = (found, one)
            if one:
                gain = points(found[:, 0] - none()[:, 0])
                tried.append(TriedPolicy.model_validate({"amounts": one, "gain": gain}))

    def none() -> Tensor:
        return seen[tuple(task.laws())][0]

    def value(one: Amounts) -> float:
        return float(seen[tuple(task.laws(**one))][0][:, DECIDES].mean())

    compare([{}, *bases], "motions")
    base = max(({}, *bases), key=value)
    compare([{**base, **more} for more in added], "more")
    helpful = [more for more in added if value({**base, **more}) > value(base)]
    together = {name: amount for more in helpful for name, amount in more.items()}
    compare([{**base, **together}], "together")
    best = max((one for _, one in seen.values()), key=value)
    return tried, best


def confirm(task: Task, chosen: Amounts) -> Tensor:
    """Scores (2, R, 2, 2, N) on other folds, without and with what was chosen."""
    policies = [task.laws(), task.laws(**chosen)][: 2 if chosen else 1]
    scores = task.scores(policies, [1 + k for k in range(REPEATS)], task.laws(**chosen), "confirms")
    return scores.expand(2, *scores.shape[1:])


def is_confirmed(scores: Tensor) -> bool:
    """Whether scores (2, R, 2, 2, N) of :func:`confirm` speak for what was chosen.

    Log-likelihoods must be higher, and the accuracy lower by no more than its standard error.
    """
    right, likely = (scores[1, :, 0] - scores[0, :, 0]).unbind(1)
    gain = points(right)
    return float(likely.mean()) > 0 and gain.mean >= -gain.standard_error


def points(differences: Tensor) -> Estimate:
    """Mean of differences (R, N) of scores in points, over repeats and pictures.

    Pictures differ, and so do networks of the same kind: the larger error counts.
    """
    found = estimate(100 * differences.mean(0))
    each = 100 * differences.mean(1)
    spread = float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else 0.0
    return Estimate.normal(found.mean, max(found.standard_error, spread))
