"""The measures as ``torchmetrics`` metrics, accumulated over batches and processes."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from symmetries._validation.checks import check_choice
from symmetries.actions.base import Action
from symmetries.auditing.elements import Moves, make_moves
from symmetries.auditing.estimate import REDUCTIONS, Reduction, from_sums
from symmetries.auditing.metrics import (
    OutputError,
    distribution_error,
    logit_error,
    mean_error,
    normalised_logit_error,
)
from symmetries.auditing.models import Model, check_classifier, untouched
from symmetries.auditing.saliency import Saliency, mean_similarity, saliency_map
from symmetries.groups.base import Group
from symmetries.groups.names import named_group

FAR_APART = 2_654_435_761  # offset between the seeds of processes; torch keeps 32 bits


class InvarianceMetric(Metric):
    """Base class of metrics: the mean over all examples seen, and its standard error.

    The state is the sum, the sum of squares and the number of examples, which add up over batches
    and processes. ``compute`` returns {"value", "standard_error"}.

    Args:
        group: a group, its name, or an action.
        reduction: "mean", or "sum" over examples and elements.
        identity: whether the identity of a finite group counts.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box that they are drawn from.
        seed: random seed; every batch and every process draws different elements.
        kwargs: options of ``torchmetrics.Metric``.
    """

    full_state_update = False
    is_differentiable = False
    total: Tensor
    squares: Tensor
    count: Tensor
    terms: Tensor

    def __init__(
        self,
        group: str | Group[Any] | Action,
        *,
        reduction: Reduction = "mean",
        identity: bool = False,
        samples: int = 16,
        half_width: float | Sequence[float] | None = None,
        seed: int = 0,
        **kwargs: Any,  # noqa: ANN401 - torchmetrics' own
    ) -> None:
        super().__init__(**kwargs)
        check_choice(reduction, REDUCTIONS, "reduction")
        self.group: Group[Any] | Action = named_group(group)
        self.reduction: Reduction = reduction
        self.identity = identity
        self.samples = samples
        self.half_width = half_width
        self.seed = seed
        for name in ("total", "squares"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("terms", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")

    @abstractmethod
    def values(self, model: Model, x: Tensor, y: Tensor | None, moves: Moves) -> Tensor:
        """Return the measure of each example (N,), averaged over the group's elements."""

    def update(self, model: Model, x: Tensor, y: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            model: any callable from inputs to logits.
            x: (N, ...).
            y: (N,) classes, used only by saliency.
        """
        with untouched(model):
            check_classifier(model, x, y)
        moves = make_moves(
            self.group,
            x,
            identity=self.identity,
            samples=self.samples,
            half_width=self.half_width,
            seed=self.seed + int(self.count) + _process() * FAR_APART,
        )
        values = self.values(model, x, y, moves).to(self.total)
        self.total += values.sum()
        self.squares += values.square().sum()
        self.count += len(values)
        self.terms.fill_(len(moves))

    def compute(self) -> dict[str, Tensor]:
        """Return {"value": the mean or the sum, "standard_error": its standard error}."""
        count, total = int(self.count), float(self.total)
        deviations = float(self.squares) - total * total / max(count, 1)
        mean, error = from_sums(total, deviations, count, self.reduction, int(self.terms))
        numbers = {"value": mean, "standard_error": error}
        return {name: torch.tensor(n, device=self.total.device) for name, n in numbers.items()}


def _process() -> int:
    """Return the rank of this process among those that measure together."""
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if there else 0


class LogitInvariance(InvarianceMetric):
    """Metric of LI: the mean of 1/2 |f(x) - f(g x)|^2, or of |f(x) - f(g x)|^2 / |f(x)|^2.

    Args:
        group: a group, its name, or an action.
        normalised: which of the two.
        kwargs: of :class:`InvarianceMetric`.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> metric = LogitInvariance(Cyclic(4))
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
        >>> for x in torch.rand(20, 1, 6, 6).split(8):
        ...     metric.update(model, x)
        >>> sorted(metric.compute())
        ['standard_error', 'value']
    """

    def __init__(
        self,
        group: str | Group[Any] | Action,
        *,
        normalised: bool = False,
        **kwargs: Any,  # noqa: ANN401 - of the base class
    ) -> None:
        super().__init__(group, **kwargs)
        self.error: OutputError = normalised_logit_error if normalised else logit_error

    def values(self, model: Model, x: Tensor, y: Tensor | None, moves: Moves) -> Tensor:
        """Return the measure of each example (N,), averaged over the group's elements."""
        return mean_error(model, x, moves, self.error)


class DistributionInvariance(InvarianceMetric):
    """Metric of DI: the mean of KL(softmax f(x) || softmax f(g x)); arguments as in the base."""

    def values(self, model: Model, x: Tensor, y: Tensor | None, moves: Moves) -> Tensor:
        """Return the measure of each example (N,), averaged over the group's elements."""
        return mean_error(model, x, moves, distribution_error)


class SaliencySimilarity(InvarianceMetric):
    """Metric of SI: the mean cosine of m(x) and g^-1 m(g x).

    Args:
        group: a group, its name, or an action.
        saliency: the maps, ``saliency(model, x, y)``.
        kwargs: of :class:`InvarianceMetric`.
    """

    def __init__(
        self,
        group: str | Group[Any] | Action,
        *,
        saliency: Saliency = saliency_map,
        **kwargs: Any,  # noqa: ANN401 - of the base class
    ) -> None:
        super().__init__(group, **kwargs)
        self.saliency = saliency

    def values(self, model: Model, x: Tensor, y: Tensor | None, moves: Moves) -> Tensor:
        """Return the measure of each example (N,), averaged over the group's elements."""
        return mean_similarity(model, x, y, moves, self.saliency)
