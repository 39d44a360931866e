"""Whether slopes explain how a model changes; they do not where it jumps, or detaches inputs."""

import math
from functools import partial

import torch
from torch import Tensor

from symmetries.lie.certificates import Certificates
from symmetries.lie.functions import Function
from symmetries.lie.intervals import TINY
from symmetries.lie.pictures import Equations

JUMPS = (
    "the model changes along the fields by more than its slopes say: it has jumps, or parts that "
    "gradients do not see; a smooth score can be given instead"
)
STEP = 0.03  # along a field: standard deviations of the data, or length of a change of pictures
SOME = 8  # combinations of fields that are followed
FOLLOWED = 4000  # points or pictures
BATCH = 256


def where_slopes_explain(
    problem: Equations, points: Tensor, answers: Certificates, epsilon: float
) -> Certificates:
    """The certificates of a model, or that nothing can be told, if its slopes do not explain it."""
    certified = answers.theta[: answers.least]
    if len(certified) == 0 or unexplained_change(problem, points, certified) <= 2 * epsilon:
        return answers
    return answers.untold(JUMPS)


def unexplained_change(problem: Equations, points: Tensor, theta: Tensor) -> float:
    r"""Difference between how much a function changes along fields and what its slopes say.

    Points are moved by the flow :math:`\Phi_t` of a field v, and
    :math:`(f(\Phi_h(z)) - f(\Phi_{-h}(z))) / 2h` is compared with df(v). Of a differentiable
    function with defect e along the flow both differ by at most 2 e; of one that jumps, or of which
    gradients see a part only, by more.

    Args:
        problem: with a function that is given.
        points: coordinates (n, r), or pictures.
        theta: coefficients (k, p) of fields.

    Returns:
        The root-mean-square difference in the units of defects, the largest of several fields.

    Example:
        >>> from symmetries.lie.fields import field_family
        >>> from symmetries.lie.polarisation import Problem
        >>> z = torch.randn(900, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> turn = torch.tensor([[0.0, -1.0, 1.0, 0.0]]).double()
        >>> radius = lambda z: z.square().sum(1, keepdim=True)
        >>> smooth = Problem(radius, field_family("linear", 2), "invariant", 1)
        >>> jumps = Problem(lambda z: radius(z) + (z[:, :1] > 0), smooth.family, "invariant", 1)
        >>> unexplained_change(smooth, z, turn) < 0.001 < 0.1 < unexplained_change(jumps, z, turn)
        True
    """
    generator = torch.Generator().manual_seed(0)
    count = min(len(theta), SOME)
    mixed = torch.randn(count, len(theta), generator=generator, dtype=theta.dtype) @ theta
    z = points[:: -(-len(points) // FOLLOWED)].double()
    below = problem.violations(z, mixed)[1].mean(0)
    found = 0.0
    for row, size in zip(mixed, below.tolist(), strict=True):
        field = partial(problem.velocity, row)
        speed = float(torch.cat([field(part).flatten(1) for part in z.split(BATCH)]).norm())
        step = STEP * len(z) ** 0.5 / max(speed, TINY)
        squares = [_differences(problem.function, field, part, step) for part in z.split(BATCH)]
        inside = torch.cat(squares)
        inside = inside[inside.isfinite()]  # functions may end where data does
        if len(inside) == 0:
            return math.inf  # nothing is known of how it changes
        found = max(found, math.sqrt(float(inside.mean()) / max(size, TINY)))
    return found


def _differences(function: Function, field: Function, points: Tensor, step: float) -> Tensor:
    """Return squares (n,) of the differences at each point."""
    with torch.no_grad():
        ahead, behind = (function(_moved(field, points, time)) for time in (step, -step))
    value, pull_back = torch.func.vjp(function, points)[:2]
    velocity = field(points)
    unit = torch.eye(value.shape[1], dtype=value.dtype)
    slopes = [(pull_back(row.expand_as(value))[0] * velocity).flatten(1).sum(1) for row in unit]
    quotient = (ahead - behind) / (2 * step)
    return (quotient - torch.stack(slopes, 1).detach()).square().sum(1)


def _moved(field: Function, points: Tensor, time: float) -> Tensor:
    """Return points moved along a field, by a step of Runge and Kutta's method."""
    first = field(points)
    second = field(points + time / 2 * first)
    third = field(points + time / 2 * second)
    last = field(points + time * third)
    return points + time / 6 * (first + 2 * second + 2 * third + last)
