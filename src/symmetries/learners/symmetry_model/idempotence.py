"""The loss that makes prototypes fixed points of f."""

from typing import Any

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.networks import LieInference
from symmetries.training import Step

IDEMPOTENCE_UNIT = 0.1  # weight of an error of one bound, in squares; half a turn is an error of 1
LEAST_MISS = 0.01  # share of the bounds below which the norm is smoothed


def idempotence_loss(
    net: LieInference,
    images: Tensor,
    step: Step,
    act: ImageAction,
    to_prototype: Any,  # noqa: ANN401 - elements differ by group
    config: SymmetryConfig,
) -> Tensor:
    """Return how well f finds small transformations s of prototypes: mean d(f(T_s x_hat), s).

    Random versions of an image rarely come near its prototype x_hat, and where a picture almost
    looks the same after half a turn f must jump somewhere: nothing keeps the jump away from x_hat.
    So f is evaluated on T_s x_hat, where the right output is known: s. This moves no prototype,
    which has no gradient here; it only becomes a fixed point of f.

    The distance d of parameters (shifts as f predicts them: where the picture ends) is
    (1 - cos) / 2 for angles and a tenth of the square, in units of the bounds, for others. (A
    distance of matrices would prefer an f that shrinks prototypes as long as their angles are
    uncertain.) As ``idempotence_form="norm"`` it is the norm of all misses in units of the bounds:
    how large the next eta is.

    Args:
        net: f.
        images: x (B, C, H, W).
        step: gives random numbers.
        act: the transformations.
        to_prototype: elements (B,) that turn x into x_hat.
        config: which distance, and how large s may be.
    """
    group, norm = act.group, config.objective.idempotence_form == "norm"
    with torch.no_grad():
        size = config.objective.idempotence_range * net.bounds * step.rand(len(images), 1)
        near = size * (2 * step.rand(len(images), net.dim) - 1)
        moved = group.exp(near)
        seen = act(group.compose(moved, to_prototype), images)
        answer = net.positions_of(near, moved)
    miss = net.positions(seen) - answer
    terms = []
    for part, angle, bound in zip(miss.unbind(-1), group.angles, net.bounds, strict=True):
        chord = 2 * torch.sin(part / 2) if angle else part
        unit = 1 / bound if norm else 0.5 if angle else IDEMPOTENCE_UNIT**0.5 / bound
        terms.append((unit * chord).square())
    total = torch.stack(terms).sum(0)
    return ((total + LEAST_MISS**2).sqrt() - LEAST_MISS if norm else total).mean()
