"""How well the data determine a width: the bound as a function of it, the last layer refitted."""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from symmetries._validation.checks import (
    check_choice,
    check_counts,
    check_finite,
    check_floats,
    check_number,
    check_whole,
    invalid,
)
from symmetries._validation.placement import check_like, check_together
from symmetries.distributions.box import SAMPLINGS, Sampling
from symmetries.learners.invariant_weights.objectives import (
    check_labelled,
    expected_sites,
    images_of,
    log_likelihood,
)
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.natural_linear import FULL_PRIOR_STEP, NaturalLinear

# Half of the 95 % quantile of chi-square with one degree of freedom: the drop of a log-likelihood
# at the ends of an interval.
DROP = 1.92
DOUBLINGS = 5
MOST_STEPS = 10**6


@torch.no_grad()
def refitted_elbo(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    half_width: Tensor,
    *,
    sets: Sequence[int] | None = None,
    count: int | None = None,
    fresh: bool = False,
    samples: int = 32,
    sampling: Sampling = "sobol",
    draws: int = 8,
    steps: int = 8,
    rate: float = 0.7,
    chunk: int = 2000,
    seed: int = 0,
) -> Tensor:
    """Return the bound (R,) on the log marginal likelihood at given half-widths, in nats.

    The last layer takes natural-gradient steps over all examples; filters and networks stay.
    Transformations and noise are the same at all widths, so that differences are of the widths
    alone.

    An average over S random transformations is noisy, and the bound pays for the variance of that
    noise (van der Ouderaa and van der Wilk 2022, equation 9): the price falls as 1 / S and grows
    with the width. Evenly spread transformations have next to none of it.

    Args:
        model: with a ``NaturalLinear`` head; it is left as it is.
        images: one or several tensors (n, C, H, W), see :func:`images_of`.
        targets: (n,) or (n, outputs).
        half_width: (R, dim).
        sets: which tensor of images belongs to each run.
        count: N, where the images stand for more of their kind; None is n.
        fresh: whether the last layer starts anew, from the weights 0, and not from where it is.
        samples: S transformations.
        sampling: "sobol" or "grid": one set of transformations for all examples and steps.
            "random": S fresh ones for every chunk and every step, as the paper trains; make chunks
            small, so that there are many.
        draws: samples of the outputs.
        steps: of the last layer.
        rate: of those steps.
        chunk: examples at a time.
        seed: of all random numbers.
    """
    check_labelled(model, images, targets)
    check_counts(samples=samples, draws=draws, chunk=chunk)
    check_whole(steps, "steps", least=0, most=MOST_STEPS)
    check_choice(sampling, SAMPLINGS, "sampling")
    if not isinstance(model.head, NaturalLinear):
        raise invalid("model.head", "a NaturalLinear", repr(model.head), "fit one with it")
    check_whole(seed, "seed", least=0)
    check_number(rate, "rate", 0, 1)
    if count is not None:
        check_whole(count, "count")
    for tensor in images:
        check_like(tensor, model.half_width, "images")
    check_together(weights=model.half_width, targets=targets)
    check_floats(half_width, "half_width", *model.half_width.shape)
    check_like(half_width, model.half_width, "half_width")
    check_finite(half_width, "half_width")
    scale = (count or len(targets)) / len(targets)
    generator = torch.Generator(targets.device).manual_seed(seed)
    labels = targets.split(chunk)
    parts = list(zip(*(tensor.split(chunk) for tensor in images), strict=True))

    def averages() -> Iterator[Tensor]:
        """Yield features of each chunk."""
        for part in parts:
            if sampling != "random":
                generator.manual_seed(seed)
            pictures = images_of(part, sets)
            yield model.features(pictures, samples, sampling, generator, half_width)

    kept = None if sampling == "random" else list(averages())

    def features() -> Iterable[Tensor]:
        """Return features of each chunk for one pass over the examples."""
        if kept is None:
            return averages()
        generator.manual_seed(seed)
        return kept

    head = copy.deepcopy(model.head)
    if fresh:
        head.reset()
    for step in range(steps):
        sums = None
        for phi, y in zip(features(), labels, strict=True):
            mean, variance = head(phi)
            if fresh and step == 0:  # at the weights 0, not spread out as the prior is
                variance = torch.zeros_like(variance)
            sites = expected_sites(model, (mean, variance), y, draws, generator)
            sums = head.sums(phi, *sites, into=sums)
        if sums is not None:
            head.step(sums, rate, scale, FULL_PRIOR_STEP)
    total = -head.kl()
    for phi, y in zip(features(), labels, strict=True):
        mean, variance = head(phi)
        fit = log_likelihood(model, mean, variance, y, 4 * draws, generator)
        total += scale * fit.sum(1)
    return total


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

    From the fitted width outwards, in steps that double, with the last layer fitted anew at each;
    the other widths stay. An end that is not reached is the parameter's bound (or 0). An interval
    that has the fitted width near one end says that training stopped on the way.

    Args:
        model: of one run, see :func:`refitted_elbo`.
        images: (n, C, H, W).
        targets: (n,) or (n, outputs).
        parameter: its number in the group.
        count: N, where the images stand for more of their kind.
        samples: S transformations.
        drop: 1.92 gives intervals of 95 % where the bound is tight and quadratic.
        seed: of all random numbers.
    """
    check_labelled(model, [images], targets)
    check_whole(parameter, "parameter", least=0, most=model.group.dim - 1)
    fitted = model.half_width.detach()[0]
    bound = model.group.bounds[parameter]
    here = min(float(fitted[parameter]), bound)  # a rounded pi may be above it
    first = (bound if math.isfinite(bound) else 1.0) / 2**DOUBLINGS

    def total(width: float) -> float:
        widths = fitted.clone()
        widths[parameter] = width
        options = {"count": count, "samples": samples, "seed": seed}
        return float(refitted_elbo(model, [images], targets, widths[None], **options))  # type: ignore[arg-type]

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
