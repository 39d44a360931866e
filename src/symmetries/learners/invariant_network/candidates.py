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
from symmetries.training import fit_together
from symmetries.training.ensemble import fit_alone

if TYPE_CHECKING:
    from symmetries.learners.invariant_network.model import InvariantNetwork

SMALL = 2**32  # operations in a step, up to which networks are trained as one on a GPU


def trained_each(
    learner: "InvariantNetwork",
    widths: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    order: int = 0,
) -> "Iterator[list[InvariantNetwork]]":
    """Yield copies of a learner, each trained at held half-widths when its turn comes.

    On a GPU small networks are trained as one, and come together, as the rounding of each depends
    on the others.

    Args:
        learner: left as it is.
        widths: (n, dim); or (n, 1 + classes, dim), first the shared ones, then those of classes
            that have their own.
        images: (N, C, H, W).
        targets: (N,) or (N, K).
        run: fields of :class:`symmetries.training.TrainConfig`.
        order: 1 gives other initial weights, another order of the batches, and twice the steps.
    """
    if len(widths) > 1 and _gains_together(learner, run):
        several = [_copy(learner, width, order) for width in widths]
        try:
            fit_together([train_jobs(one, images, targets, run, order=order) for one in several])
            yield [one.eval() for one in several]
            return
        except (RuntimeError, ValueError):  # vmap cannot follow the network, or no room
            del several
    for width in widths:
        yield [trained_at(learner, width, images, targets, run, order)]


def trained_at(
    learner: "InvariantNetwork",
    width: Tensor,
    images: Tensor,
    targets: Tensor,
    run: dict[str, Any],
    order: int = 0,
) -> "InvariantNetwork":
    """Return a copy of a learner that was trained at half-widths; see above."""
    twin = _copy(learner, width, order)
    if not bool(width.any()):
        twin.config = twin.config.replace(samples=1)  # all are the same
    fit_alone(train_jobs(twin, images, targets, run, order=order))
    return twin.eval()


def _copy(learner: "InvariantNetwork", width: Tensor, order: int) -> "InvariantNetwork":
    """Return an untrained copy with other half-widths, which trains for its share of the steps."""
    twin = copy.deepcopy(learner)
    twin.network.box.set_half_width(width if width.ndim == 1 else width[0])
    if width.ndim == 2 and twin.class_widths is not None:
        twin.class_widths.width.copy_(width[1:])
    if order:
        reinitialise(twin.module, learner.seed + 10**6 * order)
    share = learner.config.evidence.search_steps * (1 + order)
    steps = max(1, round(share * learner.config.training.steps))
    twin.config = learner.config.replace(steps=steps, learn=False)
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
    return int(counter.get_total_flops()) * views <= SMALL
