"""Conversion of a model's outputs to logits: probabilities, single logits, ``.logits``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, invalid
from symmetries._validation.placement import call_model
from symmetries.auditing.models import PROBE, Model, check_callable, model_device, untouched

CLASSIFIERS = ("logits", "probabilities")
KINDS = ("embedding", "map", "boxes", "points", "scalar", "vector", "energy", "sequence", "ctc")
OF_PROBABILITIES = (
    "the model gives probabilities: their logarithms are taken for its logits, and the sizes of "
    "logit errors, margins and saliency are those of log-probabilities"
)
OF_ONE_LOGIT = "the model gives one number: it is read as the logit of the second of two classes"


class Adapted(nn.Module):
    """Module composed with a function of its inputs and a function of its outputs.

    Args:
        model: the module.
        before: done to inputs.
        after: done to outputs.
    """

    def __init__(
        self,
        model: nn.Module,
        before: Callable[[Tensor], Tensor] | None = None,
        after: Callable[[Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.before = before
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's output for x, with both applied."""
        output = self.model(x if self.before is None else self.before(x))
        return output if self.after is None else self.after(output)


def adapt(
    model: Model,
    before: Callable[[Tensor], Tensor] | None = None,
    after: Callable[[Any], Tensor] | None = None,
) -> Model:
    """Compose a model with functions before and after it; a module stays a module.

    Example:
        >>> doubled = adapt(torch.sin, after=lambda y: 2 * y)
        >>> doubled(torch.zeros(1)).item()
        0.0
    """
    if isinstance(model, nn.Module):
        return Adapted(model, before, after)

    def adapted(x: Tensor) -> Tensor:
        output = model(x if before is None else before(x))
        return output if after is None else after(output)

    return adapted


OF_ARRAYS = "the model takes NumPy arrays: no gradients"


def on_arrays(model: Callable[[Any], Any]) -> Model:
    """Return a function of tensors that calls one of NumPy arrays, without gradients.

    Example:
        >>> on_arrays(lambda a: a.astype("float32") + 1)(torch.zeros(2)).tolist()
        [1.0, 1.0]
    """

    def call(x: Tensor) -> Any:  # noqa: ANN401 - whatever the model gives
        found = plain(model(x.detach().cpu().numpy()))
        return found.to(x.device) if isinstance(found, Tensor) else found

    return call


def taking_tensors(model: Model, x: Tensor) -> tuple[Model, bool]:
    """Return the model, and whether it needs NumPy arrays instead of tensors.

    A plain function that fails for tensors or returns an array is one of arrays, if it takes these.

    Args:
        model: any callable.
        x: (N, ...), of which the first two are used.
    """
    if isinstance(model, nn.Module):
        return model, False
    some = x[:2]
    try:
        with torch.no_grad():
            found = model(some)
        if not isinstance(found, np.ndarray):
            return model, False
    except Exception:  # whatever a function of arrays raises for a tensor
        found = None
    arrays = on_arrays(model)
    try:
        arrays(some)
    except Exception:  # it takes neither: what calls it says why
        return model, False
    return arrays, True


def named_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules by name, as the model inside of :class:`Adapted` names them."""
    while isinstance(model, Adapted):
        model = model.model
    return dict(model.named_modules())


@dataclass(frozen=True)
class Answers:
    """A classifier that returns logits (N, K), and what it returned before.

    Args:
        model: from inputs to logits (N, K), K >= 2.
        kind: "logits" or "probabilities", what the model gave.
        notes: what a reader should know about the reading.
    """

    model: Model
    kind: str
    notes: tuple[str, ...] = ()


def read_logits(
    model: Model, x: Tensor, y: Tensor | None = None, output: str | None = None
) -> Answers:
    """Find out what a classifier returns, and make it return logits (N, K).

    - An object or a mapping with ``logits``, as of Hugging Face, is replaced by these; a tuple or
      list of one tensor by that tensor.
    - Rows that are not negative and sum to one are probabilities: their logarithms are taken.
    - One number z per example, of shape (N,) or (N, 1), is the logit of the second of two
      classes, (0, z), if there are labels 0 and 1 or ``output`` says so. The errors of (0, z) are
      those of z, and its softmax is the sigmoid of z.

    Args:
        model: any callable.
        x: (N, ...), of which the first examples are used.
        y: (N,) class numbers, if there are any.
        output: "logits" or "probabilities" where this is known; None to find out.

    Example:
        >>> found = read_logits(lambda x: x.flatten(1).softmax(1), torch.rand(4, 1, 2, 2))
        >>> found.kind, found.model(torch.zeros(1, 1, 2, 2)).exp()[0, 0].item()
        ('probabilities', 0.25)
    """
    check_callable(model)
    if output is not None:
        check_choice(output, CLASSIFIERS, "output")
    some = x[:PROBE].to(model_device(model, x))
    with untouched(model), torch.no_grad():
        raw = call_model(model, some)
    found = plain(raw)
    if not isinstance(found, Tensor) or not found.is_floating_point():
        return Answers(model, output or "logits")  # what checks it says what is wrong
    steps: list[Callable[[Any], Any]] = [] if found is raw else [plain]
    notes: list[str] = []
    if found.shape in ((len(some),), (len(some), 1)):
        kind = _kind_of_one(found, y, output)
        steps.append(_two if kind == "logits" else _two_from_probability)
        notes.append(OF_ONE_LOGIT if kind == "logits" else OF_PROBABILITIES)
    else:
        kind = output or ("probabilities" if are_probabilities(found) else "logits")
        if kind == "probabilities":
            _check_probabilities(found)
            steps.append(log_probabilities)
            notes.append(OF_PROBABILITIES)
    if not steps:
        return Answers(model, kind)
    return Answers(adapt(model, after=_chain(steps)), kind, tuple(notes))


def plain(output: Any) -> Any:  # noqa: ANN401 - whatever a model returns
    """Return the logits of an object or mapping, or the one output of a container; else the output.

    Example:
        >>> plain({"logits": torch.zeros(2, 3), "loss": None}).shape
        torch.Size([2, 3])
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(output))
    if isinstance(output, Mapping) and isinstance(output.get("logits"), Tensor):
        return output["logits"]
    if isinstance(getattr(output, "logits", None), Tensor):
        return output.logits
    if isinstance(output, tuple | list) and len(output) == 1:
        return output[0]
    if isinstance(output, Mapping) and len(output) == 1:
        return next(iter(output.values()))
    return output


