"""All measures of invariance of a classifier in one call."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from symmetries._validation.checks import check_finite, check_flag, check_whole, invalid
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.permute import PermutationAction, SequenceAction
from symmetries.actions.signals import SignalAction
from symmetries.auditing.answers import OF_ARRAYS, read_logits, taking_tensors
from symmetries.auditing.contributions import EXAMPLES, with_contributions
from symmetries.auditing.elements import Moves, make_moves, resolve_action
from symmetries.auditing.examine import PREDICTED, examine, joined
from symmetries.auditing.inputs import Inputs, Labelled, Upcoming, labelled_inputs
from symmetries.auditing.layers import layer_equivariance
from symmetries.auditing.lie import is_smooth, law_is_usual, lie_derivative
from symmetries.auditing.models import (
    CUT_OFF,
    Model,
    check_answers,
    check_callable,
    check_examples,
    differentiable,
    model_device,
    untouched,
)
from symmetries.auditing.run_outputs import (
    choose_law,
    depends_on_batch,
    examine_outputs,
    outputs_are_constant,
    summarise_outputs,
)
from symmetries.auditing.saliency import Saliency, SalientPixels
from symmetries.auditing.spectrum import largest_singular_value
from symmetries.auditing.summarise import summarise
from symmetries.groups.base import Group
from symmetries.groups.names import group_name
from symmetries.groups.ranges import Range, parse_range, shown_range
from symmetries.results import AuditResult, LayerError, ParameterRange

Part = Callable[[int, int], dict[str, Tensor]]
Over = Callable[[Part, int], dict[str, Tensor]]

Output = str | Action | Callable[[Any, Tensor], Tensor] | None
ONE_CLASS = "the model predicts the same class for all examples as they are"
WORSE_THAN_GUESSING = (
    "the accuracy is worse than guessing: the order of the classes may be another one, or the "
    'output no logits (output="embedding")'
)
DIRECTIONS = 'vectors are read as directions (x right, y up); "points" are positions in pixels'
ONE_THING = "outputs of the first examples are all the same: agreement on them says little"
OF_BATCHES = (
    "the output for an example depends on the others in its batch: the numbers hold for these "
    "batches only"
)
LIE_EXAMPLES, LIE_LAYER_EXAMPLES = 64, 8
LAYER_EXAMPLES = 256  # enough for the table of layers, whose rows are ratios of large sums


def audit_model(
    model: Model,
    data: Labelled | Inputs,
    group: Group[Any] | Action | str,
    *,
    output: Output = None,
    range: Range | None = None,
    saliency: Saliency | None = None,
    steps: int = 50,
    baseline: float | Tensor = 0.0,
    identity: bool = False,
    samples: int = 16,
    half_width: float | Sequence[float] | None = None,
    layers: Sequence[str] | None = None,
    gradients: bool = True,
    local: bool = True,
    closely: int | None = None,
    over: Over | None = None,
    level: float = 0.95,
    batch_size: int = 256,
    seed: int = 0,
    progress: bool = True,
) -> AuditResult:
    """Measure the invariance of a classifier under a group.

    The result has agreement of predictions, accuracy if there are labels, logit invariance LI,
    distribution invariance DI, saliency similarity SI, sensitivity, and equivariance error by
    layer, each with the effect of resampling alone. All elements of a finite group are used; a
    continuous group is sampled for each example. Modes, gradients and random states stay unchanged.

    Args:
        model: any callable from (N, ...) to logits (N, K), on tensors or NumPy arrays,
            deterministic in evaluation mode; see
            :func:`~symmetries.auditing.answers.read_logits` for softmax, one logit, ``.logits``.
        data: inputs x (N, ...), or a pair of x and class numbers y (N,), tensors or arrays; an
            ``ImageSet``; or a ``DataLoader``. Labels are needed for accuracy only. Moved to where
            the model is, batch by batch. Arrays of floats become float64 for a model of float64,
            torch's default dtype for others.
        group: a group or its name ("c4"), or an action: for data that groups do not usually act on,
            and for images whose background is not black, ``ImageAction(group, fill=1.0)``.
        output: what the model gives: "logits", "probabilities", "embedding", "map", "boxes",
            "points", "scalar", "vector", "energy", "sequence" or "ctc"; "NAME" or "NAME:KIND"
            for one of several outputs, by key, attribute or number; or how it moves, an action or
            a function act(element, output). None to find out. See
            :func:`~symmetries.auditing.representations.representation`; other kinds than the first
            two have their measures in ``measures``.
        range: how far the parameters of a continuous group go, "rotation=10,shift=2px" in degrees,
            pixels and factors, or a mapping; the group's bounds by default.
        saliency: ``saliency(model, x, y)`` gives maps of the shape of x; the paper's by default.
        steps: of the integrated gradients, for the default saliency.
        baseline: of the integrated gradients, for the default saliency.
        identity: whether the identity of a finite group counts in the means.
        samples: number of elements drawn for each example if the group is continuous.
        half_width: the same as ``range`` in the group's own units (radians, half-images, logarithms
            of factors): one number, or one for each parameter.
        layers: names of layers for the table; all by default, () for none.
        gradients: False for a model without gradients; SI and sensitivity are then left out.
        local: whether to measure the Lie derivative of outputs and layers under a continuous group.
        closely: number of examples, spread over the data, for saliency, sensitivity and the effect
            of resampling alone; all by default.
        over: how to process the examples, ``over(part, N)`` with ``part(start, stop)`` returning
            the numbers of some examples: with resumption, on several machines, ...; batch by batch
            by default.
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
    for name, flag in (
        ("identity", identity),
        ("gradients", gradients),
        ("local", local),
        ("progress", progress),
    ):
        check_flag(flag, name)
    check_whole(batch_size, "batch_size")
    check_callable(model)
    x, y = labelled_inputs(data, model)
    check_finite(x, "x")
    action = resolve_action(group, x)
    whole = isinstance(action, SequenceAction | PermutationAction)  # whole numbers can move, too
    check_examples(x.float() if whole and not x.is_floating_point() else x)
    images = isinstance(action, ImageAction)
    side = _side(action, x)
    half_width = _half_widths(action.group, range, half_width, side)
    moves = make_moves(
        action, x, identity=identity, samples=samples, half_width=half_width, seed=seed
    )
    chosen = spread_mask(len(x), closely)
    model, arrays = taking_tensors(model, x)
    model, law, kind = choose_law(model, x, output, images)
    about: dict[str, Any] = {"output": kind}
    notes: list[str] = []
    gradients = gradients and not arrays and x.is_floating_point()
    over = over or partial(_in_batches, size=batch_size, shown=progress)
    rows_of = Upcoming(x, model_device(model, x))
    if law is not None:

        def part(start: int, stop: int) -> dict[str, Tensor]:
            some = moves.rows(start, stop)
            batch = rows_of(start, stop)
            return examine_outputs(model, batch, some, law, chosen[start:stop], batch_size)

        found = summarise_outputs(over(part, len(x)), level)
        about |= {"measures": found, "saliency_similarity": None, "sensitivity": None}
        if images and kind == "points":
            about["units"] = {"absolute_error": "pixels", "largest_error": "pixels"}
        constant = outputs_are_constant(model, x, law)
        said = {ONE_THING: constant, DIRECTIONS: images and kind == "vector"}
    else:
        answers = read_logits(model, x, y, kind)
        model = answers.model
        with untouched(model):
            about["classes"] = check_answers(model, x, y)
        cut = gradients and not differentiable(model, x)
        look = saliency or SalientPixels(steps, baseline)
        part = partial(
            _classifier_part,
            model,
            rows_of,
            y,
            moves,
            look if gradients and not cut else None,
            chosen,
            batch_size=batch_size,
            seed=seed,
        )
        values = over(part, len(x))
        about |= summarise(values, level)
        about["output"], notes = answers.kind, [*answers.notes]
        said = {
            ONE_CLASS: len(values[PREDICTED].unique()) == 1,
            WORSE_THAN_GUESSING: y is not None and about["accuracy"].high < 1 / len(y.unique()),
            CUT_OFF: cut,
        }
    said |= {OF_BATCHES: depends_on_batch(model, x), OF_ARRAYS: arrays}
    notes += [text for text, holds in said.items() if holds]
    rows: tuple[LayerError, ...] = ()
    if isinstance(model, nn.Module) and (layers is None or len(layers)) and x.is_floating_point():
        rows = layer_equivariance(
            model,
            x[spread_mask(len(x), LAYER_EXAMPLES).to(x.device)],
            action,
            layers=layers,
            identity=identity,
            half_width=half_width,
            seed=seed,
        )
        rows = with_contributions(rows, model, x, action, half_width=half_width, seed=seed)
        if rows:
            errors = f"errors on {min(len(x), LAYER_EXAMPLES)} of {len(x):,} examples"
            notes.append(f"layers: {errors}, what each adds on {min(len(x), EXAMPLES)}")
    if local and is_smooth(action.group) and law_is_usual(about["output"]):
        few = x[spread_mask(len(x), LIE_EXAMPLES).to(x.device)]
        about["lie"] = lie_derivative(model, few, action, batch_size=batch_size, level=level)
        names = [row.name for row in rows if row.law in ("equivariance", "invariance")]
        if names:
            few = few[:LIE_LAYER_EXAMPLES]
            more = lie_derivative(model, few, action, layers=names, level=level)
            about["lie"] += tuple(row for row in more if row.name)
    return AuditResult(
        group=_name(action.group),
        elements=len(moves),
        exhaustive=moves.shared,
        identity=identity and moves.shared,
        range=() if moves.shared else _range(action.group, half_width, side),
        examples=len(x),
        closely=int(chosen.sum()),
        level=level,
        layers=rows,
        notes=tuple(notes),
        seconds=time.perf_counter() - begin,
        **about,
    )


