"""Search of the half-widths: trainings at held widths, compared by their evidence.

The evidence as a function of a width has local optima and long flat parts, where a gradient stops
(``docs/tutorials/fit.md``). A line search over each width in turn does not.
"""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from symmetries._utils.provenance import source_digest, threads, versions
from symmetries.learners.base import image_meta
from symmetries.learners.invariant_network.profile import WidthProfile, difference_noise
from symmetries.learners.invariant_network.training import train_learner
from symmetries.training.atomic_files import read_regular, write_atomic
from symmetries.training.fingerprint import fingerprint

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

HALVINGS = 2
NAME = "search.json"  # in the folder of a run


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
    come ``search`` widths from 0 to the parameter's bound, then those beside the best at half the
    distance, twice. The best and its neighbours are trained once more with other batches, which
    tells how large the noise of differences is.

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

        def value(width: float, order: int = 0, axis: int = axis) -> float:
            candidate = widths.clone()
            candidate[axis] = width
            key = f"{candidate.tolist()} {order}"
            return known.value(
                key, lambda: evidence_at(learner, candidate, images, targets, run, order)
            )

        profile = line_search(
            value, parameter.name, parameter.bound, learner.config.evidence.search
        )
        widths[axis] = profile.best
        found.append(profile)
    return found


class Candidates:
    """Values of the candidates of a search, in a file if the run has a folder.

    Args:
        learner: before the search.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        out: the folder, or None.
        resume: whether the file is read.
        run: fields of :class:`symmetries.training.TrainConfig`.
    """

    def __init__(
        self,
        learner: "InvariantNetwork",
        images: Tensor,
        targets: Tensor,
        out: Path | str | None,
        resume: bool,
        run: dict[str, Any],
    ) -> None:
        self.path = None if out is None else Path(out) / NAME
        self.values: dict[str, float] = {}
        if self.path is None:
            return
        weights = [value.detach().reshape(1, -1) for value in learner.state_dict().values()]
        identity = {
            "settings": image_meta(learner, learner.name),
            "weights": fingerprint(tuple(weights)),
            "data": fingerprint((images, targets)),
            "run": {name: str(run.get(name)) for name in ("device", "precision")},
            "code": source_digest(),
            "versions": versions(),
            "threads": threads(),
        }
        self.identity = json.loads(json.dumps(identity))
        if resume:
            self.values = self._stored()

    def _stored(self) -> dict[str, float]:
        """The values in the file, if it is one of this search; it may hold anything."""
        try:
            found = json.loads(read_regular(self.path)) if self.path else {}
            if found["identity"] == self.identity:
                values = {str(key): float(value) for key, value in found["values"].items()}
                return values if all(map(math.isfinite, values.values())) else {}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pass
        return {}

    def value(self, key: str, compute: Callable[[], float]) -> float:
        """Return the value of a candidate, computed unless it is known."""
        if key not in self.values:
            self.values[key] = compute()
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                content = {"identity": self.identity, "values": self.values}
                write_atomic(self.path, json.dumps(content).encode())
        return self.values[key]


def evidence_at(
    learner: "InvariantNetwork",
    widths: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    order: int = 0,
) -> float:
    """Return the log evidence after a training at held half-widths (dim,).

    Args:
        learner: left as it is.
        widths: (dim,).
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        run: fields of :class:`symmetries.training.TrainConfig`.
        order: another number gives another order of the batches.
    """
    twin = copy.deepcopy(learner)
    twin.network.box.set_half_width(widths)
    share = learner.config.evidence.search_steps
    steps = max(1, round(share * learner.config.training.steps))
    twin.config = learner.config.replace(steps=steps, learn=False)
    train_learner(twin, images, targets, run, order=order)
    twin.eval()
    return float(twin.estimated_evidence(images, targets))


def line_search(
    value: Callable[[float, int], float], name: str, bound: float, points: int
) -> WidthProfile:
    """Return a function on [0, bound] at the points of a grid that is refined at the best.

    Args:
        value: of a width, and of the number of the order of batches.
        name: of the parameter.
        bound: largest width.
        points: of the grid, at least 2.

    Example:
        >>> found = line_search(lambda w, order: -((w - 1.3) ** 2), "rotation", 3.0, 4)
        >>> round(found.best, 6), found.noise
        (1.3, 0.0)
    """
    spacing = bound / (points - 1)
    found = {spacing * i: value(spacing * i, 0) for i in range(points)}
    for _ in range(HALVINGS):
        spacing /= 2
        best = max(found, key=lambda w: found[w])
        for width in (best - spacing, best + spacing):
            if 0 <= width <= bound:
                found[width] = value(width, 0)
    best = max(found, key=lambda w: found[w])
    again = sorted(found, key=lambda w: abs(w - best))[:3]
    noise = 0.0
    if len(again) > 1:
        others = [value(width, 1) for width in again]
        noise = difference_noise([found[width] for width in again], others)
    widths = sorted(found)
    return WidthProfile(name, bound, widths, [found[width] for width in widths], noise)
