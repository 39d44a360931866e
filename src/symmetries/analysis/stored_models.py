"""Classifiers by name: saved by this package, exported, ONNX, callables, TorchScript."""

import importlib
import sys
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import as_path, invalid, short, wrong_type
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.identity import model_digest
from symmetries.analysis.preprocessing import InPrecision, preprocessed
from symmetries.auditing.answers import (
    CLASSIFIERS,
    OF_ARRAYS,
    read_logits,
    split_output,
    taking_tensors,
)
from symmetries.auditing.models import CUT_OFF, Model, differentiable, untouched
from symmetries.auditing.onnx_check import first_line, parse_inputs
from symmetries.auditing.onnx_graph import OnnxGraph, load_onnx
from symmetries.auditing.run import Output
from symmetries.auditing.run_outputs import choose_law
from symmetries.auditing.saved_files import saved_weights
from symmetries.data.labels import Names
from symmetries.estimators import InvariantClassifier, RelaxedClassifier
from symmetries.results import Preprocessing
from symmetries.training import load_state
from symmetries.training.checkpoint import rebuilding

SCRIPTS = (".pt", ".pth", ".ts")
INSTEAD = (
    "export it to ONNX, or build the network in a Python file of your own, load its weights from "
    "safetensors and name it as module:callable"
)
NEED_GRADIENTS = "saliency similarity, sensitivity and the table of layers"


@dataclass(frozen=True)
class Loaded:
    """A classifier, and which measures it supports.

    Args:
        call: from images (N, C, H, W) to logits (N, K).
        layers: whether its layers can be looked into.
        without_gradients: why it has no gradients; None if it has.
        labels: for each logit the label of the data that it stands for, a number or the name of a
            class; None if it is its number.
        fill: value of the background that it was fitted with; None where it is not known.
        digest: of its files, weights and answers; see :func:`model_digest`.
        kind: of its output, before probabilities were made logits.
        law: how it moves, where that is of the user's own.
        notes: what is to be said about that.
    """

    call: Model
    layers: bool = False
    without_gradients: str | None = None
    labels: tuple[int | str, ...] | None = None
    fill: float | None = None
    digest: str | None = None
    kind: str = "logits"
    law: Output = None
    notes: tuple[str, ...] = ()


def label_numbers(loaded: Loaded, names: Names | None) -> tuple[int, ...] | None:
    """For each logit the class number in data whose classes have these names; -1 without one."""
    if loaded.labels is None:
        return None
    numbers = tuple(label for label in loaded.labels if isinstance(label, int))
    if numbers:
        return numbers
    if names is None:
        expected = f"names of classes, as the model was fitted to {short(loaded.labels)}"
        raise invalid("labels", expected, "numbers", "give the names that it was fitted to")
    return tuple(names.index(str(label)) if label in names else -1 for label in loaded.labels)


def right_answers(loaded: Loaded, labels: Tensor, names: Names | None) -> Tensor:
    """Return the number of the logit of each label (N,); -1 if there is none."""
    numbers = label_numbers(loaded, names)
    if numbers is None:
        return labels
    known = {label: number for number, label in enumerate(numbers)}
    return torch.tensor([known.get(int(label), -1) for label in labels])


