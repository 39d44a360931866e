"""Audit of outputs other than logits: embeddings, maps, boxes, scalars, vectors, sequences."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, invalid
from symmetries._validation.placement import call_model
from symmetries.auditing.answers import CLASSIFIERS, KINDS, adapt, pick, plain, split_output
from symmetries.auditing.elements import Moves
from symmetries.auditing.estimate import estimate
from symmetries.auditing.examine import ROUND_TRIP, add, joined
from symmetries.auditing.models import PROBE, Model, model_device, untouched
from symmetries.auditing.representations import Representation, representation
from symmetries.auditing.summarise import SHARES, estimate_share
from symmetries.results import Estimate

BATCH_ROUNDING = 0.02  # of the largest output: bfloat16 in batches of other sizes
SPREAD = "output"  # the outputs themselves, for the spread of scalars


def examine_outputs(
    model: Model,
    x: Tensor,
    moves: Moves,
    law: Representation,
    closely: Tensor,
    batch_size: int = 256,
) -> dict[str, Tensor]:
    """Return every measure of every example, averaged over the elements.

    Args:
        model: from inputs to outputs of any kind.
        x: (N, ...).
        moves: the elements.
        law: how outputs should move.
        closely: (N,) bool, the examples for the effect of resampling alone.
        batch_size: number of examples at once.
    """
    device = model_device(model, x)
    rows: list[dict[str, Tensor]] = []
    with untouched(model), torch.no_grad():
        for start in range(0, len(x), batch_size):
            batch = x[start : start + batch_size].to(device)
            chosen = closely[start : start + batch_size].nonzero()[:, 0]
            still = read(model, batch, law)
            sums: dict[str, Tensor] = {}
            for element in moves.of(start, start + len(batch), device):
                moved = read(model, moves.action(element, batch), law)
                errors = law.compare(moves, element, still, moved, batch)
                if len(chosen):
                    some, few = batch[chosen.to(device)], _rows(still, chosen)
                    part = moves.some(element, chosen.to(device))
                    there = moves.there_and_back(part, some)
                    same = torch.equal(there, some)
                    again = few if same else read(model, there, law)
                    alone = law.alone(moves, part, few, again, some)
                    errors |= {name + ROUND_TRIP: values for name, values in alone.items()}
                for name, values in errors.items():
                    add(sums, name, values)
            found = {name: (total / len(moves)).cpu() for name, total in sums.items()}
            if isinstance(still, Tensor) and law.kind == "scalar":
                found[SPREAD] = still.double().reshape(len(still), -1).cpu()
            rows.append(found)
    return joined(rows)


def read(model: Model, x: Tensor, law: Representation) -> Any:  # noqa: ANN401
    """Evaluate the model on x, and convert the output to the form of its kind."""
    return law.read(plain(call_model(model, x)), len(x))


def summarise_outputs(values: dict[str, Tensor], level: float) -> dict[str, Estimate]:
    """Return measures by name, with intervals and what resampling alone explains."""
    measures: dict[str, Estimate] = {}
    spread = values.pop(SPREAD, None)
    for name, numbers in values.items():
        check_finite(numbers, name.replace("_", " "))
    for name, numbers in values.items():
        if name.endswith(ROUND_TRIP):
            continue
        least = -1.0 if name == "cosine" else 0.0
        most = 1.0 if name in ("cosine", "overlap", "share_at_the_border") else math.inf
        share = name in (*SHARES, "matched")
        found = (
            estimate_share(numbers, level)
            if share
            else estimate(numbers, level=level, least=least, most=most)
        )
        back = values.get(name + ROUND_TRIP)
        alone = None if back is None else float(back.double().mean())
        measures[name] = found.model_copy(update={"discretisation": alone})
    if spread is not None and float(spread.std(0).mean()) > 0:
        error, width = measures["absolute_error"], float(spread.std(0).mean())
        scaled = {k: getattr(error, k) / width for k in ("mean", "standard_error", "low", "high")}
        alone = error.discretisation
        scaled["discretisation"] = None if alone is None else alone / width
        measures["error_of_spread"] = Estimate.model_validate(scaled)
    return measures


def choose_law(
    model: Model,
    x: Tensor,
    output: Any,  # noqa: ANN401 - text, an action or a function
    images: bool,
) -> tuple[Model, Representation | None, str | None]:
    """The model with the chosen output, the law of that output, and "logits" or "probabilities".

    Args:
        model: any callable.
        x: (N, ...).
        output: "KIND", "NAME", "NAME:KIND", an action on outputs, or a function
            act(element, output); None to find out.
        images: whether the inputs are images.

    Returns:
        The law is None for classifiers; then the last is their kind, or None to find out.
    """
    name, kind = split_output(output)
    if name is not None:
        model = adapt(model, after=partial(pick, name=name))
    if kind in CLASSIFIERS:
        return model, None, kind
    if isinstance(kind, str) and kind not in KINDS:
        expected = f"one of {', '.join(map(repr, (*CLASSIFIERS, *KINDS)))}"
        raise invalid("output", expected, repr(kind), "choose one of these, or NAME:KIND")
    if kind is None:
        kind = found_kind(model, x, images)
    if kind is None:
        return model, None, None
    law = representation(kind)
    check_repeatable(model, x, law)
    return model, law, law.kind


def outputs_are_constant(model: Model, x: Tensor, law: Representation) -> bool:
    """Whether the outputs of the first examples are all the same, or all without boxes."""
    with untouched(model), torch.no_grad():
        found = read(model, x[:PROBE].to(model_device(model, x)), law)
    if isinstance(found, Tensor):
        return len(found) > 1 and bool((found == found[:1]).all())
    return len(found) > 1 and all(str(one) == str(found[0]) for one in found)


def check_repeatable(model: Model, x: Tensor, law: Representation) -> None:
    """Raise unless the model gives finite outputs of this kind, the same when called twice."""
    some = x[:PROBE].to(model_device(model, x))
    with untouched(model), torch.no_grad():
        first, second = read(model, some, law), read(model, some, law)
    if isinstance(first, Tensor):
        check_finite(first, "model outputs")
        differs = float((first - second).abs().max()) > 1e-3 * float(first.abs().max())
    else:
        pairs = zip(first, second, strict=True)
        differs = any(str(a) != str(b) for a, b in pairs)
    if differs:
        remedy = "turn off dropout and sampling, or average inside of the model"
        raise invalid("model", "the same outputs when called twice", "outputs that differ", remedy)


def found_kind(model: Model, x: Tensor, images: bool) -> str | None:
    """The kind of a model's output where its type or shape tells; None for logits and the like.

    Args:
        model: any callable.
        x: (N, ...), of which the first two are used.
        images: whether the inputs are images, so that (N, C, H, W) are maps, as of volumes.
    """
    some = x[:2].to(model_device(model, x))
    with untouched(model), torch.no_grad():
        output = plain(call_model(model, some))
    if isinstance(output, list) and len(output) == len(some):
        first = output[0]
        if isinstance(first, str):
            return "sequence"
        if isinstance(first, Mapping) and "boxes" in first:
            return "boxes"
    if not isinstance(output, Tensor):
        return None
    like_inputs = output.ndim == x.ndim and (images or x.ndim == 5)
    if like_inputs and len(output) == len(some) and output.is_floating_point():
        return "map"
    if output.ndim == 3 and len(output) == len(some):
        remedy = f"say what it is: output= one of {', '.join(map(repr, KINDS))}, or an action"
        expected = "an output that can be told from its shape"
        raise invalid("model", expected, f"shape {tuple(output.shape)}", remedy)
    return None


def _rows(value: Any, chosen: Tensor) -> Any:  # noqa: ANN401 - a tensor or a list
    if isinstance(value, Tensor):
        return value[chosen.to(value.device)]
    return [value[i] for i in chosen.tolist()]


def depends_on_batch(model: Model, x: Tensor) -> bool:
    """Whether the output for an example depends on the rest of its batch, beyond rounding."""
    some = x[:PROBE].to(model_device(model, x))
    with untouched(model), torch.no_grad():
        beside = plain(model(some))
        try:
            alone = plain(model(some[:1]))
        except Exception:  # a model of a fixed number of examples
            return False
    if not isinstance(beside, Tensor) or not isinstance(alone, Tensor) or not len(beside):
        return False
    beside, alone = beside[:1].double(), alone.double()
    size = float(beside.abs().max()) if beside.numel() else 0.0
    return beside.shape == alone.shape and not torch.allclose(
        beside, alone, rtol=0, atol=BATCH_ROUNDING * size
    )
