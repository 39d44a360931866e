"""Good calls of every public entry point: what campaign/inputs.py spoils, argument by argument.

Entry points are read off the package, and good calls off the examples in their docstrings: the
example is run, and the calls that it makes are recorded. So a new entry point cannot be forgotten:
without an example it needs a line in ``BY_HAND``, or the campaign and its test fail.
"""

import copy
import doctest
import importlib
import inspect
import io
import pkgutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import seeds
import torch
from pydantic import BaseModel
from torch import Tensor, nn
from typer.testing import CliRunner

import symmetries.learners
import symmetries.nn
from symmetries import (
    actions,
    auditing,
    data,
    distributions,
    estimators,
    groups,
    sweeps,
    training,
)
from symmetries.cli import app
from symmetries.data import ImageSet
from symmetries.groups import Affine2, Cyclic
from symmetries.learners import invariant_vae, invariant_weights, relaxed, symmetry_model, vae
from symmetries.nn import autoencoder, conversion, diagonal_gaussian, relaxed_networks
from symmetries.nn.relaxation import relaxed_layers

FACES = (actions, auditing, data, distributions, estimators, groups, sweeps, training)
# Dataclasses that the library makes and users read.
RESULTS = {
    *("DriftPoint", "Estimate", "Evaluation", "LayerError", "SymmetrySummary", "History"),
    *("AuditResult", "Parameter"),
    *("Summary", "GenerativeSummary", "InvarianceSummary", "RelaxedSummary"),
}
TYPES = {"Batch", "Data"}  # names for annotations
FOR_MODELS = {"conversion", "relaxation", "tied"}  # of nn: functions of users' models