def load_classifier(
    model: "str | Path | Model | Classifier",
    trust: bool,
    device: torch.device | str,
    precision: str = "32-true",
    *,
    images: Tensor,
    preprocessing: Preprocessing | None = None,
    labels: Tensor | None = None,
    output: Output = None,
    inputs: str | Mapping[str, Any] | None = None,
) -> Loaded:
    """Return a classifier that is given in memory, or load the one that a name stands for.

    - a folder: the model/ of ``symmetries fit``, or the folder that holds it;
    - an ``.onnx`` file;
    - ``module:callable``, such as ``mymodels:net`` for ``net`` in ``mymodels.py``;
    - a ``.pt2`` file of ``torch.export`` or a TorchScript file (.pt, .pth, .ts), only if trusted:
      loading one can run code that is in it.

    Args:
        model: one of these, a callable from images to logits, or a fitted estimator.
        trust: whether a file that can run code (.pt2, TorchScript) may be loaded.
        device: where a module goes; a plain callable stays as it is.
        precision: that it computes in.
        images: (N, C, H, W), some of those that it will see, to find out what it gives.
        preprocessing: what is done to images before the model sees them.
        labels: of all images, if there are any.
        output: what the model gives, where that is known; see :func:`audit_model`.
        inputs: values of the other inputs of an ONNX file.
    """
    if inputs is not None and not str(model).endswith(".onnx"):
        remedy = "leave it out: only ONNX files have inputs by name"
        raise invalid("inputs", "an ONNX file", type(model).__name__, remedy)
    others = parse_inputs(inputs) if isinstance(inputs, str) else inputs
    if isinstance(model, str | Path):
        seen = images if preprocessing is None else preprocessed(torch.clone, preprocessing)(images)
        found, output = _by_name(str(model), trust, seen, output, others)
        if found.without_gradients is not None:
            text = f"{model}: no gradients ({found.without_gradients}); left out: {NEED_GRADIENTS}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    elif isinstance(model, InvariantClassifier | RelaxedClassifier):
        found = _from_estimator(model)
    elif callable(model):
        found = Loaded(model, layers=isinstance(model, nn.Module))
    else:
        remedy = "give a function from images to logits, or the path of a saved one"
        if hasattr(model, "predict_proba"):
            remedy = (
                "give a function of arrays: lambda x: model.predict_proba(x.reshape(len(x), -1))"
            )
        raise wrong_type("model", "a classifier", model, remedy)
    if isinstance(found.call, nn.Module):
        found = replace(found, call=found.call.to(device))
    if isinstance(found.call, torch.jit.ScriptModule):
        script = found.call
        found = replace(found, call=lambda x: script(x))  # a module that is not quite one
    if precision != "32-true":
        found = replace(found, call=InPrecision(found.call, precision))
    if preprocessing is not None:
        found = replace(found, call=preprocessed(found.call, preprocessing))
    call, arrays = taking_tensors(found.call, images)
    if arrays:
        found = replace(found, call=call, without_gradients=OF_ARRAYS)
    with untouched(found.call):
        check_batches(found.call, images)
    found = giving_logits(found, images, labels, output)
    gradients = found.without_gradients is None and found.kind in CLASSIFIERS
    if gradients and not differentiable(found.call, images):
        found = replace(found, without_gradients=CUT_OFF)
    try:
        return replace(found, digest=model_digest(str(model), found.call, images))
    except Exception:  # weights without bytes: nothing of it may be resumed
        return replace(found, digest=uuid.uuid4().hex)


def load_function(model: str, x: Tensor) -> Model:
    """The differentiable function of vectors that a name stands for; see :func:`load_classifier`.

    An ONNX file is compared with ONNX Runtime as for an audit. Outputs stay as they are.

    Args:
        model: its name.
        x: (n, d), float64, some of the vectors that it will be asked about.
    """
    found, _ = _by_name(model, False, x)
    if found.without_gradients is not None:
        remedy = "give a function of torch tensors, or the data that it answers with"
        raise invalid("model", "one with gradients", found.without_gradients, remedy)
    return found.call


def _by_name(
    name: str,
    trust: bool,
    images: Tensor,
    output: Output = None,
    others: Mapping[str, Any] | None = None,
) -> tuple[Loaded, Output]:
    """Load a model by name, and return which output is still to be chosen (ONNX chooses here)."""
    chosen, kind = split_output(output)
    path = as_path(name, "model").expanduser()
    if path.suffix == ".onnx" and path.is_file():
        return _from_onnx(path, images, chosen, others), kind
    return _other_by_name(name, trust), output


def _other_by_name(name: str, trust: bool) -> Loaded:
    path = as_path(name, "model").expanduser()
    if path.is_dir():
        return load_own(path / "model" if (path / "model").is_dir() else path)
    if path.is_file():
        return _from_file(path, trust)
    if ":" in name:
        call = _from_module(name)
        return Loaded(call, layers=isinstance(call, nn.Module))
    remedy = "name a model/ folder, an .onnx file, or module:callable"
    raise invalid("model", "an existing model", repr(name), remedy)


def load_own(folder: Path) -> Loaded:
    """Return a classifier that ``symmetries fit`` wrote."""
    _, meta = load_state(folder)
    kinds: dict[str, type[Classifier]] = {
        kind.__name__: kind for kind in (InvariantClassifier, RelaxedClassifier)
    }
    kind = kinds.get(str(meta.get("estimator")))
    if kind is None:
        got = f"a {meta.get('estimator') or meta.get('learner')}"
        raise invalid(str(folder), "a classifier", got, "name the model/ of symmetries fit")
    with rebuilding(folder, "a classifier"):
        return _from_estimator(kind.load(folder))


