"""How sure a learned invariance is: intervals of half-widths from the lower bound."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from symmetries.learners.invariant_weights import evaluate
from symmetries.nn.invariant_model import InvariantModel

# Half of the 95 % quantile of chi-square with one degree of freedom: the drop of a log-likelihood
# at the ends of an interval.
DROP = 1.92
POINTS = 17
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
    """Half-widths with intervals: where the ELBO stays within ``DROP`` nats of the fitted one.

    Widths that were not ``learned`` have no interval: both its ends are the width.
    """
    found = []
    count, side = len(targets), max(images.shape[-2:])
    images, targets = images[:EXAMPLES], targets[:EXAMPLES]
    fitted = model.half_width.detach()
    for i, parameter in enumerate(model.group.parameters):
        here = float(fitted[0, i])
        if not learned:
            value, unit = parameter.display(here, side)
            found.append(Invariance(parameter.name, value, unit, value, value))
            continue
        widths = np.unique(np.append(np.linspace(0, parameter.bound, POINTS), here))
        totals = []
        for width in widths:
            moved = fitted.clone()
            moved[0, i] = width
            options = {"samples": samples, "draws": 4, "half_width": moved}
            fit = evaluate(model, [images], targets, **options).log_likelihood  # type: ignore[arg-type]
            totals.append(count * float(fit))
        ends = interval(widths, np.asarray(totals), int(np.searchsorted(widths, here)))
        shown = [parameter.display(value, side) for value in (here, *ends)]
        found.append(Invariance(parameter.name, shown[0][0], shown[0][1], shown[1][0], shown[2][0]))
    return found


def interval(
    widths: NDArray[np.float64], totals: NDArray[np.float64], at: int
) -> tuple[float, float]:
    """The stretch around ``widths[at]`` in which totals are above the value there minus DROP."""
    level = totals[at] - DROP
    ends = []
    for step in (-1, 1):
        j = at
        while 0 <= j + step < len(widths) and totals[j + step] >= level:
            j += step
        end = float(widths[j])
        if 0 <= j + step < len(widths):  # it crosses the level between j and the next
            share = (totals[j] - level) / (totals[j] - totals[j + step])
            end += share * float(widths[j + step] - widths[j])
        ends.append(end)
    return ends[0], ends[1]
