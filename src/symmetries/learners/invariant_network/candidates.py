"""Training of the candidates of a search, at half-widths that are held."""

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from symmetries._utils.eval_mode import eval_mode
from symmetries.learners.invariant_network.modules import reinitialise
from symmetries.learners.invariant_network.training import train_jobs
from symmetries.training import History, LossError, fit_together
from symmetries.training.ensemble import TrainJobs, fit_alone

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

SMALL = 2**32  # operations in a step, up to which networks are trained as one on a GPU


def trained_at(
    learner: "InvariantNetwork",
    width: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    order: int = 0,
) -> "InvariantNetwork":
    """Return a copy of a learner that was trained at held half-widths (dim,); see below."""
    return next(trained_each(learner, width[None], images, targets, run, order))


def trained_each(
    learner: "InvariantNetwork",
    widths: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    order: int = 0,
) -> "Iterator[InvariantNetwork]":
    """Yield copies of a learner, each trained at held half-widths when its turn comes.

    On a GPU small networks are trained as one, which learns the same up to rounding.

    Args:
        learner: left as it is.
        widths: (n, dim).
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        run: fields of :class:`symmetries.training.TrainConfig`.
        order: 1 gives other initial weights, another order of the batches, and twice the steps.
    """

    def twin(width: Tensor) -> "InvariantNetwork":
        return _copy(learner, width, order, len(widths) == 1)

    def jobs(of: "InvariantNetwork") -> TrainJobs[History]:
        return train_jobs(of, images, targets, run, order=order)

    if len(widths) > 1 and _gains_together(learner, run):
        twins = [twin(width) for width in widths]
        try:
            fit_together([jobs(one) for one in twins])
            yield from (one.eval() for one in twins)
            return
        except (LossError, torch.OutOfMemoryError):  # vmap cannot follow the network, or no room
            del twins
    for width in widths:
        one = twin(width)
        fit_alone(jobs(one))
        yield one.eval()


def _copy(
    learner: "InvariantNetwork", width: Tensor, order: int, alone: bool
) -> "InvariantNetwork":
    """Return an untrained copy with other half-widths, which trains for its share of the steps."""
    twin = copy.deepcopy(learner)
    twin.network.box.set_half_width(width)
    if order:
        reinitialise(twin.module, learner.seed + 10**6 * order)
    share = learner.config.evidence.search_steps * (1 + order)
    steps = max(1, round(share * learner.config.training.steps))
    samples = 1 if alone and not bool(width.any()) else learner.config.samples  # all are the same
    twin.config = learner.config.replace(steps=steps, learn=False, samples=samples)
    return twin


def _gains_together(learner: "InvariantNetwork", run: dict[str, Any]) -> bool:
    """Whether several such networks train faster as one: small ones on one GPU."""
    kind = str(run.get("device", "auto")).partition(":")[0]
    one = run.get("devices", 1) * run.get("nodes", 1) == 1
    if not (one and torch.cuda.is_available() and kind in ("auto", "gpu", "cuda")):
        return False
    image = torch.zeros(1, *learner.shape, device=learner.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), eval_mode(learner.module):
        learner.module(image)
    views = learner.config.training.batch_size * learner.config.samples
    return counter.get_total_flops() * views <= SMALL