def _from_estimator(classifier: Classifier) -> Loaded:
    classes = classifier.classes_
    kind = str if classes.dtype.kind in "UO" else int
    labels = tuple(kind(label) for label in classes)
    # Layers of moved filters hold all poses at once, and no rows of examples.
    layers = not isinstance(classifier, InvariantClassifier)
    return Loaded(classifier.module(), layers=layers, labels=labels, fill=classifier.fill_)


def giving_logits(
    model: Loaded, images: Tensor, labels: Tensor | None = None, output: Output = None
) -> Loaded:
    """Return the model with logits as its output if it is a classifier; warns about probabilities.

    Args:
        model: as it was loaded.
        images: (N, C, H, W), some of those that it will see.
        labels: (N,) of all images, if there are any.
        output: what it gives, where that is known.
    """
    call, law, kind = choose_law(model.call, images, output, images=True)
    if law is not None:
        return replace(model, call=call, kind=law.kind, law=output if law.kind == "own" else None)
    found = read_logits(call, images, labels, kind)
    for note in found.notes:
        warnings.warn(note, RuntimeWarning, stacklevel=2)
    return replace(model, call=found.model, kind=found.kind, notes=found.notes)


def _from_onnx(
    path: Path, images: Tensor, output: str | None, others: Mapping[str, Any] | None
) -> Loaded:
    call, problem = load_onnx(path, images, output=output, others=others)
    layers = isinstance(call, OnnxGraph) and call.batch is None
    return Loaded(call, layers=layers, without_gradients=problem)


def _from_file(path: Path, trust: bool) -> Loaded:
    if path.suffix == ".pt2":
        _check_trust(path, trust, "a torch.export program")
        try:
            program = torch.export.load(path)
        except Exception as error:  # whatever is wrong with the file
            got = f"{type(error).__name__}: {error}"
            raise invalid(str(path), "a torch.export file", got, "export it again") from error
        return Loaded(program.module(), layers=True)
    if path.suffix in SCRIPTS:
        weights = saved_weights(path)
        if weights is not None:
            raise invalid(str(path), "a model", weights, INSTEAD)
        _check_trust(path, trust, "TorchScript")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                module = torch.jit.load(str(path), map_location="cpu")
        except RuntimeError as error:
            said = first_line(error)
            raise invalid(str(path), "a TorchScript file", said, "save it again") from error
        return Loaded(module)  # its layers cannot be looked into
    raise invalid("model", "an .onnx, .pt2, .pt, .pth or .ts file", f"the file {path}", INSTEAD)


def _check_trust(path: Path, trust: bool, kind: str) -> None:
    """Refuse a file that can run code when it is loaded, unless the user trusts it."""
    if not trust:
        remedy = f"{INSTEAD}; or add --trust (trust=True) if you know who made it"
        got = f"{kind}, which can run code when it is loaded"
        raise invalid(str(path), "a file that is safe to load", got, remedy)


def _from_module(name: str) -> Model:
    module_name, _, attribute = name.rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "give module:callable, importable from here"
        raise invalid("model", f"a callable {name!r}", str(error), remedy) from error
    finally:
        sys.path.remove(str(Path.cwd()))
    if isinstance(found, type) or not callable(found):
        got = "a class" if isinstance(found, type) else type(found).__name__
        raise invalid("model", f"a function or module {name!r}", got, "make an instance of it")
    return found


def check_batches(model: Model, images: Tensor) -> None:
    """Raise unless the model takes the images, any number of them at once.

    Args:
        model: from images to logits.
        images: (N, C, H, W), at least 3.
    """
    for count in (len(images[:3]), 2):
        try:
            with torch.no_grad():
                model(images[:count])
        except Exception as error:  # whatever a foreign model raises
            raise unfit(error, images) from error


def unfit(error: Exception, images: Tensor) -> ValueError:
    """Build the error for a model that does not accept the images, to be raised by the caller."""
    got = f"{type(error).__name__}: {first_line(error)}"
    expected = f"a function of any number of images {tuple(images.shape[1:])}"
    remedy = "see --resize; export it with a dynamic first axis"
    if any(name in got for name in ("Half", "BFloat16", "Double")):
        remedy = 'give it in float32 (model.float()); precision="64-true" converts it'
    if "channels" in got:
        remedy = "give pictures with those that it takes: grey ones are given three with normalize="
        remedy += " (--normalize), or by images.expand(-1, 3, -1, -1)"
    return invalid("model", expected, got, remedy)