@dataclass(frozen=True)
class Call:
    """One good call: of the entry point itself, or of a method of what it makes.

    Args:
        name: "" for the entry point itself.
        function: to be called.
        arguments: by name.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def entry_points() -> dict[str, Any]:
    """Every public callable: of the packages' faces, of the learners, layers, and commands."""
    found: dict[str, Any] = {}
    for face in FACES:
        for name in face.__all__:
            found[f"{face.__name__.removeprefix('symmetries.')}.{name}"] = getattr(face, name)
    for info in pkgutil.iter_modules(symmetries.learners.__path__):
        module = importlib.import_module(f"symmetries.learners.{info.name}")
        own = [
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        for name in getattr(module, "__all__", own):
            if not name.startswith("_"):
                found[f"learners.{info.name}.{name}"] = getattr(module, name)
    for info in pkgutil.iter_modules(symmetries.nn.__path__):
        module = importlib.import_module(f"symmetries.nn.{info.name}")
        for name, value in vars(module).items():
            layer = inspect.isclass(value) and issubclass(value, nn.Module)
            wanted = layer or (info.name in FOR_MODELS and inspect.isfunction(value))
            if wanted and value.__module__ == module.__name__ and not name.startswith("_"):
                found[f"nn.{info.name}.{name}"] = value
    return {n: v for n, v in found.items() if not is_plain(v) and n.split(".")[-1] not in TYPES}


def commands() -> list[str]:
    """Every command of the command line, by its words."""
    found = [str(command.name or command.callback.__name__) for command in app.registered_commands]
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            found.append(f"{group.name} {command.name or command.callback.__name__}")
    return found


def is_plain(value: Any) -> bool:  # noqa: ANN401
    """Whether there is nothing to spoil: records (which pydantic checks), errors, plain data."""
    if not callable(value):
        return True
    if not inspect.isclass(value):
        return False
    abstract = inspect.isabstract(value) or Protocol in value.__mro__
    return issubclass(value, BaseModel | BaseException) or abstract or value.__name__ in RESULTS


def good_calls(name: str, entry: Any) -> list[Call]:  # noqa: ANN401
    """Calls of an entry point that succeed: by hand, or those that its example makes."""
    if name in BY_HAND:
        function, arguments = BY_HAND[name]()
        return [Call("", function, arguments)]
    recorder = _Recorder(entry)
    recorder.run_example()
    return [call for call in recorder.calls if _works(call)]


def _works(call: Call) -> bool:
    try:
        call.function(**call.arguments)
    except Exception:  # an example's temporary file, or a method that needs its place in the row
        return False
    return True


class _Recorder:
    """Runs the example of an entry point and keeps the first call of it and of each method."""

    def __init__(self, entry: Any) -> None:  # noqa: ANN401
        self.entry = entry
        self.calls: list[Call] = []

    def run_example(self) -> None:
        module = importlib.import_module(self.entry.__module__)
        text = inspect.getdoc(self.entry) or ""
        namespace = {**vars(module), self.entry.__name__: self._spy("", self.entry)}
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for example in doctest.DocTestParser().get_examples(text):
                if example.exc_msg is None:
                    exec(compile(example.source, "<example>", "single"), namespace)  # noqa: S102

    def _spy(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if all(known.name != name for known in self.calls):
                try:
                    bound = inspect.signature(function).bind(*args, **kwargs)
                    self.calls.append(Call(name, function, _flat(function, bound)))
                except (TypeError, ValueError):
                    pass
            made = function(*args, **kwargs)
            if inspect.isclass(function):
                self._watch(made)
            return made

        return call

    def _watch(self, made: Any) -> None:  # noqa: ANN401
        for name, method in inspect.getmembers(type(made), inspect.isfunction):
            own = method.__module__.startswith("symmetries")
            if own and (not name.startswith("_") or name == "__call__"):
                bound = getattr(made, name)
                spy = self._spy("forward" if name == "__call__" else name, bound)
                try:
                    object.__setattr__(made, name, spy)
                except (AttributeError, TypeError):
                    continue
        if hasattr(type(made), "__call__") and not isinstance(made, nn.Module):  # noqa: B004
            kind = type(made)
            watched = type(
                kind.__name__, (kind,), {"__call__": lambda _, *a, **k: spy_call(*a, **k)}
            )
            spy_call = self._spy("call", copy.copy(made))
            with suppress(TypeError, AttributeError):
                made.__class__ = watched


def _flat(function: Callable[..., Any], bound: inspect.BoundArguments) -> dict[str, Any]:
    """Arguments by name; those of *args keep the name of the parameter, as a tuple."""
    kinds = inspect.signature(function).parameters
    flat: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if kinds[name].kind is inspect.Parameter.VAR_KEYWORD:
            flat |= value
        elif kinds[name].kind is not inspect.Parameter.VAR_POSITIONAL:
            flat[name] = value
    return flat


def x(n: int = 12, c: int = 1, side: int = 8) -> Tensor:
    """Images."""
    return torch.rand(n, c, side, side, generator=torch.Generator().manual_seed(0))


def y(n: int = 12) -> Tensor:
    """Class numbers."""
    return torch.arange(n) % 3


def network() -> nn.Module:
    """A small classifier."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))


def files() -> Path:
    """A folder with a small file of every kind."""
    folder = Path(tempfile.mkdtemp(prefix="inputs-"))
    (folder / "pictures").mkdir()
    for number in range(3):
        (folder / "pictures" / f"{number}.png").write_bytes(seeds.picture("png"))
    np.savez(folder / "images.npz", images=seeds.numbers(6, 8, 8), labels=np.arange(6) % 2)
    np.save(folder / "images.npy", seeds.numbers(6, 8, 8))
    np.save(folder / "floats.npy", np.random.default_rng(0).random((6, 1, 8, 8)).astype("float32"))
    (folder / "images.idx").write_bytes(seeds.idx(seeds.numbers(6, 8, 8)))
    (folder / "sweep.toml").write_text(
        'learner="relaxed"\ndata="digits"\nmeasure="accuracy"\n[search]\nlr=[0.1]\n'
    )
    training.save_model(folder / "model", seeds.model(), {})
    for name in ("mnist", "fashion-mnist"):
        (folder / name).mkdir()
        for prefix in ("train", "t10k"):
            for part, array in (("images-idx3", (30, 28, 28)), ("labels-idx1", (30,))):
                content = seeds.idx(seeds.numbers(*array) % 10)
                (folder / name / f"{prefix}-{part}-ubyte").write_bytes(content)
    cifar = folder / "cifar-10-batches-bin"
    cifar.mkdir()
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        rows = np.concatenate([seeds.numbers(2, 1) % 3, seeds.numbers(2, 3072)], 1)
        (cifar / name).write_bytes(rows.tobytes())
    (cifar / "batches.meta.txt").write_text("\n".join(seeds.CIFAR_NAMES))
    return folder


def invoke(command: str) -> Callable[..., Any]:
    """A command as a function of its words: an exit code other than 0 raises, with its message."""

    def call(**options: Any) -> str:  # noqa: ANN401
        words = command.split()
        words += [str(options.pop("argument"))] if "argument" in options else []
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        done = CliRunner().invoke(app, words)
        if done.exit_code in (2, 3, 4, 5):
            raise ValueError(done.output)
        if done.exit_code:
            raise RuntimeError(
                f"exit code {done.exit_code}: {done.output[-300:]} {done.exception!r}"
            )
        return done.output

    return call


def _loss(model: nn.Module, batch: Any, step: Any) -> dict[str, Tensor]:  # noqa: ANN401
    return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}


def _config(**settings: Any) -> training.TrainConfig:  # noqa: ANN401
    fields = {"steps": 2, "batch_size": 4, "lr": 1e-3, "progress": False, "device": "cpu"}
    return training.TrainConfig(1, 1).replace(**{**fields, **settings})


def _train(model: nn.Module, images: Any, labels: Any, **settings: Any) -> Any:  # noqa: ANN401
    return training.train(model, _loss, (images, labels), _config(**settings))


def _vaes() -> list[vae.VAE]:
    small = vae.VAEConfig.preset("quick").replace(steps=2, batch_size=4)
    return [vae.VAE((1, 8, 8), small, seed=seed) for seed in (0, 1)]


def _saved_vae() -> Path:
    return _vaes()[0].save(files()).parent


def _set() -> ImageSet:
    return ImageSet(x(30), torch.arange(30) % 10, "random", tuple("0123456789"))


def _path(function: Callable[..., Any], name: str, **more: Any) -> Any:  # noqa: ANN401
    return lambda: (function, {"path": files() / name, **more})


def _derived(function: Callable[..., Any], **more: Any) -> Any:  # noqa: ANN401
    return lambda: (function, {"data": _set(), **more, "split": "train", "seed": 0})


def _model(posterior: str = "natural") -> Any:  # noqa: ANN401
    from symmetries.nn.invariant_model import shallow_model

    return shallow_model((1, 8, 8), 3, Affine2("rotation"), features=8, posterior=posterior)


def _relaxed() -> nn.Module:
    symmetry = relaxed_networks.Symmetry(Cyclic(4), "soft", {"rotation": 0.1})
    return relaxed_networks.RelaxedCNN(1, 3, symmetry, width=2, kernel_size=3)


def _fit_relaxed(model: nn.Module, images: Any, labels: Any, **more: Any) -> Any:  # noqa: ANN401
    fields = {"steps": 2, "batch_size": 4, "progress": False, "device": "cpu"}
    return relaxed.fit_relaxed(model, images, labels, training.TrainConfig(**fields), **more)


def _natural(images: Any, labels: Any, **settings: Any) -> Any:  # noqa: ANN401
    config = invariant_weights.NaturalConfig(steps=2, samples=2).replace(**settings)
    return invariant_weights.fit_natural(_model(), images, labels, config)


def _loss_of(make: Callable[..., Any], posterior: str, **fixed: Any) -> Any:  # noqa: ANN401
    def call(images: Any, labels: Any, **settings: Any) -> Any:  # noqa: ANN401
        step = training.Step(1, 0, torch.device("cpu"))
        step.begin(0)
        return make(**{**fixed, **settings})(_model(posterior), (images, labels), step)

    return call


def _module(kind: Any, good: Any, **settings: Any) -> Any:  # noqa: ANN401
    """A layer made and called."""
    return lambda: (lambda inputs, **s: kind(**s)(inputs), {"inputs": good, **settings})


def _sweep(folder: Path, config: Any) -> Any:  # noqa: ANN401
    return sweeps.join(sweeps.read_config(config), folder, device="cpu")


def _inv_vae(images: Any, refine: int) -> Any:  # noqa: ANN401
    model = symmetry_model.SymmetryModel("rotation", (1, 8, 8), "quick")
    return vae.InvVAE(model, "quick", refine=refine).bound(images, 2)


def _factors() -> dict[str, Any]:
    numbers = {name: np.full(3, 0.75) for name in ("scale", "orientation", "x", "y")}
    return {"shape": np.arange(3), **numbers}


def _estimator(kind: Any, asked: str, labels: Any = None, **settings: Any) -> Any:  # noqa: ANN401
    """An estimator made, fitted for a few steps and asked."""
    rows = np.random.default_rng(0).random((40, 64))

    def call(X: Any, Z: Any, **more: Any) -> Any:  # noqa: ANN401
        targets = [more.pop("y")] if "y" in more else []
        fitted = kind(**{**settings, **more}).fit(X, *targets)
        return getattr(fitted, asked)(Z)

    known = {} if labels is None else {"y": labels}
    return lambda: (call, {"X": rows, "Z": rows[:5], **known, **settings})


BY_HAND: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "estimators.InvariantClassifier": _estimator(
        estimators.InvariantClassifier,
        "predict_proba",
        np.arange(40) % 3,
        **{"group": "rotation", "half_width": 0.1, "features": 8, "samples": 2, "steps": 2},
        **{"batch_size": 20, "lr": 0.1, "search": 0, "device": "cpu", "learn": True},
        **{"sigma": 1.0, "image_shape": (8, 8), "random_state": 0},
    ),
    "estimators.InvariantRegressor": _estimator(
        estimators.InvariantRegressor,
        "predict",
        np.linspace(0, 1, 40),
        **{"features": 8, "samples": 2, "steps": 2, "search": 0},
    ),
    "estimators.RelaxedClassifier": _estimator(
        estimators.RelaxedClassifier,
        "predict",
        np.arange(40) % 3,
        **{"group": "c4", "mode": "soft", "relax": 0.1, "penalty": 0.1, "width": 2, "steps": 2},
        **{"kernel_size": 3, "batch_size": 20, "lr": 0.01, "image_shape": (8, 8)},
        **{"device": "cpu", "random_state": 0},
    ),
    "estimators.SymmetryEstimator": _estimator(
        estimators.SymmetryEstimator,
        "transform",
        **{"group": "rotation", "fill": 0.0, "refine": 0, "bounds": (0.5,), "device": "cpu"},
        **{"image_shape": (8, 8), "random_state": 0, "method": "two-stage"},
        config=symmetry_model.SymmetryConfig().replace(
            widths=(8,),
            features=(8,),
            inference=training.Recipe(2, 8),
            generative=training.Recipe(2, 8),
        ),
    ),
    "training.train": lambda: (
        _train,
        {"model": network(), "images": x(), "labels": y(), "steps": 2, "batch_size": 4, "lr": 1e-3},
    ),
    "training.TrainJob": lambda: (
        lambda **fields: training.train_together([training.TrainJob(**fields)]),
        {"model": network(), "loss": _loss, "data": (x(), y()), "config": _config()},
    ),
    "training.train_together": lambda: (
        training.train_together,
        {
            "jobs": [
                training.TrainJob(network(), _loss, (x(), y()), _config(seed=s)) for s in (0, 1)
            ]
        },
    ),
    "training.fit_many": lambda: (
        lambda models, images: training.fit_many(models, images, device="cpu", progress=False),
        {"models": _vaes(), "images": x()},
    ),
    "training.load_learner": lambda: (
        training.load_learner,
        {"folder": _saved_vae(), "learner": "vae", "what": "VAE"},
    ),
    "training.TrainConfig": lambda: (
        lambda **fields: training.TrainConfig(1, 1).replace(**fields),
        {
            **{"steps": 2, "batch_size": 4, "lr": 0.1, "warmup": 0, "schedule": "cosine"},
            **{"final": 0.0, "clip": 1.0, "weight_decay": 0.0, "algorithm": "adam"},
            **{"betas": (0.9, 0.99), "momentum": 0.0, "seed": 0, "checkpoint_every": 1},
            **{"log_every": 1, "device": "cpu", "precision": "32-true", "devices": 1, "nodes": 1},
            **{"graph": "off", "workers": 0, "skip_bad": 0},
        },
    ),
    "training.load_state": lambda: (training.load_state, {"folder": files() / "model"}),
    "nn.conversion.export_onnx": lambda: (
        conversion.export_onnx,
        {
            "model": nn.Conv2d(1, 2, 3).eval(),
            "example": torch.rand(2, 1, 8, 8),
            "path": files() / "model.onnx",
        },
    ),
    "training.save_model": lambda: (
        training.save_model,
        {"folder": files(), "module": network(), "meta": {"a": 1}},
    ),
    "auditing.distribution_invariance": lambda: (
        auditing.distribution_invariance,
        {"model": network(), "x": x(), "group": Cyclic(4)},
    ),
    "auditing.estimate": lambda: (auditing.estimate, {"values": torch.rand(5, 3)}),
    "auditing.map_similarity": lambda: (auditing.map_similarity, {"maps": x(), "moved": x()}),
    "auditing.normalised_logit_error": lambda: (
        auditing.normalised_logit_error,
        {"logits": torch.rand(5, 3), "moved": torch.rand(5, 3)},
    ),
    "auditing.saliency_map": lambda: (
        auditing.saliency_map,
        {"model": network(), "x": x(), "target": y(), "steps": 3},
    ),
    "data.ImageSet": lambda: (
        ImageSet,
        {"images": x(), "labels": y(), "name": "set", "class_names": ("a", "b", "c")},
    ),
    "data.PictureStream": lambda: (
        data.PictureStream,
        {"folder": files() / "pictures", "size": (4, 4), "split": "train"},
    ),
    "data.SpriteFactors": lambda: (data.SpriteFactors, _factors()),
    "data.array_file": _path(data.array_file, "images.npz", split="train"),
    "data.cifar": lambda: (data.cifar, {"name": "cifar10", "split": "train", "folder": files()}),
    "data.coloured": _derived(data.coloured),
    "data.data_folder": lambda: (data.data_folder, {"folder": files()}),
    "data.download": lambda: (data.download, {"name": "digits", "folder": files()}),
    "data.drift": lambda: (data.drift, {"first": _set(), "second": _set(), "beta": 0.5}),
    "data.dsprites": lambda: (data.dsprites, {"split": "train", "folder": files(), "count": 3}),
    "data.fashion_mnist": lambda: (data.fashion_mnist, {"split": "train", "folder": files()}),
    "data.mnist": lambda: (data.mnist, {"split": "train", "folder": files()}),
    "data.from_dataset": lambda: (
        data.from_dataset,
        {"dataset": torch.utils.data.TensorDataset(x(), y()), "name": "set"},
    ),
    "data.mapped": _path(data.mapped, "floats.npy"),
    "data.picture_folder": _path(data.picture_folder, "pictures", split="train", size=(5, 5)),
    "data.read_idx": _path(data.read_idx, "images.idx", rank=3),
    "data.resampled_indices": lambda: (data.resampled_indices, {"count": 5, "seed": 0}),
    "data.rotated": _derived(data.rotated, degrees=20.0),
    "data.scaled": _derived(data.scaled, factor=2.0),
    "data.translated": _derived(data.translated, pixels=2.0),
    "data.upside_down_sixes": _derived(data.upside_down_sixes, pairs=False),
    "data.stream": _path(data.stream, "pictures", split="train", size=(5, 5)),
    "data.transforming": lambda: (
        data.transforming,
        {"name": "mnist", "group": "r4", "split": "train", "folder": files(), "seed": 0},
    ),
    "groups.Product": lambda: (lambda *, group: groups.Product(group), {"group": Cyclic(4)}),
    "groups.Colour": lambda: (
        lambda eta: groups.Colour().compose(groups.Colour().exp(eta), groups.Colour().exp(eta)),
        {"eta": torch.rand(5, 3)},
    ),
    "sweeps.collect": lambda: (
        lambda config, folder: sweeps.collect(
            _open(config, folder), sweeps.read_config(config), seeds.result().run
        ),
        {"config": files() / "sweep.toml", "folder": files()},
    ),
    "sweeps.join": lambda: (
        lambda config, folder: _open(config, folder),
        {"config": files() / "sweep.toml", "folder": files()},
    ),
    "sweeps.read_config": _path(sweeps.read_config, "sweep.toml"),
    "learners.invariant_vae.InvariantVAEConfig": lambda: (
        invariant_vae.InvariantVAEConfig().replace,
        _defaults(invariant_vae.InvariantVAEConfig),
    ),
    "learners.invariant_weights.NaturalConfig": lambda: (
        _natural,
        {
            **{"images": [x()], "labels": y(), "steps": 2, "batch_size": 6, "samples": 2},
            **{"sampling": "sobol", "draws": 2, "rate": 0.3, "lr": 0.1, "chunk": 4, "seed": 0},
            **{"body_lr": 0.1, "betas": (0.9, 0.99), "schedule": "cosine", "head_every": 1},
            **{"head_only": 0, "fresh": True},
        },
    ),
    "learners.invariant_weights.augerino_loss": lambda: (
        _loss_of(invariant_weights.augerino_loss, "point"),
        {"images": x(), "labels": y(), "strength": 0.01, "samples": 2, "sampling": "random"},
    ),
    "learners.invariant_weights.elbo_loss": lambda: (
        _loss_of(invariant_weights.elbo_loss, "full"),
        {"images": x(), "labels": y(), "examples": 12, "samples": 2, "draws": 2},
    ),
    "learners.invariant_weights.evaluate": lambda: (
        invariant_weights.evaluate,
        {"model": _model(), "images": [x()], "targets": y(), "samples": 2, "draws": 2, "chunk": 5},
    ),
    "learners.invariant_weights.fit_natural": lambda: (
        _natural,
        {"images": [x()], "labels": y()},
    ),
    "learners.invariant_weights.images_of": lambda: (
        invariant_weights.images_of,
        {"batch": [x()], "sets": None},
    ),
    "learners.invariant_weights.log_likelihood": lambda: (
        lambda mean, variance, targets: invariant_weights.log_likelihood(
            _model(), mean, variance, targets, 2
        ),
        {"mean": torch.rand(1, 12, 3), "variance": torch.rand(1, 12, 3), "targets": y()},
    ),
    "learners.invariant_weights.refitted_elbo": lambda: (
        invariant_weights.refitted_elbo,
        {
            **{"model": _model(), "images": [x()], "targets": y(), "samples": 2, "steps": 2},
            "half_width": torch.full((1, 1), 0.5),
        },
    ),
    "learners.invariant_weights.search_widths": lambda: (
        invariant_weights.search_widths,
        {
            **{"model": _model(), "images": [x()], "targets": y(), "sets": None, "points": 2},
            **{"halvings": 0, "samples": 2, "draws": 2, "steps": 2, "chunk": 5, "seed": 0},
        },
    ),
    "learners.invariant_weights.width_interval": lambda: (
        invariant_weights.width_interval,
        {"model": _model(), "images": x(), "targets": y(), "parameter": 0, "samples": 2},
    ),
    "learners.relaxed.relaxed_loss": lambda: (
        lambda images, labels, penalty: relaxed.relaxed_loss(penalty)(
            _relaxed(), (images, labels), training.Step(1, 0, torch.device("cpu"))
        ),
        {"images": x(), "labels": y(), "penalty": 0.1},
    ),
    "learners.relaxed.train_jobs": lambda: (
        lambda config, **more: training.fit_together([relaxed.train_jobs(config=config, **more)]),
        {
            **{"model": _relaxed(), "images": x(), "labels": y(), "config": _config()},
            **{"penalty": 0.1, "relaxation_lr": 1.0, "augment": None, "random_turn": False},
        },
    ),
    "learners.relaxed.fit": lambda: (
        _fit_relaxed,
        {"model": _relaxed(), "images": x(), "labels": y(), "penalty": 0.1, "relaxation_lr": 1.0},
    ),
    "learners.relaxed.accuracy": lambda: (
        relaxed.accuracy,
        {"model": _relaxed(), "images": x(), "labels": y(), "batch_size": 5},
    ),
    "training.Recipe": lambda: (
        lambda **fields: training.Recipe(**fields).train_config(),
        {"steps": 2, "batch_size": 2, "lr": 0.1, "warmup": 0.1, "final": 0.1, "clip": 1.0},
    ),
    "learners.symmetry_model.SymmetryConfig": lambda: (
        symmetry_model.SymmetryConfig().replace,
        {**_defaults(symmetry_model.SymmetryConfig), "widths": (8,), "inference": _stage()},
    ),
    "learners.vae.InvVAE": lambda: (_inv_vae, {"images": x(), "refine": 0}),
    "learners.relaxed.RelaxedConfig": lambda: (
        relaxed.RelaxedConfig().replace,
        {**_defaults(relaxed.RelaxedConfig), "kernel_size": 3},
    ),
    "learners.invariant_weights.InvariantWeightsConfig": lambda: (
        invariant_weights.InvariantWeightsConfig().replace,
        {**_defaults(invariant_weights.InvariantWeightsConfig), "sigma": 0.3},
    ),
    "learners.vae.VAEConfig": lambda: (
        vae.VAEConfig().replace,
        {**_defaults(vae.VAEConfig), "channels": (4,), "strides": (1,)},
    ),
    "nn.autoencoder.ChannelNorm": _module(autoencoder.ChannelNorm, x(c=4), channels=4),
    "nn.diagonal_gaussian.GaussianPrior": lambda: (
        lambda z, latent: diagonal_gaussian.GaussianPrior(latent).log_prob(z),
        {"z": torch.rand(5, 3), "latent": 3},
    ),
    "nn.invariant_model.InvariantModel": lambda: (
        lambda images, samples, sampling: _model().features(images, samples, sampling),
        {"images": x(), "samples": 2, "sampling": "sobol"},
    ),
    "nn.gconv.PlaneConv2d": lambda: (
        lambda images, width: _relaxed_of(width)(images),
        {"images": x(), "width": 2},
    ),
    "nn.conv_kernel.ConvKernel": lambda: (
        lambda size: next(iter(relaxed_layers(_relaxed_of(2)).values())).generate(size),
        {"size": (8, 8)},
    ),
    "nn.gconv.PositionConv2d": lambda: (
        lambda images: _positions()(images),
        {"images": x()},
    ),
    "nn.relaxed_networks.ResidualBlock": lambda: (
        lambda images, width: _resnet(width)(images),
        {"images": x(side=16), "width": 2},
    ),
}


def _open(config: Any, folder: Any) -> Any:  # noqa: ANN401
    from symmetries.sweeps.study import open_study

    return open_study(sweeps.read_config(config), folder)


def _defaults(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    """The numbers and words among the defaults of a configuration and its parts but recipes."""
    fields = {}
    for name, value in kind().to_dict().items():
        fields |= value if isinstance(value, dict) and "steps" not in value else {name: value}
    return {name: v for name, v in fields.items() if isinstance(v, int | float | str)}


def _stage() -> training.Recipe:
    return training.Recipe(2, 8)


def _relaxed_of(width: int) -> nn.Module:
    symmetry = relaxed_networks.Symmetry(Cyclic(4), "soft", {"rotation": 0.1})
    return relaxed_networks.RelaxedCNN(1, 3, symmetry, width=width, kernel_size=3)


def _resnet(width: int) -> nn.Module:
    symmetry = relaxed_networks.Symmetry(Cyclic(4), "soft", {"rotation": 0.1})
    return relaxed_networks.RelaxedResNet(1, 3, symmetry, width=width, kernel_size=3)


def _positions() -> nn.Module:
    relax = {"rotation": 0.1, "translation": 0.1}
    symmetry = relaxed_networks.Symmetry(Cyclic(4), "soft", relax)
    return relaxed_networks.RelaxedCNN(1, 3, symmetry, width=2, kernel_size=3)
