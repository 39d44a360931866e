"""Learned half-widths with intervals, from the evidence lower bound."""

from torch import Tensor

from symmetries.learners.invariant_weights import width_interval
from symmetries.nn.invariant_model import InvariantModel
from symmetries.results import Invariance

EXAMPLES = 2000


def profile(
    model: InvariantModel, images: Tensor, targets: Tensor, samples: int, learned: bool = True
) -> list[Invariance]:
    """Half-widths with intervals: where the ELBO, with the last layer fitted anew, stays close.

    Widths that were not ``learned`` have no interval.
    """
    found = []
    count, side = len(targets), max(images.shape[-2:])
    images, targets = images[:EXAMPLES], targets[:EXAMPLES]
    for i, parameter in enumerate(model.group.parameters):
        here = min(float(model.half_width[0, i].detach()), parameter.bound)
        shown, unit = parameter.display(here, side)
        interval = None
        if learned:
            low, high = width_interval(model, images, targets, i, count=count, samples=samples)
            interval = parameter.display(low, side)[0], parameter.display(high, side)[0]
        found.append(
            Invariance(name=parameter.name, unit=unit, half_width=shown, interval=interval)
        )
    return found
