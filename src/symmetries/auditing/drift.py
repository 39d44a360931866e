"""Invariance and accuracy as data drifts away from the training distribution.

Reference: Moskalev et al. 2023, "On genuine invariance learning without weight-tying", section 4.3.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, check_tensors, invalid
from symmetries.actions.base import Action
from symmetries.auditing.elements import make_moves
from symmetries.auditing.estimate import estimate
from symmetries.auditing.examine import SIMILARITY, examine
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.models import Model, check_classifier, untouched
from symmetries.auditing.saliency import Saliency, saliency_map
from symmetries.groups.base import Group
from symmetries.results import DriftPoint, Estimate

BETAS = tuple(i / 10 for i in range(11))


def drift_curve(
    model: Model,
    first: Inputs,
    second: Inputs,
    y: Tensor,
    group: str | Group[Any] | Action,
    *,
    betas: Sequence[float] = BETAS,
    saliency: Saliency | None = None,
    steps: int = 50,
    gradients: bool = True,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    batch_size: int = 256,
    seed: int = 0,
) -> tuple[DriftPoint, ...]:
    """Return the measures on D(beta) = (1 - beta) D1 + beta D2 for several degrees of drift.

    Args:
        model: callable from inputs to logits.
        first: D1, (N, ...).
        second: D2, of the same shape; row i is paired with row i of D1
            (``symmetries.data.drift`` pairs equal labels).
        y: (N,) class numbers of both.
        group: a group, its name, or an action.
        betas: degrees of drift.
        saliency: function that returns the maps; the paper's by default.
        steps: number of steps of the integrated gradients, for the default saliency.
        gradients: False for a model without gradients; SI is then left out.
        identity: whether the identity of a finite group counts.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box that they are drawn from.
        batch_size: number of examples at once.
        seed: random seed, shared by all degrees.

    Example:
        >>> from symmetries.groups import Flip
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
        >>> first, second = torch.rand(2, 8, 1, 4, 4)
        >>> curve = drift_curve(model, first, second, torch.zeros(8).long(), Flip("x"))
        >>> len(curve), curve[-1].beta
        (11, 1.0)
    """
    first, second = inputs_of(first, model), inputs_of(second, model)
    check_tensors(first=first, second=second, y=y)
    if first.shape != second.shape:
        got = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise invalid("second", "the shape of first", got, "pair and resize the two sets")
    if first.dtype != second.dtype:
        got = f"{first.dtype} and {second.dtype}"
        raise invalid("second", "the dtype of first", got, "use second.to(first.dtype)")
    if not betas or not all(0 <= beta <= 1 for beta in betas):
        raise invalid("betas", "numbers from 0 to 1", list(betas), "0 gives D1, 1 gives D2")
    with untouched(model):
        check_classifier(model, first, y)
        check_finite(second, "second")
    moves = make_moves(
        group, first, identity=identity, samples=samples, half_width=half_width, seed=seed
    )
    look = (saliency or partial(saliency_map, steps=steps)) if gradients else None
    measure = partial(
        examine, model, y=y, moves=moves, saliency=look, batch_size=batch_size, round_trip=False
    )
    values = {beta: measure(x=torch.lerp(first, second, float(beta))) for beta in betas}
    start = estimate((values[0] if 0 in values else measure(x=first))["accuracy"]).mean
    return tuple(_point(beta, found, start) for beta, found in values.items())


def _point(beta: float, found: dict[str, Tensor], start: float) -> DriftPoint:
    """Return the measures of one degree of drift; ``start`` is the accuracy without drift."""
    shares: dict[str, Estimate | None] = {
        name: estimate(found[name], least=0.0, most=1.0) if name in found else None
        for name in ("accuracy", SIMILARITY)
    }
    errors = {
        name: estimate(found[name], least=0.0)
        for name in ("logit_invariance", "distribution_invariance")
    }
    ratio = float(found["accuracy"].double().mean()) / start if start > 0 else None
    return DriftPoint.model_validate({"beta": beta, "accuracy_ratio": ratio, **shares, **errors})