def output_names(output: Any) -> list[str]:  # noqa: ANN401 - whatever a model returns
    """Return names of several outputs: keys of a mapping, numbers of a tuple or list; else none.

    Example:
        >>> output_names({"masks": 1, "scores": 2}), output_names((1, 2))
        (['masks', 'scores'], ['0', '1'])
    """
    if isinstance(output, Mapping):
        return [str(key) for key in output]
    return [str(i) for i in range(len(output))] if isinstance(output, tuple | list) else []


def split_output(output: Any) -> tuple[str | None, Any]:  # noqa: ANN401 - text or a law
    """Name and kind from "boxes", "heatmap:map" or "heatmap"; anything else is a kind of one's own.

    Example:
        >>> split_output("boxes"), split_output("heatmap:map"), split_output("heatmap")
        ((None, 'boxes'), ('heatmap', 'map'), ('heatmap', None))
    """
    if not isinstance(output, str):
        return None, output
    name, _, kind = output.rpartition(":")
    if not name and kind not in (*CLASSIFIERS, *KINDS):
        name, kind = kind, ""
    return (name or None), (kind or None)


def pick(output: Any, name: str) -> Any:  # noqa: ANN401 - whatever a model returns
    """Select one of several outputs by key, by attribute, or by number."""
    try:
        if isinstance(output, Mapping):
            return output[name]
        if isinstance(output, tuple | list):
            return output[int(name)]
        if isinstance(output, Tensor | np.ndarray):  # their attributes are no outputs
            raise KeyError(name)
        return getattr(output, name)
    except (KeyError, IndexError, ValueError, AttributeError):
        several = output_names(output)
        known = (*several, *CLASSIFIERS, *KINDS)
        near = get_close_matches(name, known, 1)
        what = f"an output among {', '.join(several)}, or " if several else ""
        remedy = f"did you mean {near[0]}?" if near else "write NAME, KIND or NAME:KIND"
        expected = f"{what}a kind: {', '.join((*CLASSIFIERS, *KINDS))}"
        raise invalid("output", expected, repr(name), remedy) from None


def are_probabilities(output: Tensor) -> bool:
    """Whether all rows are non-negative and sum to one, up to rounding. This reads values."""
    if output.ndim != 2 or output.shape[1] < 2 or not output.is_floating_point():
        return False
    slack = 1e-3 if output.dtype in (torch.float32, torch.float64) else 2e-2
    return bool((output >= 0).all()) and bool(((output.double().sum(1) - 1).abs() < slack).all())


def log_probabilities(probabilities: Tensor) -> Tensor:
    """Return logarithms of probabilities, finite also for zeros."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def _check_probabilities(found: Tensor) -> None:
    if not are_probabilities(found):
        low, high = (float(end) for end in torch.aminmax(found))
        got = f"rows with values in [{low:.3g}, {high:.3g}] that do not all sum to one"
        raise invalid("output", "probabilities", got, 'give output="logits" if they are logits')


def _kind_of_one(found: Tensor, y: Tensor | None, output: str | None) -> str:
    """Whether one number per example is a logit or a probability, or an error that asks."""
    inside = bool(((found >= 0) & (found <= 1)).all())
    if output == "probabilities" and not inside:
        got = f"values up to {float(found.abs().max()):.3g}"
        raise invalid("output", "probabilities in [0, 1]", got, 'give output="logits"')
    if output is not None:
        return output
    binary = y is not None and int(y.max()) <= 1
    if binary and not inside:
        return "logits"
    got = f"one number for each example, {'all of them in [0, 1]' if inside else 'not only 0 to 1'}"
    remedy = (
        'say what it is: output="logits" for one logit of two classes, output="probabilities" '
        'for the probability of the second, output="scalar" for a number such as an energy'
    )
    raise invalid("model", "an output that can be told from its shape", got, remedy)


def _two(logit: Tensor) -> Tensor:
    z = logit.reshape(-1, 1)
    return torch.cat((torch.zeros_like(z), z), 1)


def _two_from_probability(probability: Tensor) -> Tensor:
    p = probability.reshape(-1, 1)
    return log_probabilities(torch.cat((1 - p, p), 1))


def _chain(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Tensor]:
    def chained(output: Any) -> Tensor:  # noqa: ANN401 - whatever a model returns
        for step in steps:
            output = step(output)
        return output

    return chained
