"""Scalar functions in the groups' exponentials and logarithms that are smooth at zero.

Each is a quotient of the form 0 / 0 at zero. Near zero it is evaluated as a series, so that its
value and derivatives of any order are accurate and the other branch contributes no NaN.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_NEAR = 0.25  # |x| below which the series are used; their errors are below 1e-17 there

_SINC = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(8))
_X_COT_X = (1, -1 / 3, -1 / 45, -2 / 945, -1 / 4725, -2 / 93555, -1382 / 638512875, -4 / 18243225)
_PHI1 = tuple(1 / math.factorial(n + 1) for n in range(13))


def wrap_angle(angle: Tensor) -> Tensor:
    """Return the same angle in [-pi, pi); the derivative is 1 everywhere.

    Example:
        >>> wrap_angle(torch.tensor([0.5, math.pi, -math.pi])).tolist()
        [0.5, -3.1415927410125732, -3.1415927410125732]
    """
    turns = torch.floor((angle + math.pi) / (2 * math.pi))
    wrapped = angle - 2 * math.pi * turns
    # Within a rounding error of an odd multiple of pi the result can fall outside the interval.
    wrapped = torch.where(wrapped < -math.pi, wrapped + 2 * math.pi, wrapped)
    return torch.where(wrapped >= math.pi, wrapped - 2 * math.pi, wrapped)


def sinc(x: Tensor) -> Tensor:
    """Return sin(x) / x, and 1 at zero."""
    return _smooth(x, x * x, _SINC, lambda x: torch.sin(x) / x)


def x_cot_x(x: Tensor) -> Tensor:
    """Return x / tan(x) for |x| < pi, and 1 at zero."""
    return _smooth(x, x * x, _X_COT_X, lambda x: x / torch.tan(x))


def phi1(x: Tensor) -> Tensor:
    """Return (exp(x) - 1) / x, and 1 at zero: the integral of exp(t x) for t from 0 to 1."""
    return _smooth(x, x, _PHI1, lambda x: torch.expm1(x) / x)


def _smooth(
    x: Tensor, power: Tensor, series: Sequence[float], far: Callable[[Tensor], Tensor]
) -> Tensor:
    near = x.abs() < _NEAR
    total = torch.zeros_like(power)
    for coefficient in reversed(series):
        total = coefficient + power * total
    return torch.where(near, total, far(torch.where(near, 1.0, x)))
