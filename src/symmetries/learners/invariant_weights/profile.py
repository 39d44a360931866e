"""How well the data say what a width is: the bound, the last layer fitted anew at each width."""

import copy
import math

import torch
from torch import Tensor

from symmetries.checks import invalid
from symmetries.learners.invariant_weights.natural import expected_sites
from symmetries.learners.invariant_weights.objectives import log_likelihood
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural import NaturalLinear

# Half of the 95 % quantile of chi-square with one degree of freedom: the drop of a log-likelihood
# at the ends of an interval.
DROP = 1.92
DOUBLINGS = 7


@torch.no_grad()
def refitted_elbo(
    model: InvariantModel,
    images: Tensor,
    targets: Tensor,
    half_widths: Tensor,
    *,
    count: int | None = None,
    samples: int = 32,
    draws: int = 8,
    steps: int = 8,
    rate: float = 0.7,
    chunk: int = 1000,
    seed: int = 0,
) -> Tensor:
    """The bound (W,) on the log marginal likelihood at given half-widths, in nats.

    At each width the last layer takes natural-gradient steps over all examples, from where it is;
    filters and networks stay. Transformations and noise are the same at all widths, so that
    differences are of the widths alone.

    Args:
        model: of one run, with a ``NaturalLinear`` head; it is left as it is.
        images: (n, C, H, W).
        targets: (n,) or (n, outputs).
        half_widths: (W, dim).
        count: N, where the images stand for more of their kind; None is n.
        samples: S transformations, a shifted Sobol sequence.
        draws: samples of the outputs.
        steps: of the last layer.
        rate: of those steps.
        chunk: examples at a time.
        seed: of all random numbers.
    """
    head = model.head
    if not isinstance(head, NaturalLinear) or head.runs != 1:
        raise invalid("model.head", "a NaturalLinear of one run", repr(head), "fit one with it")
    scale = (count or len(targets)) / len(targets)
    generator = torch.Generator(images.device)

    def features(width: Tensor) -> Tensor:
        parts = [
            model.features(part, samples, "sobol", generator.manual_seed(seed), width[None])
            for part in images.split(chunk)
        ]
        return torch.cat(parts, 1)[0]

    totals = []
    for width in half_widths:
        phi, own = features(width)[None], copy.deepcopy(head)
        for _ in range(steps):
            generator.manual_seed(seed)
            sites = expected_sites(model, own(phi), targets, draws, generator)
            own.step(own.sums(phi, *sites), rate, scale)
        generator.manual_seed(seed)
        mean, variance = own(phi)
        fit = log_likelihood(model, mean, variance, targets, 4 * draws, generator)
        totals.append(scale * fit.sum() - own.kl()[0])
    return torch.stack(totals)


def width_interval(
    model: InvariantModel,
    images: Tensor,
    targets: Tensor,
    parameter: int,
    *,
    count: int | None = None,
    samples: int = 32,
    drop: float = DROP,
    seed: int = 0,
) -> tuple[float, float]:
    """The half-widths of one parameter whose bound is at most ``drop`` nats below the fitted one's.

    An interval that has the fitted width near one end says that training stopped on the way. From the fitted width outwards, in steps that double, with the last layer fitted anew at each;
    the other widths stay. An end that is not reached is the parameter's bound (or 0).

    Args:
        model: see :func:`refitted_elbo`.
        images: (n, C, H, W).
        targets: (n,) or (n, outputs).
        parameter: its number in the group.
        count: N, where the images stand for more of their kind.
        samples: S transformations.
        drop: 1.92 gives intervals of 95 % where the bound is tight and quadratic.
        seed: of all random numbers.
    """
    fitted = model.half_width.detach()[0]
    here, bound = float(fitted[parameter]), model.group.bounds[parameter]
    first = (bound if math.isfinite(bound) else 1.0) / 2**DOUBLINGS

    def total(width: float) -> float:
        widths = fitted.clone()
        widths[parameter] = width
        options = {"count": count, "samples": samples, "seed": seed}
        return float(refitted_elbo(model, images, targets, widths[None], **options)[0])  # type: ignore[arg-type]

    level = total(here) - drop
    ends = []
    for sign, limit in ((-1, 0.0), (1, bound)):
        inside, value, step = here, level + drop, first
        while True:
            width = here + sign * step
            width = max(width, limit) if sign < 0 else min(width, limit)
            if width == inside:  # the limit itself is inside
                break
            found = total(width)
            if found < level:
                inside += (value - level) / (value - found) * (width - inside)
                break
            inside, value, step = width, found, 2 * step
        ends.append(inside)
    return ends[0], ends[1]
