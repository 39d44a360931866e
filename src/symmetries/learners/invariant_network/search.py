"""Search of the half-widths: trainings at held widths, compared by their evidence.

The evidence as a function of a width has local optima and long flat parts, where a gradient stops
(``docs/tutorials/fit-network.md``). A line search over each width in turn does not.
"""

import copy
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from symmetries._utils.provenance import source_digest, threads, versions
from symmetries.learners.base import LabelledLearner, acting_meta
from symmetries.learners.invariant_network.candidates import trained_each
from symmetries.learners.invariant_network.class_widths import ClassWidths
from symmetries.learners.invariant_network.likelihoods import (
    constant_evidence,
    log_likelihood,
)
from symmetries.learners.invariant_network.profile import WidthProfile, difference_noise, settled
from symmetries.learners.invariant_network.training import from_first
from symmetries.training.atomic_files import read_regular, write_atomic
from symmetries.training.fingerprint import fingerprint

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

HALVINGS = 2
PEAKS = 2  # local optima that are looked at more closely
FOLDS = 3  # of the training images, left out in turn
NAME = "search.json"  # in the folder of a run

Value = tuple[float, float]  # log evidence of a candidate, and how far it was extrapolated
Values = Callable[[list[float], int], list[Value]]  # of widths, and the number of an order


