"""Differentiable functions of vectors: values and Jacobians in float64, and polynomial fits."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_finite, check_floats, invalid, wrong_type
from symmetries._validation.placement import call_model
from symmetries.lie.fields import monomial_count, monomial_values, monomials
from symmetries.lie.predictors import Predictor, differenced

Function = Callable[[Tensor], Tensor]
SINGULAR = 1e-10  # of combinations of monomials, relative to the largest one


def as_function(model: Function | Predictor, points: Tensor) -> Function:
    """Return the function in float64, from points (n, d) to outputs (n, m); modules in eval mode.

    Args:
        model: a module, which is copied, a callable, or a fitted estimator. It must treat every
            row on its own.
        points: (n, d) to try it at.
    """
    if isinstance(model, Predictor) and not callable(model):
        model = differenced(model, points)
    call: Function = copy.deepcopy(model).double().eval() if isinstance(model, nn.Module) else model

    def function(x: Tensor) -> Tensor:
        y = call(x)
        return y[:, None] if isinstance(y, Tensor) and y.ndim == 1 else y

    if isinstance(model, Polynomial):
        return function
    few = points[:: max(1, len(points) // 8)][:8].double()  # all over the data, not copies of one
    with torch.no_grad():
        together = call_model(function, few)
    if not isinstance(together, Tensor):
        raise wrong_type("model", "a function that returns tensors", together, "use torch in it")
    if together.ndim != 2 or len(together) != len(few):
        got = f"shape {tuple(together.shape)} for {len(few)} points"
        raise invalid("model", "outputs (n, m) or (n,) for n points", got, "return a row for each")
    check_finite(together, "model")
    with torch.no_grad():
        alone = torch.cat([function(row[None]) for row in few])
    if not torch.allclose(together, alone, rtol=1e-6, atol=1e-6 * float(together.abs().max())):
        remedy = "use a function without batch statistics and without randomness"
        raise invalid("model", "outputs of each row on its own", "others in a batch", remedy)
    return function


def value_and_jacobian(function: Function, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return values (n, m) and Jacobians (n, m, d) of a function that treats every row on its own.

    Args:
        function: from points (n, d) to outputs (n, m).
        points: (n, d).

    Example:
        >>> square = lambda x: x.square().sum(-1, keepdim=True)
        >>> value_and_jacobian(square, torch.tensor([[1.0, 2.0]]))
        (tensor([[5.]]), tensor([[[2., 4.]]]))
    """
    check_floats(points, "points", "n", "d")
    value, pull_back = torch.func.vjp(function, points)[:2]
    outputs = value.shape[1]
    rows = [
        pull_back(nn.functional.one_hot(torch.tensor(j), outputs).to(value).expand_as(value))[0]
        for j in range(outputs)
    ]
    return value.detach(), torch.stack(rows, 1).detach()


@dataclass(frozen=True)
class Polynomial:
    """A polynomial from points (n, d) to outputs (n, m).

    Args:
        exponents: of its monomials, (q, d).
        coefficients: (q, m).
        centre: subtracted from the points, (d,).
        scale: that they are divided by, (d,).
    """

    exponents: Tensor
    coefficients: Tensor
    centre: Tensor
    scale: Tensor

    def __call__(self, points: Tensor) -> Tensor:
        """Return outputs (n, m)."""
        scaled = (points - self.centre) / self.scale
        return monomial_values(scaled, self.exponents) @ self.coefficients


def fit_polynomial(
    points: Tensor,
    outputs: Tensor,
    degree: int,
    weights: Tensor | None = None,
    singular: float = SINGULAR,
) -> Polynomial:
    """Return the least-squares polynomial of a degree through points and outputs.

    Args:
        points: (n, d).
        outputs: (n, m).
        degree: the highest total degree.
        weights: of the points, (n,); equal ones by default.
        singular: combinations of monomials with smaller singular values are left out.

    Example:
        >>> x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
        >>> cubic = fit_polynomial(x, x**3 - x, 3)
        >>> torch.allclose(cubic(x), x**3 - x)
        True
    """
    least = monomial_count(points.shape[1], degree)
    if len(points) < least:
        expected = f"at least {least} points for degree {degree}"
        raise invalid("data", expected, len(points), "give more data, or a lower degree")
    exponents = monomials(points.shape[1], degree)
    centre, scale = points.mean(0), points.std(0)
    scale = torch.where(scale > 0, scale, 1.0)
    features = monomial_values((points - centre) / scale, exponents)
    root = None if weights is None else weights.sqrt()[:, None]
    left, right = (features, outputs) if root is None else (root * features, root * outputs)
    coefficients = torch.linalg.lstsq(left, right, driver="gelsd", rcond=singular).solution
    return Polynomial(exponents, coefficients, centre, scale)
