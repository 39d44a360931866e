"""The symmetry model as a transformer of scikit-learn."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.estimators.arrays import read_seed
from symmetries.estimators.images import ImageEstimator
from symmetries.groups.base import Group
from symmetries.learners import symmetry_model as learner

LEAST_SIDE = 8


class SymmetryEstimator(OneToOneFeatureMixin, TransformerMixin, ImageEstimator):  # type: ignore[misc]
    """Learns which transformations occur in images, without labels; maps images to prototypes.

    Every image is a prototype moved by a random transformation, x = T_eta(x_hat); p(eta | x_hat)
    says how much of each transformation occurs (Allingham et al. 2024). See
    :class:`symmetries.learners.symmetry_model.SymmetryModel` for everything else it can be asked;
    ``model_`` is one.

    Images smaller than 8 x 8 are put in a frame of the background's value, with a warning.

    Args:
        group: names such as "rotation" or "rotation,translation", or a ``Group``.
        image_shape: (H, W) or (C, H, W) of flattened images.
        config: "quick" (about a minute on a CPU), "default" (for a GPU), "paper", or a
            :class:`symmetries.learners.symmetry_model.SymmetryConfig`.
        bounds: how far transformations may go, by name or one for each; None for the usual.
        fill: value of the background, in the units of X; None looks for it at the borders.
        refine: how often prototypes are treated as images again, for prototypes that agree better.
        device: "cpu" or "cuda".
        random_state: of everything random.

    Attributes:
        symmetries_: a :class:`symmetries.results.SymmetrySummary`: for each
            parameter its width, the model's noise and a verdict.
        fill_: value of the background.
        model_: the fitted model; its images are X divided by ``scale_``.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from symmetries.learners.symmetry_model import SymmetryConfig
        >>> X = load_digits().data[:200]
        >>> short = {"steps": 5, "batch_size": 32}
        >>> quick = SymmetryConfig.preset("quick").replace(inference=short, generative=short)
        >>> model = SymmetryEstimator("rotation", config=quick).fit(X)
        >>> model.transform(X[:3]).shape, model.sample(X[:3], 2).shape
        ((3, 64), (3, 2, 64))
        >>> model.symmetries_["rotation"].unit
        'degrees'
    """

    _former_names: ClassVar[tuple[str, ...]] = ("SymmetryModel",)
    _fitted: ClassVar[tuple[str, ...]] = (
        "image_size_",
        "scale_",
        "fill_",
        "n_features_in_",
        "seed_",
        "symmetries_",
    )

    def __init__(
        self,
        group: str | Group[Any] = "rotation",
        *,
        image_shape: tuple[int, ...] | None = None,
        config: str | learner.SymmetryConfig = "quick",
        bounds: Mapping[str, float] | Sequence[float] | None = None,
        fill: float | None = None,
        refine: int = 0,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.group = group
        self.image_shape = image_shape
        self.config = config
        self.bounds = bounds
        self.fill = fill
        self.refine = refine
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from images X; y is ignored."""
        images = self._framed(self._images(X, reset=True)).float()
        if min(self.image_size_[1:]) < LEAST_SIDE:
            warnings.warn(
                f"X: images of {self.image_size_[1]} x {self.image_size_[2]} pixels were put in a "
                f"frame of at least {LEAST_SIDE} x {LEAST_SIDE}; enlarge them first, or give "
                "image_shape if they are larger images, flattened",
                RuntimeWarning,
                stacklevel=2,
            )
        flat = images.flatten(1)
        images = images[flat.amax(1) > flat.amin(1)]
        if len(images) == 0:
            expected, got = "images that are not all of one value", "constant images only"
            raise invalid("X", expected, got, "every transformation leaves those alone")
        self.seed_ = read_seed(self.random_state)
        self.model_ = self._build().to(self.device)
        self.model_.fit(images, device=self.device, progress=False)
        self.symmetries_ = self.model_.summary(images)
        self.model_.double()  # the prototype of one image then does not depend on the others
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Prototypes of images, in the shape of X."""
        images = self._checked(X)
        prototypes = self.model_.prototype(images, self.refine)
        return self._back(prototypes, np.asarray(X).shape[1:])

    def sample(self, X: ArrayLike, n: int = 1) -> NDArray[np.float64]:
        """New versions (N, n, ...) of images, as likely as the data have them.

        Args:
            X: images.
            n: how many of each.
        """
        images = self._checked(X)
        seed = read_seed(self.random_state)
        generator = torch.Generator(images.device).manual_seed(seed)
        new = self.model_.sample(images, n, generator)
        shape = np.asarray(X).shape[1:]
        return self._back(new.flatten(0, 1), shape).reshape(len(images), n, *shape)

    def _build(self) -> learner.SymmetryModel:
        channels, height, width = self.image_size_
        return learner.SymmetryModel(
            self.group,
            (channels, max(height, LEAST_SIDE), max(width, LEAST_SIDE)),
            self.config,
            bounds=self.bounds,
            fill=self.fill_ / self.scale_,
            seed=self.seed_,
        )

    def _checked(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._framed(self._images(X, reset=False))

    def _margins(self) -> tuple[int, int]:
        """Pixels added on top and on the left."""
        height, width = self.image_size_[1:]
        return max(0, LEAST_SIDE - height) // 2, max(0, LEAST_SIDE - width) // 2

    def _framed(self, images: Tensor) -> Tensor:
        height, width = self.image_size_[1:]
        top, left = self._margins()
        bottom, right = max(0, LEAST_SIDE - height) - top, max(0, LEAST_SIDE - width) - left
        return F.pad(images, (left, right, top, bottom), value=self.fill_ / self.scale_)

    def _back(self, images: Tensor, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Images of the model as rows of the user's."""
        height, width = self.image_size_[1:]
        top, left = self._margins()
        inner = images[..., top : top + height, left : left + width].cpu().numpy() * self.scale_
        return np.asarray(inner.reshape(len(images), *shape), dtype=np.float64)
