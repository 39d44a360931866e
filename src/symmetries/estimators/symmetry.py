"""Which transformations occur in images, as a transformer of scikit-learn."""

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

from symmetries._validation.checks import check_choice, invalid
from symmetries.estimators.arrays import read_seed
from symmetries.estimators.images import ImageEstimator
from symmetries.groups.base import Group
from symmetries.groups.names import as_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior
from symmetries.learners.orbit_posterior.record import symmetry_summary
from symmetries.learners.orbit_posterior.versions import action_on, centred, new_versions
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel

LEAST_SIDE = 8
METHODS = ("orbit", "two-stage")


class SymmetryEstimator(OneToOneFeatureMixin, TransformerMixin, ImageEstimator):  # type: ignore[misc]
    """Learns which transformations occur in images, without labels.

    The method "orbit" learns the density of poses along the orbit of each picture
    (:class:`symmetries.OrbitPosterior`); ``transform`` moves pictures to the middle of the poses
    that occur, along the parameters that are absent or partial; where there are several poses, a
    whole fraction of a turn apart, there is no middle, and pictures stay as they are. The method
    "two-stage" sees every image as a prototype moved by a random transformation, x = T_eta(x_hat)
    (Allingham et al. 2024, :class:`symmetries.SymmetryModel`); ``transform`` gives prototypes, of
    full symmetries, too.

    Args:
        group: names such as "rotation" or "rotation,translation", or a ``Group``.
        method: "orbit" or "two-stage".
        image_shape: (H, W) or (C, H, W) of flattened images.
        config: "quick" (a minute or two on a CPU), "default" (for a GPU), of the two-stage model
            also "paper"; or an ``OrbitConfig`` or a ``SymmetryConfig``.
        bounds: how far transformations of the two-stage model may go, by name or one for each; None
            for the usual.
        fill: value of the background, in the units of X; None looks for it at the borders.
        refine: how often prototypes of the two-stage model are treated as images again, for
            prototypes that agree better.
        device: "cpu" or "cuda".
        random_state: random seed.

    Attributes:
        symmetries_: a :class:`symmetries.results.SymmetrySummary`: for each parameter its width and
            a verdict, and warnings, which ``fit`` issues, too.
        fill_: value of the background.
        model_: the fitted model; its images are X divided by ``scale_``.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from symmetries.learners.orbit_posterior import OrbitConfig
        >>> X = load_digits().data[:200]
        >>> short = OrbitConfig.preset("quick").replace(check=False, training={"steps": 2})
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # two steps are too few, and it says so
        ...     model = SymmetryEstimator("rotation", config=short).fit(X)
        >>> model.transform(X[:3]).shape, model.sample(X[:3], 2).shape
        ((3, 64), (3, 2, 64))
        >>> model.symmetries_["rotation"].unit
        'degrees'
    """

    _fitted: ClassVar[tuple[str, ...]] = (
        "image_size_",
        "scale_",
        "fill_",
        "n_features_in_",
        "seed_",
        "symmetries_",
        "orbit_",
    )

    def __init__(
        self,
        group: str | Group[Any] = "rotation",
        *,
        method: str = "orbit",
        image_shape: tuple[int, ...] | None = None,
        config: str | OrbitConfig | SymmetryConfig = "quick",
        bounds: Mapping[str, float] | Sequence[float] | None = None,
        fill: float | None = None,
        refine: int = 0,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.group = group
        self.method = method
        self.image_shape = image_shape
        self.config = config
        self.bounds = bounds
        self.fill = fill
        self.refine = refine
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from images X; y is ignored."""
        check_choice(self.method, METHODS, "method")
        images = self._images(X, reset=True).float()
        self._check_side()
        images = self._framed(images)
        flat = images.flatten(1)
        images = images[flat.amax(1) > flat.amin(1)]
        if len(images) == 0:
            expected, got = "images that are not all of one value", "constant images only"
            raise invalid("X", expected, got, "every transformation leaves those alone")
        self.seed_ = read_seed(self.random_state)
        if self.method == "orbit":
            return self._fit_orbits(images)
        self.model_ = self._build().to(self.device)
        self.model_.fit(images, device=self.device, progress=False)
        self.symmetries_ = self.model_.summary(images)
        self.model_.double()  # the prototype of one image then does not depend on the others
        return self

    def _fit_orbits(self, images: Tensor) -> Self:
        for name, usual in (("bounds", None), ("refine", 0)):
            if getattr(self, name) != usual:
                remedy = "it belongs to the method 'two-stage'"
                raise invalid(name, f"{usual} with the method 'orbit'", getattr(self, name), remedy)
        action = action_on(images, as_group(self.group), self.fill_ / self.scale_)
        config: Any = self.config
        self.model_ = OrbitPosterior(action, self.image_size_, config, self.seed_).to(self.device)
        self.model_.fit(images, device=self.device, progress=False)
        self.orbit_ = self.model_.meta()
        self.symmetries_ = symmetry_summary(self.model_.summary(images, seed=self.seed_))
        for text in self.symmetries_.warnings:
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Move each picture to the middle of its poses or its prototype; the shape is that of X."""
        images = self._checked(X)
        if self.method == "orbit":
            parts = self.symmetries_.transformations
            known = [part for part in parts if part.verdict in ("absent", "partial")]
            moved = centred(self.model_, images, {p.name for p in known if p.poses == 1})
        else:
            moved = self.model_.prototype(images, self.refine)
        return self._back(moved, np.asarray(X).shape[1:])

    def sample(self, X: ArrayLike, n: int = 1) -> NDArray[np.float64]:
        """Draw new versions (N, n, ...) of images, transformed as often and as far as the data are.

        Args:
            X: images.
            n: how many of each.
        """
        images = self._checked(X)
        seed = read_seed(self.random_state)
        if self.method == "orbit":
            new = new_versions(self.model_, images, n, torch.Generator().manual_seed(seed))
        else:
            generator = torch.Generator(images.device).manual_seed(seed)
            new = self.model_.sample(images, n, generator)
        shape = np.asarray(X).shape[1:]
        return self._back(new.flatten(0, 1), shape).reshape(len(images), n, *shape)

    def _build(self) -> OrbitPosterior | SymmetryModel:
        if self.method == "orbit":
            return OrbitPosterior.from_meta(self.orbit_)
        channels, height, width = self.image_size_
        config: Any = self.config
        return SymmetryModel(
            self.group,
            (channels, max(height, LEAST_SIDE), max(width, LEAST_SIDE)),
            config,
            bounds=self.bounds,
            fill=self.fill_ / self.scale_,
            seed=self.seed_,
        )

    def _check_side(self) -> None:
        """Raise an error for arrays that are too small; the two-stage model pads them and warns."""
        _, height, width = self.image_size_
        if min(height, width) >= LEAST_SIDE:
            return
        if self.method == "orbit":
            expected = f"pictures of at least {LEAST_SIDE} x {LEAST_SIDE} pixels"
            remedy = "give image_shape if they are larger pictures, flattened; else enlarge them"
            raise invalid("X", expected, f"arrays of {height} x {width} numbers", remedy)
        warnings.warn(
            f"X: images of {height} x {width} pixels were put in a "
            f"frame of at least {LEAST_SIDE} x {LEAST_SIDE}; enlarge them first, or give "
            "image_shape if they are larger images, flattened",
            RuntimeWarning,
            stacklevel=3,
        )

    def _checked(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        images = self._framed(self._images(X, reset=False))
        return images.float() if self.method == "orbit" else images

    def _margins(self) -> tuple[int, int]:
        """Return the number of pixels that are added on top and on the left."""
        height, width = self.image_size_[1:]
        return max(0, LEAST_SIDE - height) // 2, max(0, LEAST_SIDE - width) // 2

    def _framed(self, images: Tensor) -> Tensor:
        height, width = self.image_size_[1:]
        top, left = self._margins()
        bottom, right = max(0, LEAST_SIDE - height) - top, max(0, LEAST_SIDE - width) - left
        return F.pad(images, (left, right, top, bottom), value=self.fill_ / self.scale_)

    def _back(self, images: Tensor, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Convert images of the model to an array with items of this shape."""
        height, width = self.image_size_[1:]
        top, left = self._margins()
        inner = images[..., top : top + height, left : left + width].cpu().numpy() * self.scale_
        return np.asarray(inner.reshape(len(images), *shape), dtype=np.float64)
