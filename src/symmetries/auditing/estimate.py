"""A mean with its standard error and confidence interval."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_held, check_tensors, invalid

Reduction = Literal["mean", "sum"]
REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class Estimate:
    """A number measured over examples, with its standard error.

    Group elements of one example are averaged first, so the values of examples are independent. The
    standard error covers the choice of examples and, if elements are drawn at random for each
    example, the choice of elements.

    Args:
        mean: mean over examples and group elements; their sum if a sum was requested.
        standard_error: standard error of that number; NaN for a single example.
        count: number of examples.

    Example:
        >>> estimate(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        Estimate(mean=2.5, standard_error=0.645..., count=4)
    """

    mean: float
    standard_error: float
    count: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the normal confidence interval mean ± z standard_error.

        Args:
            level: probability that the interval covers the true number.

        Example:
            >>> low, high = Estimate(1.0, 0.1, 100).interval()
            >>> round(low, 3), round(high, 3)
            (0.804, 1.196)
        """
        if not 0 < level < 1:
            raise invalid("level", "a probability between 0 and 1", level, "try 0.95")
        z = math.sqrt(2) * float(torch.erfinv(torch.tensor(level, dtype=torch.float64)))
        return self.mean - z * self.standard_error, self.mean + z * self.standard_error


def estimate(values: Tensor, reduction: Reduction = "mean", elements: int = 1) -> Estimate:
    """Return the mean over examples, with its standard error s / sqrt(N).

    Args:
        values: (N,), one number per example, the mean over its group elements.
        reduction: "mean", or "sum" over examples and elements, as in the paper's equations.
        elements: number of group elements per example, needed only for a sum.
    """
    check_choice(reduction, REDUCTIONS, "reduction")
    check_tensors(values=values)
    if values.ndim == 0:
        raise invalid("values", "at least one axis", "none", "give one value for each example")
    check_held(values, "values")
    exact = values.detach().to("cpu", torch.float64)
    count = len(exact)
    return from_sums(float(exact.sum()), _squares(exact), count, reduction, elements)


def from_sums(
    total: float, squares: float, count: int, reduction: Reduction = "mean", elements: int = 1
) -> Estimate:
    """Return the estimate from the sum, the sum of squared deviations, and the number of values."""
    if count < 1:
        raise invalid("examples", "at least one", count, "give some data")
    mean = total / count
    error = math.sqrt(max(squares, 0.0) / (count - 1) / count) if count > 1 else math.nan
    factor = count * elements if reduction == "sum" else 1
    return Estimate(mean * factor, error * factor, count)


def _squares(values: Tensor) -> float:
    return float((values - values.mean()).square().sum())
