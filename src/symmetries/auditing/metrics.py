"""Invariance of a classifier's outputs: logit invariance LI and distribution invariance DI.

Reference: Moskalev, Sepliarskaia, Bekkers, Smeulders 2023, "On genuine invariance learning without
weight-tying", section 3.2.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, check_floats
from symmetries._validation.placement import check_same
from symmetries.actions.base import Action
from symmetries.auditing.elements import Moves, check_moves, make_moves
from symmetries.auditing.estimate import estimate
from symmetries.auditing.inputs import Inputs, inputs_of
from symmetries.auditing.models import (
    Model,
    check_callable,
    check_classifier,
    logits_of,
    model_device,
    untouched,
)
from symmetries.groups.base import Group
from symmetries.results import Estimate

OutputError = Callable[[Tensor, Tensor], Tensor]


def logit_error(logits: Tensor, moved: Tensor) -> Tensor:
    """Return half the squared distance 1/2 |f(x) - f(g x)|^2 of each example.

    Args:
        logits: f(x), (..., K).
        moved: f(g x), of the same shape.

    Returns:
        (...).

    Example:
        >>> logit_error(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])).tolist()
        [12.5]
    """
    _check_same(logits, moved)
    return (logits - moved).square().sum(-1) / 2


def normalised_logit_error(logits: Tensor, moved: Tensor) -> Tensor:
    """Return |f(x) - f(g x)|^2 / |f(x)|^2 of each example, which is invariant to scaling.

    Shapes as in :func:`logit_error`; 0 if both logits are zero.
    """
    _check_same(logits, moved)
    tiny = torch.finfo(logits.dtype).tiny
    return (logits - moved).square().sum(-1) / logits.square().sum(-1).clamp_min(tiny)


def distribution_error(logits: Tensor, moved: Tensor) -> Tensor:
    """Return KL(softmax f(x) || softmax f(g x)) of each example; shapes as in :func:`logit_error`.

    Example:
        >>> logits = torch.tensor([[1.0, 2.0]])
        >>> distribution_error(logits, logits + 5).abs().item() < 1e-6  # the softmax is the same
        True
    """
    _check_same(logits, moved)
    log_u, log_q = logits.log_softmax(-1), moved.log_softmax(-1)
    return (log_u.exp() * (log_u - log_q)).sum(-1)


def margin(logits: Tensor, classes: Tensor | None = None) -> Tensor:
    """Return the lead (...) of the first logit over the second.

    Args:
        logits: (..., K), K >= 2.
        classes: (..., 2), which two; the largest two of these logits by default.

    Example:
        >>> margin(torch.tensor([[3.0, 1.0, 2.5]])).tolist()
        [0.5]
    """
    two = logits.topk(2, -1).values if classes is None else logits.gather(-1, classes)
    return two[..., 0] - two[..., 1]


def logit_invariance(
    model: Model,
    x: Inputs,
    group: str | Group[Any] | Action,
    *,
    normalised: bool = False,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    batch_size: int = 1024,
    seed: int = 0,
) -> Estimate:
    """Estimate LI, the mean over examples and elements of 1/2 |f(x) - f(g x)|^2 (equation 2).

    Args:
        model: any callable from (N, ...) to logits (N, K).
        x: (N, ...); a tensor, an array, an ``ImageSet`` or a ``DataLoader``.
        group: a group, its name, or an action; see :func:`symmetries.auditing.elements.make_moves`.
        normalised: divide by |f(x)|^2 (and leave out the half), as in section 4.4.
        identity: whether the identity of a finite group counts.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box that they are drawn from; the group's bounds by default.
        batch_size: number of examples at once.
        seed: random seed of the elements.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> x = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        >>> by_mean = lambda x: x.mean((2, 3)) * torch.tensor([1.0, -1.0])
        >>> logit_invariance(by_mean, x, Cyclic(4)).mean < 1e-12
        True
    """
    error = normalised_logit_error if normalised else logit_error
    how = {"identity": identity, "samples": samples, "half_width": half_width, "seed": seed}
    return _mean(model, x, group, error, batch_size, how)


def distribution_invariance(
    model: Model,
    x: Inputs,
    group: str | Group[Any] | Action,
    *,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    batch_size: int = 1024,
    seed: int = 0,
) -> Estimate:
    """Estimate DI, the mean over examples and elements of KL(softmax f(x) || softmax f(g x)).

    Equation 1 of the paper; arguments as in :func:`logit_invariance`.
    """
    how = {"identity": identity, "samples": samples, "half_width": half_width, "seed": seed}
    return _mean(model, x, group, distribution_error, batch_size, how)


def _mean(
    model: Model,
    x: Inputs,
    group: str | Group[Any] | Action,
    error: OutputError,
    batch_size: int,
    how: dict[str, Any],
) -> Estimate:
    x = inputs_of(x, model)
    with untouched(model):
        check_classifier(model, x)
    moves = make_moves(group, x, **how)
    return estimate(mean_error(model, x, moves, error, batch_size))


def mean_error(
    model: Model, x: Tensor, moves: Moves, error: OutputError, batch_size: int = 1024
) -> Tensor:
    """Return (N,): an error of f(x) and f(g x) for each example, averaged over the elements g.

    Args:
        model: callable from inputs to logits.
        x: (N, ...).
        moves: the elements.
        error: function of both logits, such as :func:`logit_error`.
        batch_size: number of examples at once.
    """
    check_callable(model)
    check_moves(x, moves, batch_size)
    device = model_device(model, x)
    values = []
    with untouched(model), torch.no_grad():
        for start in range(0, len(x), batch_size):
            batch = x[start : start + batch_size].to(device)
            logits = logits_of(model, batch)
            total = torch.zeros_like(logits[:, 0])
            for element in moves.of(start, start + len(batch), device):
                total += error(logits, model(moves.action(element, batch)))
            values.append(total / len(moves))
    result = torch.cat(values)
    check_finite(result, "model outputs")
    return result


def _check_same(logits: Tensor, moved: Tensor) -> None:
    check_floats(logits, "logits", "...", "K")
    check_same(logits=logits, moved=moved)
