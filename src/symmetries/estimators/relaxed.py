"""Classifier whose layers learn how equivariant to be (paper 4)."""

import copy
import math
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_number, check_whole, invalid
from symmetries.auditing.run import spread_mask
from symmetries.estimators.arrays import given_seed, read_classes, read_seed
from symmetries.estimators.images import ImageEstimator
from symmetries.groups import Cyclic, Dihedral
from symmetries.groups.base import Group
from symmetries.groups.names import as_group
from symmetries.learners.relaxed import fit_relaxed
from symmetries.nn.gconv import MODES
from symmetries.nn.relaxation import relaxation
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry
from symmetries.training import TrainConfig
from symmetries.training.step import seeded

EXAMPLES = 64  # on which the equivariance errors are measured


class PaddedLogits(nn.Module):
    """Logits (N, K) of images (N, C, H, W), which are scaled and padded to a square first.

    Args:
        model: of square images.
        size: (H, W) of the images.
        side: of the square.
        scale: that the images are divided by.
        fill: value of the background, which is taken off first.
    """

    def __init__(
        self,
        model: nn.Module,
        size: tuple[int, int],
        side: int,
        scale: float = 1.0,
        fill: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.fill = fill
        rows, columns = side - size[0], side - size[1]
        self.margin = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, K)."""
        scaled = (images - self.fill if self.fill else images) / self.scale
        return self.model(F.pad(scaled, self.margin))


class RelaxedClassifier(ClassifierMixin, ImageEstimator):  # type: ignore[misc]
    """Classifies images with group convolutions that learn how equivariant to be.

    Minimises cross-entropy + penalty ||omega'||^2 (van der Ouderaa, Romero and van der Wilk 2022):
    omega' = 0 is a network that cannot see how an image is turned; it grows in the layers where
    the task needs to see it. Images that are not square are padded to a square with the background.

    Args:
        group: rotations, with or without flips: "c4", "c8", "d4", ..., or the group itself.
        mode: "soft"; or "strict" or "partial" for comparison.
        image_shape: (H, W) or (C, H, W) of flattened images.
        fill: value of the background, in the units of X; None looks for it at the borders.
        relax: omega' of the rotations at the start. Small: far from 0 a change of omega' is a
            change of the kernels and no longer of the amount of equivariance.
        penalty: lambda.
        width: fields of the first layer.
        kernel_size: of the layers; None for 5, or 3 for images below 16 pixels.
        steps: of training.
        batch_size: images per step.
        lr: learning rate; that of omega' is four times as high.
        device: "cpu" or "cuda".
        random_state: random seed.

    Attributes:
        relaxation_: one row per layer and relaxed coordinate: "layer", "mode", "coordinate",
            "value" (omega'; the fraction of the rotations with "partial"), "learned", and "error",
            the relative equivariance error that was measured on training images.
        classes_: the labels.
        fill_: value of the background.
        loss_: of the last steps.
        history_: along the way, lists of equal length by name: "step", "loss", "cross_entropy",
            "accuracy", "relaxation" (the squared norm of omega'), and what each layer had learned,
            as "LAYER COORDINATE".

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RelaxedClassifier("c4", steps=30, width=2).fit(X[:500], y[:500])
        >>> [row["coordinate"] for row in model.relaxation_]
        ['rotation', 'rotation', 'rotation']
    """

    _fitted: ClassVar[tuple[str, ...]] = (
        "image_size_",
        "scale_",
        "fill_",
        "n_features_in_",
        "classes_",
        "relaxation_",
        "loss_",
        "history_",
        "n_iter_",
    )

    def __init__(
        self,
        group: str | Group[Any] = "c4",
        mode: str = "soft",
        *,
        image_shape: tuple[int, ...] | None = None,
        fill: float | None = None,
        relax: float = 0.1,
        penalty: float = 0.1,
        width: int = 8,
        kernel_size: int | None = None,
        steps: int = 300,
        batch_size: int = 64,
        lr: float = 5e-3,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.group = group
        self.mode = mode
        self.image_shape = image_shape
        self.fill = fill
        self.relax = relax
        self.penalty = penalty
        self.width = width
        self.kernel_size = kernel_size
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Any) -> Self:  # noqa: ANN401
        """Learn from images X and labels y (N,).

        Args:
            X: images.
            y: labels.
            options: of :class:`~symmetries.training.TrainConfig`: ``out`` and ``resume`` for
                checkpoints, ``precision``, ``progress``, ...
        """
        images = self._on_black(X, reset=True).float()
        self.classes_, numbers = read_classes(y, len(images))
        targets = torch.from_numpy(numbers).to(images.device)
        seed = read_seed(self.random_state)
        model = self._build(seed)
        inputs = F.pad(images, model.margin)
        config = TrainConfig(self.steps, min(self.batch_size, len(images)), self.lr, seed)
        named = {"given_seed": given_seed(self.random_state), "device": self.device}
        config = config.replace(**{**named, "progress": False, **options})
        history = fit_relaxed(
            model.model, inputs, targets, config, penalty=self.penalty, relaxation_lr=4.0
        )
        self.loss_ = float(history["loss"][-1])
        self.history_ = {"step": history.step, **history.metrics}
        if not math.isfinite(self.loss_):
            raise invalid("loss_", "a finite loss", self.loss_, "scale the data, or lower lr")
        self.n_iter_ = self.steps
        self.model_ = model.eval()
        # Rows may be sorted by class.
        self.relaxation_ = relaxation(model.model, inputs[spread_mask(len(inputs), EXAMPLES)])
        model.double()  # predictions of one image then do not depend on the others
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the logits (N, classes); for two classes their difference (N,)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities (N, classes)."""
        return np.asarray(torch.from_numpy(self._logits(X)).softmax(1).numpy())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label (N,) of each image."""
        best = self._logits(X).argmax(1)
        return self.classes_[best]

    def module(self) -> nn.Module:
        """Return a copy as a module from images (N, C, H, W) to logits, in single precision.

        Pixels as in ``fit``. For audits, export, and loops of one's own.
        """
        check_is_fitted(self)
        model: PaddedLogits = copy.deepcopy(self.model_).float()
        model.scale, model.fill = self.scale_, self.fill_
        return model.eval()

    @torch.no_grad()
    def _logits(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        images = self._on_black(X, reset=False)
        logits = torch.cat([self.model_(part) for part in images.split(500)])
        return np.asarray(logits.cpu().numpy(), dtype=np.float64)

    def _build(self, seed: int = 0) -> PaddedLogits:
        check_choice(self.mode, MODES, "mode")
        check_number(self.relax, "relax")
        check_whole(self.batch_size, "batch_size")
        if self.kernel_size is not None:
            check_whole(self.kernel_size, "kernel_size")
        group = as_group(self.group)
        if not isinstance(group, Cyclic | Dihedral):
            remedy = "try 'c4' or 'd4'"
            raise invalid("group", "rotations, with or without flips", self.group, remedy)
        channels, height, width = self.image_size_
        kernel = self.kernel_size or (5 if max(height, width) >= 16 else 3)
        relax = {"rotation": self.relax} if self.mode == "soft" and group.n > 1 else None
        if self.mode == "soft" and relax is None:
            relax = {"translation": self.relax}
        symmetry = Symmetry(group, self.mode, relax)
        with seeded(seed):
            sizes = {"width": self.width, "kernel_size": kernel}
            model = RelaxedCNN(channels, len(self.classes_), symmetry, **sizes)
        side = max(height, width, 2 * kernel)
        return PaddedLogits(model, (height, width), side).to(self.device)
