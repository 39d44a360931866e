"""Invariant weights as a learner: a classifier or a regression, and how invariant it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_chw, check_image_shape, check_whole
from symmetries.actions.base import Action
from symmetries.actions.resolve import as_image_action
from symmetries.groups.base import Group
from symmetries.learners.base import (
    Labelled,
    Summary,
    labelled_images,
    labelled_meta,
    load_labelled,
    run_options,
    write_report,
)
from symmetries.learners.invariant_weights.config import InvariantWeightsConfig
from symmetries.learners.invariant_weights.evaluation import evaluate
from symmetries.learners.invariant_weights.natural import fit_natural
from symmetries.nn.invariant_model import shallow_model
from symmetries.training import History, save_model


@dataclass(frozen=True)
class InvarianceSummary(Summary):
    """How invariant a model has become, and how well it does.

    Args:
        images: number of images that were looked at.
        half_widths: by parameter, in the units a person reads.
        units: of the half-widths: "degrees", "pixels", "factor".
        elbo: bound on the log marginal likelihood per example, if these are the training images.
        log_likelihood: expected, per example.
        score: accuracy; for regression the mean square error.
    """

    images: int
    half_widths: dict[str, float]
    units: dict[str, str]
    elbo: float
    log_likelihood: float
    score: float


class InvariantWeights(nn.Module):
    """A shallow network whose filters average over transformations of learned half-widths.

    The half-widths maximise a bound on the marginal likelihood of the training images (van der
    Ouderaa and van der Wilk 2022); see :mod:`symmetries.learners.invariant_weights`.

    Args:
        action: transformations of the plane: ``Affine2`` or ``SE2``, their name, such as
            "rotation", or their action on images.
        shape: (C, H, W) of the images.
        outputs: number of classes or of values.
        config: a preset, "quick", "default" or "paper", or an :class:`InvariantWeightsConfig`.
        seed: random seed of the features and of training.

    Example:
        >>> model = InvariantWeights("rotation", (1, 8, 8), 3, "quick")
        >>> model(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        outputs: int,
        config: InvariantWeightsConfig | str = "default",
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_chw(shape)
        check_whole(outputs, "outputs")
        self.config = InvariantWeightsConfig.resolve(config)
        self.act = as_image_action(action)
        self.group = self.act.group
        self.shape, self.outputs, self.seed = shape, outputs, seed
        self.history: History | None = None
        c = self.config
        self.network = shallow_model(
            shape,
            outputs,
            self.group,
            half_widths=(tuple(c.half_width * bound for bound in self.group.bounds),),
            learn=c.learn,
            features=c.features,
            sigma=c.sigma or 1.0,
            prior_variance=c.prior_variance,
            task=c.task,
            seed=seed,
        )
        self.register_buffer("sigma", torch.tensor(c.sigma or 1.0))
        self.sigma: Tensor
        self.eval()

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.network.half_width.device

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean outputs (N, outputs) for images (N, C, H, W)."""
        check_image_shape(x, self.shape, "x")
        generator = torch.Generator(x.device).manual_seed(0)
        samples = self.config.training.samples
        mean: Tensor = self.network.head(self.network.features(x, samples, "sobol", generator))[0]
        return mean[0]

    def fit(self, data: Labelled, **run: Any) -> History:  # noqa: ANN401 - fields of TrainConfig
        """Learn half-widths and the last layer from labelled images.

        Args:
            data: a set of labelled images, or images (N, C, H, W) and targets (N,); for regression
                (N, outputs).
            run: fields of :class:`symmetries.training.TrainConfig`, such as ``out``, ``resume``,
                ``device``, ``progress`` and ``log_every``.
        """
        images, targets = labelled_images(data, self.shape)
        options = run_options(run)
        device = options.pop("device", "auto")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.to(device)
        images, targets = images.to(self.device), targets.to(self.device)
        if self.config.sigma is None:
            self._match_distances(images)
        config = self.config.training.replace(seed=self.seed)
        if not self.config.learn:
            config = config.replace(search=0)
        self.history = fit_natural(self.network, [images], targets, config, **options)
        self.eval()
        return self.history

    def summary(
        self, data: Labelled, *, most: int = 4000, samples: int = 32, seed: int = 0
    ) -> InvarianceSummary:
        """Return the half-widths, the bound and the accuracy on labelled images.

        Args:
            data: a set of labelled images, or images (N, C, H, W) and targets.
            most: number of images to look at, the first ones.
            samples: number of transformations.
            seed: random seed of the transformations.
        """
        check_whole(most, "most")
        images, targets = (part[:most] for part in labelled_images(data, self.shape))
        found = evaluate(self.network, [images], targets, samples=samples, seed=seed)
        fit = float(found.log_likelihood[0])
        side, widths = max(self.shape[1:]), self.network.half_width[0].tolist()
        pairs = zip(self.group.parameters, widths, strict=True)
        shown = {parameter.name: parameter.display(width, side) for parameter, width in pairs}
        return InvarianceSummary(
            images=len(images),
            half_widths={name: value for name, (value, _) in shown.items()},
            units={name: unit for name, (_, unit) in shown.items()},
            elbo=fit - float(self.network.head.kl()[0]) / len(images),
            log_likelihood=fit,
            score=float(found.score[0]),
        )

    def report(self, path: Path | str, data: Labelled | None = None) -> Path:
        """Write one HTML page: the summary on data, if given, the training and the settings."""
        return write_report(self, path, data)

    def save(self, folder: Path | str) -> Path:
        """Write the model: weights and what is needed to build it again."""
        return save_model(folder, self, labelled_meta(self, "invariant_weights"))

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu") -> Self:
        """Read what :meth:`save` wrote."""
        return load_labelled(cls, InvariantWeightsConfig, folder, "invariant_weights", device)

    @torch.no_grad()
    def _match_distances(self, images: Tensor) -> None:
        """Scale the random frequencies to the distances between images."""
        distance = float((2 * images.flatten(1).var(0, unbiased=False).sum()).sqrt())
        sigma = 2.0 / max(distance, 1e-6)
        layer: Any = self.network.body
        layer.layer.weight.mul_(sigma / self.sigma)
        self.sigma.fill_(sigma)