def search_widths(
    learner: "InvariantNetwork",
    images: Tensor,
    targets: Tensor,
    out: Path | str | None = None,
    resume: bool = False,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> list[WidthProfile]:
    """Return the log evidence along each half-width in turn, the others at their best.

    Each candidate is trained from the same weights, with the same batches and transformations, at
    held widths, for the share ``search_steps`` of the steps: differences are of the widths. First
    come ``search`` widths from 0 to the parameter's bound, then those beside the two highest local
    optima at half the distance, twice. The better half of all candidates is trained once more, from
    other initial weights, with other batches and twice as long. The mean of both counts; their
    differences tell how large its noise is, and whether networks have converged: those that have
    not prefer narrow averages. A half-width that cannot be told is compared with 0 by the
    likelihood of training images that were left out, which decides whether it is used.

    Args:
        learner: left as it is.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        out: a folder that keeps the value of each candidate.
        resume: whether values of an interrupted search with the same settings, group, weights,
            data, code and number of threads are read from there.
        run: fields of :class:`symmetries.training.TrainConfig`, such as ``device``.
    """
    known = Candidates(learner, images, targets, out, resume, run)
    widths = learner.network.box.half_width.detach().clone()
    found = []
    for axis, parameter in enumerate(learner.group.parameters):

        def values(several: list[float], order: int, axis: int = axis) -> list[Value]:
            candidates = widths.repeat(len(several), 1)
            candidates[:, axis] = candidates.new_tensor(several)
            return known.values(candidates, order, run)

        points = learner.config.evidence.search
        profile = line_search(values, parameter.name, parameter.bound, points)
        constant = constant_evidence(learner.config.likelihood, targets)
        profile = replace(profile, constant=constant, angle=parameter.angle)
        text = ""
        if max(profile.values) <= profile.constant:
            text = "the best network explains the labels worse than one answer for all images, so "
            text += "that no width can be told; train longer or lower lr"
        elif not profile.settled:
            text = "networks have not converged: with twice the steps the order of half-widths may "
            text += "change, so that none can be told; raise steps or lr, or take a larger preset"
        if text:
            warnings.warn(f"{parameter.name}: {text}", RuntimeWarning, stacklevel=3)
        if not profile.told:
            gain, error, right = known.held_out(widths, axis, profile.chosen, run)
            profile = replace(profile, gain=gain, gain_error=error, gain_right=right)
        widths[axis] = profile.used
        found.append(profile)
    return found


def search_classes(
    learner: "InvariantNetwork",
    images: Tensor,
    targets: Tensor,
    out: Path | str | None = None,
    resume: bool = False,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> tuple[list[list[WidthProfile]], dict[int, Tensor]]:
    """Return the log evidence along each half-width of each class, and those that are used.

    One class after the other is searched as in :func:`search_widths`, with those before it at their
    best: one evidence of one network, whose logit of that class is averaged over another box than
    the rest. Its half-width is used if it is told and the shared one is outside of its interval.

    Args:
        learner: with the shared half-widths; left as it is.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        out: see :func:`search_widths`; each class has a file of its own.
        resume: see :func:`search_widths`.
        run: fields of :class:`symmetries.training.TrainConfig`.
    """
    shared = learner.network.box.half_width.detach().clone()
    constant = constant_evidence(learner.config.likelihood, targets)
    found: list[list[WidthProfile]] = []
    own: dict[int, Tensor] = {}
    for number in range(learner.outputs):
        twin = copy.deepcopy(learner)
        twin.class_widths = ClassWidths(learner.outputs, {**own, number: shared})
        known = Candidates(twin, images, targets, out, resume, run, f"class-{number}.json")
        widths = torch.stack([shared, *own.values(), shared])
        found.append([])
        for axis, parameter in enumerate(learner.group.parameters):

            def values(
                several: list[float],
                order: int,
                axis: int = axis,
                widths: Tensor = widths,
                known: Candidates = known,
            ) -> list[Value]:
                candidates = widths.repeat(len(several), 1, 1)
                candidates[:, -1, axis] = candidates.new_tensor(several)
                return known.values(candidates, order, run)

            points = learner.config.evidence.search
            profile = line_search(values, parameter.name, parameter.bound, points)
            found[-1].append(profile := replace(profile, constant=constant, angle=parameter.angle))
            low, high = profile.interval
            if profile.told and not low <= float(shared[axis]) <= high:
                widths[-1, axis] = profile.chosen
                own[number] = widths[-1]
    return found, own


class Candidates:
    """Values of the candidates of a search, in a file if the run has a folder.

    Args:
        learner: before the search.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        out: the folder, or None.
        resume: whether the file is read.
        run: fields of :class:`symmetries.training.TrainConfig`.
        name: of the file.
    """

    def __init__(
        self,
        learner: "InvariantNetwork",
        images: Tensor,
        targets: Tensor,
        out: Path | str | None,
        resume: bool,
        run: dict[str, Any],
        name: str = NAME,
    ) -> None:
        self.learner, self.data = learner, (images, targets)
        self.path = None if out is None else Path(out) / name
        self.known: dict[str, tuple[float, ...]] = {}
        if self.path is None:
            return
        weights = [value.detach().reshape(1, -1) for value in learner.state_dict().values()]
        identity = {
            "settings": {**LabelledLearner.meta(learner), **acting_meta(learner)},
            "weights": fingerprint(tuple(weights)),
            "data": fingerprint((images, targets)),
            "run": {name: str(run.get(name)) for name in ("device", "precision")},
            "code": source_digest(),
            "versions": versions(),
            "threads": threads(),
        }
        self.identity = json.loads(json.dumps(identity))
        if resume:
            self.known = self._stored()

    def _stored(self) -> dict[str, tuple[float, ...]]:
        """Return the values in the file, if it is one of this search; it may hold anything."""
        try:
            found = json.loads(read_regular(self.path)) if self.path else {}
            if found["identity"] == self.identity:
                known = {str(k): tuple(map(float, v)) for k, v in found["values"].items()}
                sizes = all(len(v) == (3 if "held" in k else 2) for k, v in known.items())
                return known if sizes and all(map(math.isfinite, sum(known.values(), ()))) else {}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pass
        return {}

    def values(self, widths: Tensor, order: int, run: dict[str, Any]) -> list[Value]:
        """Return the values of candidates (n, dim), trained unless they are known.

        Those that train as one are kept at once: a resumed run trains the same ones as one.
        """

        def value(model: "InvariantNetwork") -> Tensor:
            return torch.stack(model.estimated_evidence(*self.data, seed=order))

        keys = [f"{width.tolist()} {order}" for width in widths]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        models = trained_each(self.learner, widths[new], *self.data, run, order)
        rest = iter(new)
        for some in models:
            pairs = zip(some, rest, strict=False)
            self._keep({keys[i]: partial(value, model) for model, i in pairs}, run)
        return [(evidence, further) for evidence, further in map(self.known.__getitem__, keys)]

    def held_out(
        self, widths: Tensor, axis: int, chosen: float, run: dict[str, Any]
    ) -> tuple[float, float, float]:
        """Return by how much a half-width is better than 0 on training images that were left out.

        Args:
            widths: of the other parameters (dim,).
            axis: of the half-width.
            chosen: the half-width.
            run: fields of :class:`symmetries.training.TrainConfig`.

        Returns:
            The gain in log-likelihood of an image, its standard error, and the gain in the share of
            images that are classified correctly (0 for values).
        """
        both = widths.repeat(2, 1)
        both[:, axis] = widths.new_tensor([0.0, chosen])

        def gains() -> Tensor:
            plain, averaged = (self._left_out(width, run) for width in both)
            gain = averaged - plain
            error = gain[:, 0].std() / len(gain) ** 0.5
            return torch.stack([gain[:, 0].mean(), error, gain[:, 1].mean()])

        key = f"held out {both.tolist()}"
        self._keep({key: gains}, run)
        gain, error, right = self.known[key]
        return gain, error, right

    def _left_out(self, width: Tensor, run: dict[str, Any]) -> Tensor:
        """Log-likelihood of each image, and whether it is right, by networks trained without it."""
        images, targets = self.data
        generator = torch.Generator().manual_seed(self.learner.seed)
        order = torch.randperm(len(images), generator=generator).to(images.device)
        found = []
        for left in order.tensor_split(min(FOLDS, len(images))):
            seen = order[~torch.isin(order, left)]
            data = images[seen], targets[seen]
            ((model,),) = trained_each(self.learner, width[None], *data, run)
            with torch.no_grad():
                outputs, here = model(images[left].to(model.device)), targets[left].to(model.device)
            likely = log_likelihood(model.config.likelihood, outputs, here, model.noise)
            classes = model.config.likelihood == "categorical"
            right = outputs.argmax(1) == here if classes else torch.zeros_like(likely)
            found.append(torch.stack([likely.double(), right.double()], 1))
        return torch.cat(found)

    def _keep(self, several: dict[str, Callable[[], Tensor]], run: dict[str, Any]) -> None:
        """Compute numbers that are not known, and write them together."""
        processes = run.get("devices", 1) * run.get("nodes", 1)
        new = {key: compute for key, compute in several.items() if key not in self.known}
        self.known |= {
            key: tuple(from_first(compute(), processes).tolist()) for key, compute in new.items()
        }
        first_process = processes == 1 or torch.distributed.get_rank() == 0
        if new and self.path is not None and first_process:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {"identity": self.identity, "values": self.known}
            write_atomic(self.path, json.dumps(content).encode())


def line_search(values: Values, name: str, bound: float, points: int) -> WidthProfile:
    """Return a function on [0, bound] at the points of a grid that is refined at its optima.

    Args:
        values: of widths, and of the number of the order of batches.
        name: of the parameter.
        bound: largest width.
        points: of the grid, at least 2.

    Example:
        >>> def values(widths, order):
        ...     return [(-((w - 1.3) ** 2), 0.0) for w in widths]
        >>> found = line_search(values, "rotation", 3.0, 4)
        >>> round(found.best, 6), found.noise
        (1.3, 0.0)
    """
    spacing = 2**HALVINGS  # in parts of the finest grid
    last = spacing * (points - 1)
    found: dict[int, Value] = {}

    def look(wanted: Sequence[int]) -> None:
        new = [i for i in wanted if 0 <= i <= last and i not in found]
        found.update(zip(new, values([bound * i / last for i in new], 0), strict=True))

    look(range(0, last + 1, spacing))
    for _ in range(HALVINGS):
        spacing //= 2
        peaks = _peaks(found)
        look(sorted({i + step for i in peaks for step in (-spacing, spacing)}))
    order = sorted(found)
    again = sorted(sorted(order, key=lambda i: -found[i][0])[: max(3, len(order) // 2)])
    first = [found[i][0] for i in again]
    second = [value for value, _ in values([bound * i / last for i in again], 1)]
    noise, common = difference_noise(first, second), np.subtract(second, first).mean()
    for i, value in zip(again, second, strict=True):
        found[i] = (float(found[i][0] + value - common) / 2, found[i][1])
    evidence, further = ([found[i][part] for i in order] for part in (0, 1))
    return WidthProfile(
        name,
        bound,
        [bound * i / last for i in order],
        evidence,
        noise / 2**0.5,  # of means of two trainings
        further,
        settled=settled([bound * i / last for i in again], first, second),
    )


def _peaks(found: dict[int, Value]) -> list[int]:
    """Return the highest local optima, the best first."""
    order = sorted(found)
    level = [-float("inf"), *(found[i][0] for i in order), -float("inf")]
    tops = [
        i
        for place, i in enumerate(order, 1)
        if level[place] >= max(level[place - 1], level[place + 1])
    ]
    return sorted(tops, key=lambda i: -found[i][0])[:PEAKS]
