"""Invariant weights as a learner: a classifier or a regression, and how invariant it is."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import check_image_shape, check_whole
from symmetries.actions.base import Action
from symmetries.groups.base import Group
from symmetries.learners.base import (
    Labelled,
    LabelledLearner,
    Summary,
    labelled_images,
    run_options,
)
from symmetries.learners.invariant_weights.config import InvariantWeightsConfig
from symmetries.learners.invariant_weights.evaluation import evaluate
from symmetries.learners.invariant_weights.natural import fit_natural
from symmetries.nn.invariant_model import shallow_model
from symmetries.training import History


@dataclass(frozen=True)
class InvarianceSummary(Summary):
    """Learned half-widths of a model, with its bound and its accuracy.

    Args:
        images: number of images.
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


class InvariantWeights(LabelledLearner):
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

    name = "invariant_weights"
    kind = InvariantWeightsConfig
    config: InvariantWeightsConfig

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        outputs: int,
        config: InvariantWeightsConfig | str = "default",
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(action, shape, outputs, config, seed)
        check_whole(outputs, "outputs")
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
            most: number of images to look at, a random choice.
            samples: number of transformations.
            seed: random seed of the transformations.
        """
        check_whole(most, "most")
        images, targets = (some_of(part, most) for part in labelled_images(data, self.shape))
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

    @torch.no_grad()
    def _match_distances(self, images: Tensor) -> None:
        """Scale the random frequencies to the distances between images."""
        distance = float((2 * images.flatten(1).var(0, unbiased=False).sum()).sqrt())
        sigma = 2.0 / max(distance, 1e-6)
        layer: Any = self.network.body
        layer.layer.weight.mul_(sigma / self.sigma)
        self.sigma.fill_(sigma)
