"""Models that ``symmetries audit`` reads: ours, exported programs, callables, TorchScript."""

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from symmetries.checks import invalid
from symmetries.cli.classifiers import Classifier
from symmetries.cli.relaxed import RelaxedClassifier
from symmetries.training import load_state

Model = Callable[[Tensor], Tensor]
SCRIPTS = (".pt", ".pth", ".ts")


def load_classifier(name: str, trust: bool = False, device: torch.device | str = "cpu") -> Model:
    """The classifier that a command names.

    - a folder: the model/ of ``symmetries fit``, or the folder that holds it;
    - a ``.pt2`` file of ``torch.export``;
    - ``module:callable``, such as ``mymodels:net`` for ``net`` in ``mymodels.py``;
    - a TorchScript file (.pt, .pth, .ts), only if trusted: loading one runs code in it.

    Args:
        name: one of these.
        trust: whether TorchScript may be loaded.
        device: where a module goes; a plain callable stays as it is.
    """
    path = Path(name).expanduser()
    found: Model
    if path.is_dir():
        found = load_own(path / "model" if (path / "model").is_dir() else path)
    elif path.is_file():
        found = _from_file(path, trust)
    elif ":" in name:
        found = _from_module(name)
    else:
        remedy = "name a model/ folder, a .pt2 file, or module:callable"
        raise invalid("model", "an existing model", repr(name), remedy)
    if isinstance(found, nn.Module):
        found = found.to(device)
    if isinstance(found, torch.jit.ScriptModule):
        script = found
        return lambda images: script(images)  # its layers cannot be looked into
    return found


def load_own(folder: Path) -> Classifier | RelaxedClassifier:
    """A classifier that ``symmetries fit`` wrote."""
    _, meta = load_state(folder)
    kinds: dict[str, type[Classifier] | type[RelaxedClassifier]] = {
        "invariant_weights": Classifier,
        "relaxed": RelaxedClassifier,
    }
    kind = kinds.get(str(meta.get("learner")))
    if kind is None:
        got = f"a {meta.get('learner')}"
        raise invalid(str(folder), "a classifier", got, "name the model/ of symmetries fit")
    return kind.load(folder)


def _from_file(path: Path, trust: bool) -> Model:
    if path.suffix == ".pt2":
        try:
            program = torch.export.load(path)
        except Exception as error:  # whatever is wrong with the file
            got = f"{type(error).__name__}: {error}"
            raise invalid(str(path), "a torch.export file", got, "export it again") from error
        return program.module()
    if path.suffix == ".onnx":
        remedy = "audits need gradients, which ONNX has none of: save it with torch.export.save"
        raise invalid(str(path), "a model with gradients", "an ONNX file", remedy)
    if path.suffix in SCRIPTS:
        if not trust:
            remedy = "add --trust if you know where it comes from, or export it as .pt2"
            raise invalid(str(path), "a file that is safe to load", "TorchScript", remedy)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                module: nn.Module = torch.jit.load(str(path), map_location="cpu")
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            raise invalid(str(path), "a TorchScript file", first, "save it again") from error
        return module
    expected = "a .pt2, .pt, .pth or .ts file"
    raise invalid("model", expected, f"the file {path}", "save it with torch.export.save")


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
    got = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    expected = f"a function of any number of images {tuple(images.shape[1:])}"
    return invalid("model", expected, got, "see --resize; export it with a dynamic first axis")
