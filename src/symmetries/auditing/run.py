"""All measures of invariance of a classifier in one call."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from symmetries._validation.checks import check_finite, check_flag, invalid
from symmetries.actions.base import Action
from symmetries.auditing.elements import make_moves
from symmetries.auditing.estimate import estimate
from symmetries.auditing.examine import OUTPUT_ERRORS, ROUND_TRIP, SIMILARITY, examine
from symmetries.auditing.inputs import Labelled, labelled_inputs
from symmetries.auditing.layers import layer_equivariance
from symmetries.auditing.models import Model, check_callable, check_classifier, untouched
from symmetries.auditing.saliency import Saliency, saliency_map
from symmetries.auditing.spectrum import largest_singular_value
from symmetries.groups.base import Group
from symmetries.groups.names import group_name
from symmetries.results import AuditResult, Estimate, LayerError

Part = Callable[[int, int], dict[str, Tensor]]
Over = Callable[[Part, int], dict[str, Tensor]]

SHARES = ("accuracy", "accuracy_moved", SIMILARITY)
LAYER_EXAMPLES = 256  # enough for the table of layers, whose rows are ratios of large sums


def in_one_piece(part: Part, count: int) -> dict[str, Tensor]:
    """Evaluate all examples at once."""
    return part(0, count)


def audit_model(
    model: Model,
    data: Labelled,
    group: Group[Any] | Action | str,
    *,
    saliency: Saliency | None = None,
    steps: int = 50,
    baseline: float | Tensor = 0.0,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    layers: Sequence[str] | None = None,
    gradients: bool = True,
    over: Over = in_one_piece,
    level: float = 0.95,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> AuditResult:
    """Measure the invariance of a classifier under a group.

    The result has accuracy, logit invariance LI, distribution invariance DI, saliency similarity
    SI, sensitivity, and equivariance error by layer, each with the effect of resampling alone. All
    elements of a finite group are used; a continuous group is sampled for each example. The model's
    mode, its gradients and all random states are left unchanged.

    Args:
        model: any callable from (N, ...) to logits (N, K), deterministic in evaluation mode.
        data: x (N, ...) and y (N,), class numbers, tensors or arrays; an ``ImageSet`` with labels;
            or a ``DataLoader`` of both. Moved to where the model is, batch by batch. Arrays of
            floats become float64 for a model of float64, torch's default dtype for others.
        group: a group or its name ("c4"), or an action: for data that groups do not usually act on,
            and for images whose background is not black, ``ImageAction(group, fill=1.0)``.
        saliency: ``saliency(model, x, y)`` gives maps of the shape of x; the paper's by default.
        steps: of the integrated gradients, for the default saliency.
        baseline: of the integrated gradients, for the default saliency.
        identity: whether the identity of a finite group counts in the means.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: half-width of the box of parameters that they are drawn from; the group's bounds
            by default.
        layers: names of layers for the table; all by default, () for none.
        gradients: False for a model without gradients; SI and sensitivity are then left out.
        over: how to process the examples, ``over(part, N)`` with ``part(start, stop)`` returning
            the numbers of some examples: in parts, with resumption, on several machines, ...
        level: level of the confidence intervals (normal approximation).
        batch_size: number of examples at once.
        seed: random seed of all samples.
        progress: whether to show a progress bar.

    Returns:
        The result as plain numbers; ``save`` writes them as JSON.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> import torch
        >>> x, y = torch.rand(32, 1, 6, 6), torch.randint(3, (32,))
        >>> found = audit_model(model, (x, y), Cyclic(4), progress=False)
        >>> found.logit_invariance.discretisation, found.elements
        (0.0, 3)
        >>> arrays = x.numpy(), y.numpy()
        >>> audit_model(model, arrays, "c4", progress=False).accuracy == found.accuracy
        True
    """
    begin = time.perf_counter()
    for name, flag in (("identity", identity), ("gradients", gradients), ("progress", progress)):
        check_flag(flag, name)
    check_callable(model)
    x, y = labelled_inputs(data, model)
    with untouched(model):
        classes = check_classifier(model, x, y)
    moves = make_moves(
        group, x, identity=identity, samples=samples, half_width=half_width, seed=seed
    )
    look = saliency or partial(saliency_map, steps=steps, baseline=baseline)
    watch = partial(_bar, shown=progress)

    def part(start: int, stop: int) -> dict[str, Tensor]:
        rows = slice(start, stop)
        found = examine(
            model,
            x[rows],
            y[rows],
            moves.rows(start, stop),
            look if gradients else None,
            batch_size=batch_size,
            watch=watch,
        )
        if gradients:
            sigma = largest_singular_value(model, x[rows], batch_size=batch_size, seed=seed)
            found["sensitivity"] = sigma.cpu()
        return found

    values = over(part, len(x))
    _check_values(values)
    measures: dict[str, Any] = {
        name: _measure(values, name, level)
        for name in ("accuracy", "accuracy_moved", *OUTPUT_ERRORS, SIMILARITY, "sensitivity")
        if name in values
    }
    measures = dict.fromkeys((SIMILARITY, "sensitivity")) | measures
    rows: tuple[LayerError, ...] = ()
    if isinstance(model, nn.Module) and (layers is None or len(layers)):
        rows = layer_equivariance(
            model,
            x[:LAYER_EXAMPLES],
            group,
            layers=layers,
            identity=identity,
            half_width=half_width,
            seed=seed,
        )
    return AuditResult(
        group=_name(moves.action.group),
        elements=len(moves),
        exhaustive=moves.shared,
        identity=identity and moves.shared,
        examples=len(x),
        classes=classes,
        level=level,
        layers=rows,
        seconds=time.perf_counter() - begin,
        **measures,
    )


def _check_values(values: dict[str, Tensor]) -> None:
    silent = int(values["normalised_logit_invariance"].isinf().sum())
    if silent:
        expected, got = "logits that are not all zero", f"only zeros for {silent} of the images"
        raise invalid("model", expected, got, "check the model: most of its units may be inactive")
    for name, numbers in values.items():
        check_finite(numbers, name.replace("_", " "))


def _measure(values: dict[str, Tensor], name: str, level: float) -> Estimate:
    """One measure; no interval goes below 0, and that of a share does not go beyond 1."""
    most = 1.0 if name in SHARES else math.inf
    found = estimate(values[name], level=level, least=0.0, most=most)
    back = values.get(name + ROUND_TRIP)
    if back is None:
        return found
    return found.model_copy(update={"discretisation": float(back.double().mean())})


def _name(group: Group[Any]) -> str:
    try:
        return group_name(group)
    except ValueError:  # a user-defined group
        return repr(group)


def _bar(batches: Iterable[int], shown: bool) -> Iterable[int]:
    return track(
        list(batches),
        "audit",
        console=Console(stderr=True),
        disable=not shown,
        transient=True,
    )
