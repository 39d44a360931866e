"""Relaxed equivariance as a learner: a classifier, and how equivariant its layers are."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import check_image_shape, check_whole, invalid
from symmetries.actions.base import Action
from symmetries.groups.base import Group
from symmetries.groups.names import group_name
from symmetries.learners.base import (
    Labelled,
    LabelledLearner,
    Summary,
    labelled_images,
    run_options,
)
from symmetries.learners.relaxed.config import RelaxedConfig
from symmetries.learners.relaxed.training import accuracy, train_jobs
from symmetries.nn.relaxation import relaxation
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry
from symmetries.training import History
from symmetries.training.ensemble import fit_alone
from symmetries.training.recipe import plain_settings
from symmetries.training.step import mix, seeded

LARGE = 16  # side of images from which on filters are larger
LOOKED_AT = 64


@dataclass(frozen=True)
class RelaxedSummary(Summary):
    """How accurate the classifier is, and how equivariant each layer.

    Args:
        images: number of images.
        accuracy: share of them whose class is right.
        layers: a row for each layer and coordinate, of :func:`symmetries.nn.relaxation.relaxation`.
    """

    images: int
    accuracy: float
    layers: list[dict[str, Any]]


class RelaxedEquivariance(LabelledLearner):
    """A classifier of images whose layers learn how equivariant to be under rotations and flips.

    Args:
        action: rotations, with or without flips: "c4", ``Dihedral(4)``, or their action on images.
        shape: (C, H, W) of the images.
        classes: number of classes.
        config: a preset, "quick", "default" or "paper", or a :class:`RelaxedConfig`.
        seed: random seed of the initial weights and of training.

    Example:
        >>> import torch
        >>> model = RelaxedEquivariance("c4", (1, 8, 8), 3, "quick")
        >>> model(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 3])
    """

    name = "relaxed_equivariance"
    kind = RelaxedConfig
    config: RelaxedConfig

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        classes: int,
        config: RelaxedConfig | str = "default",
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(action, shape, classes, config, seed)
        check_whole(classes, "classes", least=2)
        side = min(shape[1:])
        kernel = self.config.kernel_size or (5 if side >= LARGE else 3)
        if side < 2 * kernel:
            expected = f"sides of at least {2 * kernel} pixels for filters of {kernel}"
            raise invalid("shape", expected, tuple(shape), "enlarge the images, or kernel_size=3")
        coordinate = "rotation" if "rotation" in self.group.names else "translation"
        relax = {coordinate: self.config.relaxation} if self.config.mode == "soft" else None
        symmetry = Symmetry(self.group, self.config.mode, relax, learn=self.config.learn)  # type: ignore[arg-type]
        with seeded(seed):
            sizes = {"width": self.config.width, "kernel_size": kernel}
            self.network = RelaxedCNN(shape[0], classes, symmetry, **sizes)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, C, H, W)."""
        check_image_shape(x, self.shape, "x")
        return self.network(x)

    def fit(self, data: Labelled, **run: Any) -> History:  # noqa: ANN401 - fields of TrainConfig
        """Learn weights and relaxations from labelled images.

        Args:
            data: a set of labelled images, or images (N, C, H, W) and labels (N,).
            run: fields of :class:`symmetries.training.TrainConfig`, such as ``out``, ``resume``,
                ``device``, ``progress`` and ``log_every``.
        """
        images, labels = labelled_images(data, self.shape)
        config, settings = self.config, plain_settings(self.config, group=group_name(self.group))
        options = {**run_options(run), "given_seed": self.seed, "settings": settings}
        self.history = fit_alone(
            train_jobs(
                self.network,
                images,
                labels,
                config.training.train_config(seed=mix(self.seed, 0), **options),
                penalty=config.penalty,
                relaxation_lr=config.relaxation_lr,
            )
        )
        self.eval()
        return self.history

    def summary(self, data: Labelled, *, most: int = 512) -> RelaxedSummary:
        """Return the accuracy on labelled images, and how equivariant each layer is.

        Args:
            data: a set of labelled images, or images (N, C, H, W) and labels (N,).
            most: number of images to look at, a random choice.
        """
        check_whole(most, "most")
        images, labels = (some_of(part, most) for part in labelled_images(data, self.shape))
        rows = relaxation(self.network, some_of(images, LOOKED_AT).to(self.device))
        return RelaxedSummary(len(images), accuracy(self.network, images, labels), rows)