def _classifier_part(
    model: Model,
    rows_of: Callable[[int, int], Tensor],
    y: Tensor | None,
    moves: Moves,
    look: Saliency | None,
    chosen: Tensor,
    start: int,
    stop: int,
    *,
    batch_size: int,
    seed: int,
) -> dict[str, Tensor]:
    """Return every measure of examples start, ..., stop - 1 of a classifier."""
    x = rows_of(start, stop)
    found = examine(
        model,
        x,
        None if y is None else y[start:stop],
        moves.rows(start, stop),
        look,
        closely=chosen[start:stop],
        batch_size=batch_size,
    )
    some = x[chosen[start:stop].to(x.device)]
    if look is not None and len(some):
        sigma = largest_singular_value(model, some, batch_size=batch_size, seed=seed)
        found["sensitivity"] = sigma.cpu()
    return found


def spread_mask(count: int, most: int | None) -> Tensor:
    """Mark at most ``most`` of ``count`` examples, spread evenly over them; None marks all.

    Example:
        >>> spread_mask(5, 2).tolist()
        [True, False, True, False, False]
    """
    if most is None or most >= count:
        return torch.ones(count, dtype=torch.bool)
    check_whole(most, "closely")
    found = torch.zeros(count, dtype=torch.bool)
    found[torch.arange(most) * count // most] = True
    return found


def _side(action: Action, x: Tensor) -> int | None:
    """Return the longer side of images, or the length of signals; None for data without pixels."""
    if isinstance(action, ImageAction):
        return max(x.shape[-2:])
    return x.shape[-1] if isinstance(action, SignalAction) else None


def _half_widths(
    group: Group[Any],
    given: Range | None,
    half_width: float | Sequence[float] | None,
    side: int | None,
) -> float | Sequence[float] | None:
    if given is None:
        return half_width
    if half_width is not None:
        remedy = "range is in degrees, pixels and factors, half_width in the group's own units"
        raise invalid("range", "one of range and half_width", "both", remedy)
    return parse_range(group, given, side)


def _range(
    group: Group[Any], half_width: float | Sequence[float] | None, side: int | None
) -> tuple[ParameterRange, ...]:
    widths: Sequence[float] = group.bounds
    if half_width is not None:
        one = isinstance(half_width, int | float)
        widths = [half_width] * group.dim if one else [*half_width]  # type: ignore[list-item, misc]
    rows = shown_range(group, widths, side)
    return tuple(ParameterRange(name=n, low=a, high=b, unit=u) for n, a, b, u in rows)


def _name(group: Group[Any]) -> str:
    try:
        return group_name(group)
    except ValueError:  # a user-defined group
        return repr(group)


def _in_batches(part: Part, count: int, size: int, shown: bool) -> dict[str, Tensor]:
    """Evaluate all examples batch by batch, with a bar."""
    console = Console(stderr=True)
    bar = track(range(0, count, size), "audit", console=console, disable=not shown, transient=True)
    return joined([part(start, min(start + size, count)) for start in bar])
