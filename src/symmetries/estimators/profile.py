"""How sure a learned invariance is: intervals of half-widths from the lower bound."""

from dataclasses import dataclass

from torch import Tensor

from symmetries.learners.invariant_weights import width_interval
from symmetries.nn.invariant_model import InvariantModel

EXAMPLES = 2000


@dataclass(frozen=True)
class Invariance:
    """What was learned about one transformation.

    Args:
        name: of the parameter.
        half_width: transformations are drawn from plus to minus this.
        unit: "degrees", "pixels", "factor", ...
        low: lower end of the interval of half-widths that explain the data about as well.
        high: its upper end.
    """

    name: str
    half_width: float
    unit: str
    low: float
    high: float


def profile(
    model: InvariantModel, images: Tensor, targets: Tensor, samples: int, learned: bool = True
) -> list[Invariance]:
    """Half-widths with intervals: where the ELBO, with the last layer fitted anew, stays close.

    Widths that were not ``learned`` have no interval: both its ends are the width.
    """
    found = []
    count, side = len(targets), max(images.shape[-2:])
    images, targets = images[:EXAMPLES], targets[:EXAMPLES]
    for i, parameter in enumerate(model.group.parameters):
        here = min(float(model.half_width[0, i].detach()), parameter.bound)
        ends = (here, here)
        if learned:
            ends = width_interval(model, images, targets, i, count=count, samples=samples)
        shown = [parameter.display(value, side) for value in (here, *ends)]
        found.append(Invariance(parameter.name, shown[0][0], shown[0][1], shown[1][0], shown[2][0]))
    return found
