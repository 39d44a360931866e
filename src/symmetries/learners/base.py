"""The protocol of all learners: fit, save, load, summary and report."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from symmetries._utils.config import Config
from symmetries._utils.sampling import some_of
from symmetries._validation.checks import as_path, check_chw, check_classes, check_whole, invalid
from symmetries.actions.base import Action
from symmetries.actions.images import ImageAction
from symmetries.actions.resolve import as_image_action
from symmetries.data.base import ImageSet, images_to_learn
from symmetries.data.convert import Images, images_and_labels
from symmetries.groups.base import Group
from symmetries.groups.names import group_name, parse_group
from symmetries.groups.product import check_learnable
from symmetries.groups.ranges import resolve_bounds
from symmetries.training import History, load_learner, save_model

__all__ = ["GenerativeSummary", "LabelledLearner", "Learner", "Summary"]
Labelled = Images  # with labels
# Fields of TrainConfig that belong to a run and not to a learner's configuration.
RUN_FIELDS = frozenset(
    {"out", "resume", "device", "progress", "precision", "devices", "nodes", "graph", "workers"}
    | {"checkpoint_every", "log_every", "title", "tensorboard"}
)


@dataclass(frozen=True)
class Summary:
    """Base class of what a learner has learned: plain numbers, to JSON and back."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the summary from the output of :meth:`to_dict`."""
        return cls(**data)


@dataclass(frozen=True)
class GenerativeSummary(Summary):
    """How well a generative model describes images.

    Args:
        images: number of images.
        bound: mean of the importance-weighted lower bound on log p(x), in nats per image.
        reconstruction_error: mean square difference of images and reconstructions.
        noise: mean standard deviation of a pixel.
    """

    images: int
    bound: float
    reconstruction_error: float
    noise: float


class Learner(Protocol):
    """A model with its objective over an action, a distribution and networks.

    ``tests/learners/test_conformance.py`` runs over all learners: the symmetry model, the VAEs,
    the invariant VAE, invariant weights and relaxed equivariance.
    """

    history: History | None

    def fit(self, data: Any, **run: Any) -> History:  # noqa: ANN401 - images, or images with labels
        """Learn from data; ``run`` are fields of a run, such as ``out``, ``resume``, ``device``."""

    def save(self, folder: Path | str) -> Path:
        """Write weights and everything that is needed to build the learner again."""

    def summary(self, data: Any) -> Any:  # noqa: ANN401 - plain data with to_dict and from_dict
        """Return what was learned, measured on data."""

    def report(self, path: Path | str, data: Any = None) -> Path:  # noqa: ANN401
        """Write one HTML page: the summary on data, if given, the training and the settings."""


def run_options(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run; raise an error for others, which belong to a configuration."""
    for name in run:
        if name not in RUN_FIELDS:
            expected = f"an option of fit: {', '.join(sorted(RUN_FIELDS))}"
            raise invalid("options", expected, repr(name), "set others in the config")
    return dict(run)


def labelled_images(data: Labelled, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Return images (N, C, H, W) and labels (N,), or values (N, K), of any form, checked."""
    images, labels = images_and_labels(data, "data")
    images = images_to_learn(images, shape)
    if labels is None:
        raise invalid("data", "labelled images", "no labels", "give (images, labels)")
    if not labels.is_floating_point():
        check_classes(labels, len(images))
    return images, labels


class LearnerModule(nn.Module):
    """Base class of learners that are modules: their device, their files and their page."""

    name: ClassVar[str]  # in its files
    kind: ClassVar[type[Config]]  # of its configuration

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    def meta(self) -> dict[str, Any]:
        """Return what is needed to build the learner again, beside its weights."""
        learner: Any = self
        return {
            "learner": self.name,
            "shape": list(learner.shape),
            "seed": learner.seed,
            "config": learner.config.to_dict(),
        }

    @classmethod
    def rebuilt(cls, meta: Mapping[str, Any]) -> Self:
        """Return a new learner from the output of :meth:`meta`."""
        shape, config = tuple(meta["shape"]), cls.kind.from_dict(meta["config"])
        return cls(shape, config, seed=meta["seed"])

    def save(self, folder: Path | str) -> Path:
        """Write the model: weights and what is needed to build it again."""
        return save_model(folder, self, self.meta())

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu") -> Self:
        """Read what :meth:`save` wrote."""
        state, meta = load_learner(folder, cls.name, cls.__name__)
        model = cls.rebuilt(meta)
        model.load_state_dict(state)
        return model.to(device)

    def report(self, path: Path | str, data: Images | None = None) -> Path:
        """Write one HTML page: the summary on data, if given, the training and the settings."""
        return write_report(self, path, data)


class LabelledLearner(LearnerModule):
    """Base class of learners of labelled images.

    Args:
        action: how the transformations move images: an action, a group or its name.
        shape: (C, H, W) of the images.
        outputs: number of classes or of values.
        config: a configuration of the class's own kind, or the name of a preset.
        seed: random seed of the initial weights and of training.
    """

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        outputs: int,
        config: Any,  # noqa: ANN401 - of the class's own kind
        seed: int,
    ) -> None:
        super().__init__()
        check_chw(shape)
        self.config = self.kind.resolve(config)
        self.act = as_image_action(action)
        self.group = self.act.group
        self.shape, self.outputs, self.seed = shape, outputs, seed
        self.history: History | None = None

    def meta(self) -> dict[str, Any]:
        """Return what is needed to build the learner again, beside its weights."""
        return {**super().meta(), "group": group_name(self.group), "outputs": self.outputs}

    @classmethod
    def rebuilt(cls, meta: Mapping[str, Any]) -> Self:
        """Return a new learner from the output of :meth:`meta`."""
        shape, config = tuple(meta["shape"]), cls.kind.from_dict(meta["config"])
        return cls(meta["group"], shape, meta["outputs"], config, seed=meta["seed"])


