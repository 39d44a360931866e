"""Scalar functions in exponentials and logarithms that are smooth at zero; checks of shapes.

Each is a quotient of the form 0 / 0 at zero. Near zero it is evaluated as a series, so that its
value and derivatives of any order are accurate and the other branch contributes no NaN.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, check_tensors, invalid
from symmetries.groups.base import Parameter

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


# Entire functions of s = x^2, whose series have no odd powers: no square root near zero.
_VERSINE = tuple((-1) ** n / math.factorial(2 * n + 2) for n in range(8))
_CUBIC = tuple((-1) ** n / math.factorial(2 * n + 3) for n in range(8))
_COT = tuple(-c / 4 ** (n + 1) for n, c in enumerate(_X_COT_X[1:]))
_ASIN = tuple(
    math.factorial(2 * n) / (4**n * math.factorial(n) ** 2 * (2 * n + 1)) for n in range(14)
)


def sinc_root(s: Tensor) -> Tensor:
    """Return sin(x) / x with x^2 = s >= 0, smooth in s."""
    return _smooth_root(s, _SINC, lambda x: torch.sin(x) / x)


def versine_root(s: Tensor) -> Tensor:
    """Return (1 - cos x) / x^2 with x^2 = s >= 0, smooth in s."""
    return _smooth_root(s, _VERSINE, lambda x: 2 * (torch.sin(x / 2) / x).square())


def cubic_root(s: Tensor) -> Tensor:
    """Return (x - sin x) / x^3 with x^2 = s >= 0, smooth in s."""
    return _smooth_root(s, _CUBIC, lambda x: (x - torch.sin(x)) / x**3)


def half_cot_root(s: Tensor) -> Tensor:
    """Return (1 - (x / 2) cot(x / 2)) / x^2 with x^2 = s in [0, (2 pi)^2), smooth in s."""
    return _smooth_root(s, _COT, lambda x: (1 - x / (2 * torch.tan(x / 2))) / x.square())


def angle_over_sine(s: Tensor, cosine: Tensor) -> Tensor:
    """Return x / sin(x) from s = sin(x)^2 and cos(x) >= 0, smooth in both."""
    near = s < _NEAR**2
    total = torch.zeros_like(s)
    for coefficient in reversed(_ASIN):
        total = coefficient + s * total
    sine = torch.where(near, 1.0, s).sqrt()
    return torch.where(near, total, torch.atan2(sine, torch.where(near, 1.0, cosine)) / sine)


def _smooth_root(s: Tensor, series: Sequence[float], far: Callable[[Tensor], Tensor]) -> Tensor:
    near = s < _NEAR**2
    total = torch.zeros_like(s)
    for coefficient in reversed(series):
        total = coefficient + s * total
    return torch.where(near, total, far(torch.where(near, 1.0, s).sqrt()))


_MATRIX = torch.Size((3, 3))


def check_eta(eta: Tensor, dim: int) -> None:
    """Raise an error unless ``eta`` is a tensor of shape (..., dim)."""
    check_tensors(eta=eta)
    if eta.ndim == 0 or eta.shape[-1] != dim:
        shape = f"shape {tuple(eta.shape)}"
        raise invalid("eta", f"shape (..., {dim})", shape, "see group.names for the parameters")


def check_matrices(*elements: Tensor) -> None:
    """Raise an error unless all elements are floating-point matrices (..., 3, 3)."""
    for element in elements:
        fits = isinstance(element, Tensor) and element.shape[-2:] == _MATRIX
        if not fits or not element.is_floating_point():
            check_floats(element, "element", "...", 3, 3)


def check_indices(*elements: Tensor, name: str = "element") -> None:
    """Raise an error unless all elements are integer tensors."""
    for element in elements:
        check_tensors(**{name: element})
        if element.is_floating_point() or element.is_complex():
            raise invalid(name, "whole numbers", element.dtype, f"use {name}.long()")


def choose(parameters: Sequence[Parameter], names: Sequence[str]) -> tuple[Parameter, ...]:
    """Return the parameters with these names, in canonical order; all if no name is given."""
    known = [p.name for p in parameters]
    for name in names:
        if name not in known:
            expected = f"names among {', '.join(known)}"
            raise invalid("names", expected, repr(name), "check the spelling")
    return tuple(p for p in parameters if not names or p.name in names)


def spread(eta: Tensor, names: Sequence[str], every: Sequence[str]) -> list[Tensor]:
    """Return a column (...) for each name in ``every``: from eta (..., len(names)), or zeros."""
    check_eta(eta, len(names))
    columns = dict(zip(names, eta.unbind(-1), strict=True))
    zero = torch.zeros_like(eta[..., 0])
    return [columns.get(name, zero) for name in every]


def matrix_from_rows(x_row: Sequence[Tensor], y_row: Sequence[Tensor]) -> Tensor:
    """Return homogeneous matrices (..., 3, 3) from the six entries of their first two rows."""
    zero = torch.zeros_like(x_row[0])
    entries = torch.stack((*x_row, *y_row, zero, zero, torch.ones_like(zero)), -1)
    return entries.reshape(*zero.shape, 3, 3)


def distance_of_matrices(element: Tensor) -> Tensor:
    """|T - I|^2 / 8 (...) of matrices T (..., n, n)."""
    one = torch.eye(element.shape[-1], dtype=element.dtype, device=element.device)
    return (element - one).square().sum((-2, -1)) / 8
