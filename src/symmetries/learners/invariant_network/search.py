"""Search of the half-widths: short trainings at held widths, compared by the evidence's bound.

The evidence as a function of a width has local optima and long flat parts, where a gradient stops
(``docs/tutorials/fit.md``). A line search over each width in turn does not.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries.learners.invariant_network.training import train_learner

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

HALVINGS = 2
COMPARED = 1000  # examples on which candidates are compared


def search_widths(
    learner: "InvariantNetwork",
    images: Tensor,
    targets: Tensor,
    **run: Any,  # noqa: ANN401 - fields of TrainConfig
) -> Tensor:
    """Return the half-widths (dim,) with the best bound, searched along each parameter in turn.

    Each candidate is trained from the same weights, with the same batches, at held widths, for the
    share ``search_steps`` of the steps. First come ``search`` widths from 0 to the parameter's
    bound, then those beside the best at half the distance, twice; the result is the top of a
    parabola through the best and its neighbours.

    Args:
        learner: left as it is.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        run: fields of :class:`symmetries.training.TrainConfig`, such as ``device``.
    """
    widths = learner.network.box.half_width.detach().clone()
    for axis, bound in enumerate(learner.group.bounds):

        def value(width: float, axis: int = axis) -> float:
            candidate = widths.clone()
            candidate[axis] = width
            return bound_at(learner, candidate, images, targets, run)

        widths[axis] = line_search(value, bound, learner.config.evidence.search)
    return widths


def bound_at(
    learner: "InvariantNetwork",
    widths: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
) -> float:
    """Return the bound on the log evidence after a short training at held half-widths (dim,)."""
    twin = copy.deepcopy(learner)
    twin.network.box.set_half_width(widths)
    twin.network.box.free.requires_grad_(False)
    share = learner.config.evidence.search_steps
    steps = max(1, round(share * learner.config.training.steps))
    twin.config = learner.config.replace(steps=steps, draws=1, learn=False)
    train_learner(twin, images, targets, run)
    twin.eval()
    x, y = (part[:COMPARED].to(twin.device) for part in (images, targets))
    generator = torch.Generator(twin.device).manual_seed(0)
    evidence, eta = twin.evidence(), twin.eta(twin.config.samples).detach()
    rows = twin.config.evidence.curvature_rows
    known = evidence.sampled_posterior(x, eta, twin.outputs, rows, generator)
    return float(evidence.total(x, y, eta, known))


def line_search(value: Callable[[float], float], bound: float, points: int) -> float:
    """Return where a function on [0, bound] is highest, by a grid that is refined at the best.

    Example:
        >>> round(line_search(lambda w: -((w - 1.3) ** 2), 3.0, 4), 6)
        1.3
    """
    spacing = bound / (points - 1)
    found = {spacing * i: value(spacing * i) for i in range(points)}
    for _ in range(HALVINGS):
        spacing /= 2
        best = max(found, key=lambda w: found[w])
        for width in (best - spacing, best + spacing):
            if 0 <= width <= bound:
                found[width] = value(width)
    best = max(found, key=lambda w: found[w])
    if not best - spacing / 2 > 0 or not best + spacing / 2 < bound:
        return best
    near = sorted(found, key=lambda w: abs(w - best))[1:3]
    left, right = min(near), max(near)
    if not left < best < right:
        return best
    rise, fall = (found[best] - found[side] for side in (left, right))
    above, below = best - left, right - best
    # The vertex of the parabola through three points that need not be evenly spaced.
    top = below**2 * rise - above**2 * fall
    return best + 0.5 * top / (below * rise + above * fall) if rise + fall > 0 else best