class ImageLearner(LearnerModule):
    """Base class of learners of images alone.

    Args:
        action: how the transformations move images: an action, a group or its name.
        shape: (C, H, W) of the images.
        config: a configuration of the class's own kind, or the name of a preset.
        bounds: how far each parameter goes, in the group's units.
        fill: background value; that of the action by default.
        seed: random seed of the initial weights and of training.
        usual: bounds of the learner by name; those of the group by default.
    """

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        config: Any,  # noqa: ANN401 - of the class's own kind
        bounds: Mapping[str, float] | Sequence[float] | None,
        fill: float | None,
        seed: int,
        usual: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        config = self.kind.resolve(config)
        self.act = as_image_action(action, interpolation=config.interpolation, fill=fill)
        self.config = config.replace(interpolation=self.act.interpolation)
        self.group = self.act.group
        check_learnable(self.group)
        self.shape, self.seed = shape, seed
        self.bounds = resolve_bounds(self.group, bounds, usual)
        self.history: History | None = None

    def meta(self) -> dict[str, Any]:
        """Return what is needed to build the learner again, beside its weights."""
        return {**super().meta(), **acting_meta(self)}

    @classmethod
    def rebuilt(cls, meta: Mapping[str, Any]) -> Self:
        """Return a new learner from the output of :meth:`meta`."""
        shape, config = tuple(meta["shape"]), cls.kind.from_dict(meta["config"])
        action, bounds = stored_action(meta), meta["bounds"]
        return cls(action, shape, config, bounds=bounds, seed=meta["seed"])  # type: ignore[call-arg]


def acting_meta(model: Any) -> dict[str, Any]:  # noqa: ANN401 - a learner of images
    """Return the settings of a learner's action that :func:`stored_action` needs."""
    names = ("interpolation", "padding", "fill")
    return {
        "group": group_name(model.group),
        "action": {name: getattr(model.act, name) for name in names},
        "bounds": list(model.bounds),
    }


def stored_action(meta: Mapping[str, Any]) -> ImageAction:
    """Return the action of a stored learner of images."""
    action = dict(meta["action"])
    if action.pop("blur", 0):  # older files name one, usually 0
        raise invalid("action", "one without a blur", "a blur", "blur the images, and train again")
    return ImageAction(parse_group(meta["group"]), **action)


def write_report(
    learner: Any,  # noqa: ANN401 - a Learner that is also a module with a config
    path: Path | str,
    data: Any = None,  # noqa: ANN401
) -> Path:
    """Write the page of a learner; see :meth:`Learner.report`.

    Args:
        learner: fitted or loaded.
        path: of the HTML file.
        data: what :meth:`Learner.summary` takes; without it the page has no summary.
    """
    from symmetries.report.learners import learner_page
    from symmetries.report.page import render

    path = as_path(path)
    config: Config = learner.config
    history: History | None = learner.history
    found = None if data is None else _plain(learner.summary(data))
    curves = {} if history is None else history.stages or {"training": history}
    losses = {name: (part.step, part["loss"]) for name, part in curves.items()}
    page = learner_page(type(learner).__name__, found, losses, config.to_dict())
    path.write_text(render(page), encoding="utf-8")
    return path


def _plain(summary: Any) -> dict[str, Any]:  # noqa: ANN401 - a Summary or a result of pydantic
    found = summary.to_dict() if hasattr(summary, "to_dict") else summary.model_dump(mode="json")
    return found


@torch.no_grad()
def generative_numbers(
    model: Any,  # noqa: ANN401 - with bound, reconstruction_error and noise
    images: Tensor | ImageSet,
    shape: tuple[int, int, int],
    device: torch.device,
    *,
    most: int,
    samples: int,
    seed: int,
) -> tuple[dict[str, Any], Tensor]:
    """Return the fields of a :class:`GenerativeSummary`, and the images that they describe."""
    check_whole(most, "most")
    x = some_of(images_to_learn(images, shape), most).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    found = {
        "images": len(x),
        "bound": float(model.bound(x, samples, generator).mean()),
        "reconstruction_error": float(model.reconstruction_error(x).mean()),
        "noise": float(model.noise.mean()),
    }
    return found, x
