"""Models that ``symmetries audit`` reads: ours, exported, ONNX, callables, TorchScript."""

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from symmetries._validation.checks import as_path, invalid
from symmetries.auditing.onnx_check import first_line
from symmetries.auditing.saved_files import saved_weights
from symmetries.cli.identity import model_digest
from symmetries.cli.parts import in_precision
from symmetries.training import load_state
from symmetries.training.checkpoint import rebuilding

Model = Callable[[Tensor], Tensor]
SCRIPTS = (".pt", ".pth", ".ts")
INSTEAD = (
    "export it to ONNX, or build the network in a Python file of your own, load its weights from "
    "safetensors and name it as module:callable"
)
NEED_GRADIENTS = "saliency similarity, sensitivity and the table of layers"


@dataclass(frozen=True)
class Loaded:
    """A classifier, and what can be asked of it.

    Args:
        call: from images (N, C, H, W) to logits (N, K).
        layers: whether its layers can be looked into.
        without_gradients: why it has no gradients; None if it has.
        labels: for each logit the label of the data that it stands for; None if it is its number.
        fill: value of the background that it was fitted with; None where it is not known.
        digest: of its files, weights and answers; see :func:`model_digest`.
    """

    call: Model
    layers: bool = False
    without_gradients: str | None = None
    labels: tuple[int, ...] | None = None
    fill: float | None = None
    digest: str | None = None


def load_classifier(
    name: str,
    trust: bool,
    device: torch.device | str,
    precision: str = "32-true",
    images: Tensor | None = None,
) -> Loaded:
    """The classifier that a command names.

    - a folder: the model/ of ``symmetries fit``, or the folder that holds it;
    - an ``.onnx`` file;
    - ``module:callable``, such as ``mymodels:net`` for ``net`` in ``mymodels.py``;
    - a ``.pt2`` file of ``torch.export`` or a TorchScript file (.pt, .pth, .ts), only if trusted:
      loading one can run code that is in it.

    Args:
        name: one of these.
        trust: whether a file that can run code (.pt2, TorchScript) may be loaded.
        device: where a module goes; a plain callable stays as it is.
        precision: that it computes in.
        images: (N, C, H, W), some of those that it will see, to find out what it gives.
    """
    path = as_path(name, "model").expanduser()
    if path.is_dir():
        found = load_own(path / "model" if (path / "model").is_dir() else path)
    elif path.suffix == ".onnx" and path.is_file():
        found = _from_onnx(path, images)
    elif path.is_file():
        found = _from_file(path, trust)
    elif ":" in name:
        call = _from_module(name)
        found = Loaded(call, layers=isinstance(call, nn.Module))
    else:
        remedy = "name a model/ folder, an .onnx file, or module:callable"
        raise invalid("model", "an existing model", repr(name), remedy)
    if isinstance(found.call, nn.Module):
        found = replace(found, call=found.call.to(device))
    if isinstance(found.call, torch.jit.ScriptModule):
        script = found.call
        found = replace(found, call=lambda x: script(x))  # a module that is not quite one
    found = replace(found, call=in_precision(found.call, precision))
    if images is None:
        return found
    found = giving_logits(found, images)
    try:
        return replace(found, digest=model_digest(name, found.call, images))
    except Exception:  # a model that does not take the images, which is told later
        return found


def load_own(folder: Path) -> Loaded:
    """A classifier that ``symmetries fit`` wrote."""
    from symmetries import estimators

    _, meta = load_state(folder)
    kind = getattr(estimators, str(meta.get("estimator")), None)
    if kind is None or not hasattr(kind, "module"):
        got = f"a {meta.get('estimator') or meta.get('learner')}"
        raise invalid(str(folder), "a classifier", got, "name the model/ of symmetries fit")
    with rebuilding(folder, "a classifier"):
        classifier = kind.load(folder)
        labels = tuple(int(label) for label in classifier.classes_)
        module, fill = classifier.module(), float(classifier.fill_)
    # Layers of moved filters hold all poses at once, and no rows of examples.
    layers = kind is not estimators.InvariantClassifier
    return Loaded(module, layers=layers, labels=labels, fill=fill)


def giving_logits(model: Loaded, images: Tensor) -> Loaded:
    """The model, or its logarithm where it gives probabilities; warns about that."""
    from symmetries.auditing.models import untouched

    try:
        with untouched(model.call), torch.no_grad():
            found = model.call(images)
        whole = bool((found >= 0).all()) and bool(((found.sum(1) - 1).abs() < 1e-3).all())
    except Exception:  # whatever it is, it is told later
        return model
    if not whole or found.ndim != 2:
        return model
    text = "the model gives probabilities: their logarithms are taken for its logits"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    call = model.call
    return replace(model, call=Logarithm(call) if isinstance(call, nn.Module) else _log_of(call))


class Logarithm(nn.Module):
    """Logarithms of the probabilities that a module gives."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities (N, K)."""
        return _log(self.model(x))


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def _log_of(call: Model) -> Model:
    return lambda x: _log(call(x))


def _from_onnx(path: Path, images: Tensor | None) -> Loaded:
    from symmetries.auditing.onnx_graph import OnnxGraph, load_onnx

    call, problem = load_onnx(path, images)
    if problem is not None:
        text = f"{path}: no gradients ({problem}); left out: {NEED_GRADIENTS}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
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
    expected = "an .onnx, .pt2, .pt, .pth or .ts file"
    raise invalid("model", expected, f"the file {path}", INSTEAD)


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
    except (ImportError, AttributeError) as error:
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
    """The error for a model that does not take the images (N, C, H, W)."""
    got = f"{type(error).__name__}: {first_line(error)}"
    expected = f"a function of any number of images {tuple(images.shape[1:])}"
    return invalid("model", expected, got, "see --resize; export it with a dynamic first axis")
