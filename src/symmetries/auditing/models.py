"""Evaluate a model without side effects, and check its outputs before an audit."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from symmetries._utils.eval_mode import eval_mode
from symmetries._validation.checks import (
    check_class_range,
    check_finite,
    check_held,
    check_tensors,
    invalid,
    to_floats,
    wrong_type,
)
from symmetries._validation.placement import call_model

Model = Callable[[Tensor], Tensor]

PROBE = 8  # examples that the checks look at
CUT_OFF = "the outputs have no gradients with respect to the inputs (constant, or detached)"


@contextmanager
def untouched(model: Model) -> Iterator[None]:
    """Switch to eval mode inside the block, and restore modes and random states after it.

    Nothing here ever calls ``backward``, so gradients stay what they are.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    mode = eval_mode(model) if isinstance(model, nn.Module) else nullcontext()
    with torch.random.fork_rng(devices), mode:
        yield


@contextmanager
def hooks(*handles: RemovableHandle) -> Iterator[None]:
    """Hooks of modules that are removed at the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def model_device(model: Model, x: Tensor) -> torch.device:
    """Return the device of the model's parameters, or that of the data if it has none."""
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    first = next(parameters, None)
    return x.device if first is None else first.device


def differentiable(model: Model, x: Tensor) -> bool:
    """Whether gradients of the model's outputs reach its inputs (N, ...).

    They do not reach those of a constant, nor get through ``detach`` or ``no_grad``.

    Example:
        >>> [differentiable(one, torch.ones(2)) for one in (torch.sin, torch.zeros_like)]
        [True, False]
    """
    leaf = x[:2].detach().to(model_device(model, x)).clone().requires_grad_()
    with untouched(model), torch.enable_grad():
        output = call_model(model, leaf)
        if not isinstance(output, Tensor):
            return True  # what is wrong with it is said where it is read
        if not output.requires_grad:
            return False
        return torch.autograd.grad(output.sum(), leaf, allow_unused=True)[0] is not None


def check_classifier(model: Model, x: Tensor, y: Tensor | None = None) -> int:
    """Raise unless x is finite and the model gives finite, repeatable logits (N, K); returns K.

    Call it under :func:`untouched`.

    Args:
        model: from inputs to logits.
        x: (N, ...).
        y: (N,) class numbers, if there are any.
    """
    check_callable(model)
    check_examples(x)
    check_finite(x, "x")
    return check_answers(model, x, y)


def check_answers(model: Model, x: Tensor, y: Tensor | None = None) -> int:
    """Raise unless the model gives finite, repeatable logits for the first examples; returns K.

    Arguments as in :func:`check_classifier`; x was checked before.
    """
    _check_labels(y, len(x))
    some = x[:PROBE].to(model_device(model, x))
    with torch.no_grad():
        logits, again = logits_of(model, some), model(some)
    _check_values(logits)
    if float((logits - again).abs().max()) > 1e-3 * float(logits.abs().max()):
        got = f"outputs that differ by {float((logits - again).abs().max()):.3g}"
        remedy = "turn off dropout and sampling, or average inside of the model"
        raise invalid("model", "the same outputs when called twice", got, remedy)
    classes = logits.shape[1]
    if y is not None:
        try:
            check_class_range(y, classes, "y")
        except ValueError as error:
            raise ValueError(
                f'{error}; output="embedding" (--output) if these are no logits'
            ) from error
    return classes


def logits_of(model: Model, x: Tensor) -> Tensor:
    """Return the model's logits (N, K) for x, checked without synchronising."""
    logits = call_model(model, x)
    check_logits(logits, len(x))
    return logits


def check_logits(logits: object, count: int) -> None:
    """Raise unless ``logits`` are floating-point (N, K), for N = ``count`` examples."""
    if not isinstance(logits, Tensor):
        got, remedy = type(logits).__name__, "wrap the model so that it returns its logits alone"
        if isinstance(logits, Mapping):
            got += f" with {', '.join(map(str, logits))}"
            remedy = (
                f'choose one: output="NAME:KIND" (--output), such as "{next(iter(logits))}:map"'
            )
        elif isinstance(logits, tuple | list):
            got += f" of {len(logits)}"
            remedy = 'choose one: output="0:KIND" (--output), such as "0:logits" for the first'
        raise invalid("model", "one tensor of logits (N, K)", got, remedy)
    if logits.ndim != 2 or len(logits) != count:
        got = f"shape {tuple(logits.shape)} for {count} examples"
        remedy = "wrap the model so that it returns one row of K logits per example"
        raise invalid("model", "logits of shape (N, K)", got, remedy)
    if not logits.is_floating_point():
        got = f"{logits.dtype}"
        raise invalid("model", "floating-point logits", got, "return logits, not class numbers")


def check_callable(model: object) -> None:
    """Raise unless ``model`` can be called."""
    if not callable(model):
        remedy = "give a network"
        if hasattr(model, "module"):
            remedy = "give its network: model.module()"
        elif hasattr(model, "predict_proba"):
            remedy = "give a function of tensors that returns the logarithm of its predict_proba, "
            remedy += "with gradients=False"
        raise wrong_type("model", "a function from inputs to logits", model, remedy)


def check_examples(x: Tensor, name: str = "x") -> None:
    """Raise unless ``x`` is a floating-point tensor (N, ...) with at least one example."""
    check_tensors(**{name: x})
    if x.ndim < 2 or len(x) == 0 or not x.is_floating_point():
        got = f"shape {tuple(x.shape)}, {x.dtype}"
        remedy = to_floats(x, name, "reshape it" if len(x.shape) < 2 else "check the loader")
        raise invalid(name, "floating-point (N, ...) with at least one example", got, remedy)


def _check_labels(y: Tensor | None, count: int) -> None:
    if y is None:
        return
    check_tensors(y=y)
    if y.shape != (count,) or y.is_floating_point() or y.is_complex():
        got = f"shape {tuple(y.shape)}, {y.dtype}"
        raise invalid("y", f"{count} class numbers", got, "give one whole number per example")
    check_held(y, "y")


def _check_values(logits: Tensor) -> None:
    if logits.shape[1] < 2:
        got = f"shape {tuple(logits.shape)}"
        remedy = "wrap the model so that it returns one row of K >= 2 logits per example"
        raise invalid("model", "logits of shape (N, K) with K >= 2", got, remedy)
    check_finite(logits, "model outputs")
    if bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() < 1e-3).all()):
        remedy = "leave out the softmax, or return log-probabilities: probabilities.log()"
        raise invalid("model", "logits", "probabilities (rows that sum to 1)", remedy)
