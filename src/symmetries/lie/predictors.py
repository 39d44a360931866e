"""Fitted estimators with a method ``predict`` as functions of tensors, by finite differences."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from symmetries._validation.checks import invalid

STEP = 1e-3  # in standard deviations of each coordinate; outputs in single precision have errors


@runtime_checkable
class Predictor(Protocol):
    """A fitted estimator, such as those of scikit-learn."""

    def predict(self, X: ArrayLike) -> ArrayLike:
        """Return outputs (n,) or (n, m) for rows (n, d)."""


def differenced(estimator: Predictor, points: Tensor) -> Callable[[Tensor], Tensor]:
    """Return an estimator as a function of tensors (n, d), whose slopes are central differences.

    Classifiers answer with their probabilities, as classes have no slopes.

    Args:
        estimator: fitted; ``predict_proba`` is preferred to ``predict``.
        points: (n, d), which set the step along each coordinate.

    Example:
        >>> class Square:
        ...     def predict(self, X):
        ...         return (X**2).sum(1)
        >>> x = torch.tensor([[1.0, 2.0], [0.0, 3.0]], dtype=torch.float64, requires_grad=True)
        >>> differenced(Square(), x.detach())(x).sum().backward()
        >>> x.grad.round(decimals=6).tolist()
        [[2.0, 4.0], [0.0, 6.0]]
    """
    if points.ndim != 2:
        got = f"an estimator, and data of shape {tuple(points.shape)}"
        raise invalid("model", "a function of torch tensors", got, "estimators are for vectors")
    call = getattr(estimator, "predict_proba", estimator.predict)
    spread = points.double().std(0) if len(points) > 1 else torch.ones(points.shape[1])
    steps = STEP * torch.where(spread > 0, spread, 1.0).double()

    def outputs(x: Tensor) -> Tensor:
        found = torch.from_numpy(np.array(call(x.detach().numpy()), dtype=np.float64))
        return found[:, None] if found.ndim == 1 else found

    return lambda x: _Differenced.apply(x, outputs, steps)  # type: ignore[no-untyped-call]


class _Differenced(torch.autograd.Function):
    """Outputs of a function without gradients; slopes are computed when they are asked for."""

    @staticmethod
    def forward(x: Tensor, outputs: Callable[[Tensor], Tensor], steps: Tensor) -> Tensor:
        return outputs(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.outputs, ctx.steps = inputs
        ctx.save_for_backward(x)
        ctx.slopes = None

    @staticmethod
    def backward(ctx: Any, *weights: Tensor) -> tuple[Tensor, None, None]:
        if ctx.slopes is None:
            (x,) = ctx.saved_tensors
            shifts = torch.diag(ctx.steps)[:, None]  # (d, 1, d)
            moved = torch.stack((x + shifts, x - shifts)).flatten(0, 2)
            ahead, behind = ctx.outputs(moved).reshape(2, len(ctx.steps), len(x), -1)
            ctx.slopes = (ahead - behind) / (2 * ctx.steps[:, None, None])  # (d, n, m)
        return torch.einsum("dnm,nm->nd", ctx.slopes, weights[0]), None, None
