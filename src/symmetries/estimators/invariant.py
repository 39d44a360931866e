"""Classifier and regressor that learn how much invariance the task has (paper 0)."""

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from symmetries._validation.checks import check_flag, check_positive, check_whole, invalid
from symmetries.estimators.arrays import given_seed, read_classes, read_numbers, read_seed
from symmetries.estimators.images import ImageEstimator
from symmetries.estimators.networks import (
    AveragedOutputs,
    build_learner,
    network_invariance,
    network_rows,
    profile,
)
from symmetries.groups.base import Group
from symmetries.groups.names import as_group
from symmetries.learners.invariant_network import InvariantNetworkConfig
from symmetries.learners.invariant_network.class_widths import ClassWidths
from symmetries.learners.invariant_weights import NaturalConfig, evaluate, fit_natural, width_rows
from symmetries.nn.invariant_model import InvariantModel, Task, shallow_model

DRAWS = 64


class MeanLogits(nn.Module):
    """Posterior mean of the logits (N, K) of images (N, C, H, W), the same at every call.

    Args:
        model: fitted, with one run.
        scale: that the images are divided by.
        samples: transformations, a Sobol sequence that all images share.
        fill: value of the background, which is taken off first.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> model = shallow_model((1, 8, 8), 10, Affine2("rotation"), features=16)
        >>> MeanLogits(model)(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self, model: InvariantModel, scale: float = 1.0, samples: int = 32, fill: float = 0.0
    ) -> None:
        super().__init__()
        self.model = model
        self.scale = scale
        self.samples = samples
        self.fill = fill
        # Drawn once, as an exported program cannot draw. Not saved: they follow from the number.
        generator = torch.Generator(model.log_noise.device).manual_seed(0)
        noise = model.noise(samples, "sobol", generator)
        self.register_buffer("noise", noise, persistent=False)
        self.noise: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (N, K)."""
        scaled = (images - self.fill if self.fill else images) / self.scale
        features = self.model.features_at(scaled, self.noise)
        mean: Tensor = self.model.head(features)[0]
        return mean[0]


class _InvariantEstimator(ImageEstimator):
    """Common base of the classifier and the regressor."""

    _task: Task
    _fitted: ClassVar[tuple[str, ...]] = (
        "image_size_",
        "scale_",
        "fill_",
        "n_features_in_",
        "outputs_",
        "elbo_",
        "n_iter_",
        "invariance_",
        "history_",
        "class_widths_",
    )

    def __init__(
        self,
        group: str | Group[Any] = "rotation",
        *,
        image_shape: tuple[int, ...] | None = None,
        fill: float | None = None,
        half_width: float = 0.1,
        learn: bool = True,
        features: int = 256,
        sigma: float | None = None,
        samples: int = 32,
        steps: int = 150,
        batch_size: int = 1000,
        lr: float = 0.1,
        search: int = 7,
        network: str | nn.Module | None = None,
        network_config: str | InvariantNetworkConfig = "quick",
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.group = group
        self.image_shape = image_shape
        self.fill = fill
        self.half_width = half_width
        self.learn = learn
        self.features = features
        self.sigma = sigma
        self.samples = samples
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.search = search
        self.network = network
        self.network_config = network_config
        self.device = device
        self.random_state = random_state

    def _fit(
        self, images: Tensor, targets: Tensor, outputs: int, options: Mapping[str, Any]
    ) -> Self:
        check_flag(self.learn, "learn")
        check_whole(self.search, "search", least=0)
        if self.sigma is not None:
            check_positive(self.sigma, "sigma")
        double = options.get("precision") == "64-true"
        images = images if double else images.float()
        targets = targets if double or not targets.is_floating_point() else targets.float()
        seed = read_seed(self.random_state)
        if self.network is not None:
            return self._fit_network(images, targets, outputs, seed, options)
        # Frequencies on the scale of the distances between images.
        distance = float((2 * images.flatten(1).var(0, unbiased=False).sum()).sqrt())
        sigma = self.sigma or 2.0 / max(distance, 1e-6)
        self.outputs_ = outputs
        model = self._build(sigma, seed).to(self.device, images.dtype)
        config = NaturalConfig(
            steps=self.steps,
            batch_size=self.batch_size,
            samples=self.samples,
            lr=self.lr,
            search=self.search if self.learn else 0,
            seed=seed,
        ).replace(body_lr=0.1)
        named = {"given_seed": given_seed(self.random_state), **options}
        self.history_ = width_rows(fit_natural(model, [images], targets, config, **named))
        fit = evaluate(model, [images], targets, samples=self.samples).log_likelihood
        self.model_ = model
        self.elbo_ = float(fit - model.head.kl() / len(targets))
        if not math.isfinite(self.elbo_):
            raise invalid("elbo_", "a finite bound", self.elbo_, "scale the data, or lower lr")
        self.n_iter_ = len(self.history_) and self.steps
        self.invariance_ = profile(model, images, targets, self.samples, self.learn)
        model.double()  # predictions of one image then do not depend on the others
        return self

    def _fit_network(
        self, images: Tensor, targets: Tensor, outputs: int, seed: int, options: Mapping[str, Any]
    ) -> Self:
        self.outputs_ = outputs
        self.class_widths_: list[tuple[int, list[float]]] = []  # not those of a fit before this one
        model = self._build(seed=seed)
        run = {"device": self.device, "progress": False, **options}
        history = model.fit((images, targets), **run)
        model.eval()
        self.model_ = model
        if model.class_widths is not None:
            self.class_widths_ = model.class_widths.pairs()
        self.history_ = network_rows(history, model.group.names)
        self.elbo_ = float(model.estimated_evidence(images, targets)[0]) / len(images)
        self.n_iter_ = history.step[-1]
        self.invariance_ = network_invariance(model)
        return self

    def _build(self, sigma: float = 1.0, seed: int = 0) -> Any:  # noqa: ANN401 - one of two models
        group = as_group(self.group)
        if self.network is not None:
            likelihood = "categorical" if self._task == "classification" else "gaussian"
            config = InvariantNetworkConfig.resolve(self.network_config)
            config = config.replace(learn=self.learn, likelihood=likelihood)
            start = None if self.learn else self.half_width
            sizes = (self.image_size_, self.outputs_)
            learner = build_learner(self.network, group, *sizes, config, start, seed)
            if own := getattr(self, "class_widths_", None):
                learner.class_widths = ClassWidths(self.outputs_, dict(own))
            return learner.to(self.device)
        return shallow_model(
            self.image_size_,
            self.outputs_,
            group,
            half_widths=(self.half_width,),
            learn=self.learn,
            features=self.features,
            sigma=sigma,
            prior_variance=30.0,
            task=self._task,
            seed=seed,
        )

    @torch.no_grad()
    def _moments(self, X: ArrayLike) -> tuple[Tensor, Tensor]:
        check_is_fitted(self)
        images = self._on_black(X, reset=False)
        if self.network is not None:
            outputs = self.model_(images.to(next(self.model_.parameters()))).double()
            return outputs, torch.zeros_like(outputs)
        generator = torch.Generator(images.device)
        parts = []
        for part in images.split(1000):  # the same transformations for every part
            features = self.model_.features(part, self.samples, "sobol", generator.manual_seed(0))
            parts.append(self.model_.head(features))
        mean, variance = (torch.cat(part, 1)[0] for part in zip(*parts, strict=True))
        return mean, variance


class InvariantClassifier(ClassifierMixin, _InvariantEstimator):  # type: ignore[misc]
    """Classifies images and learns how much invariance the task has, from the training set alone.

    Random Fourier features averaged over transformations whose half-widths maximise a lower bound
    on the marginal likelihood (van der Ouderaa and van der Wilk 2022).

    Args:
        group: names such as "rotation" or "rotation,translation", or a ``Group`` of the plane.
        image_shape: (H, W) or (C, H, W) of flattened images.
        fill: value of the background, in the units of X; None looks for it at the borders.
        half_width: at the start, in the group's own units (radians, half-image units).
        learn: whether half-widths are learned.
        features: number of random features.
        sigma: standard deviation of the frequencies; None follows the distances between images.
        samples: transformations per step, and in prediction.
        steps: of training.
        batch_size: examples per step.
        lr: of the half-widths.
        search: points along each half-width of a line search after two thirds of the steps, with
            the last layer fitted anew at each: gradients may stop on the way. 0 leaves it out.
        network: None for random features; or a network of your own, from images to logits, which
            is copied, or a name: "cnn", "resnet", a model of torchvision or timm. Half-widths
            maximise a bound on its Laplace evidence then
            (:class:`~symmetries.learners.InvariantNetwork`), and ``features``, ``sigma``,
            ``samples``, ``steps``, ``batch_size``, ``lr`` and ``search`` are not read.
        network_config: settings of that learner, or the name of a preset.
        device: "cpu" or "cuda".
        random_state: random seed.

    Attributes:
        invariance_: what was learned, one :class:`Invariance` for each parameter of the group. The
            interval holds the half-widths whose ELBO, with the last layer fitted anew at each and
            the other widths fixed, is at most 1.92 nats below that of the learned one. Where it
            reaches far to one side only, training stopped on the way: raise ``search``.
        elbo_: lower bound on the log marginal likelihood, per example; with a network its Laplace
            approximation.
        classes_: the labels.
        fill_: value of the background.
        history_: half-widths along the way, in the group's own units: [step, first, second, ...].
        class_widths_: of a network, numbers of the classes that have half-widths of their own
            (``InvariantNetworkConfig(by_class=True)``), with these in the group's own units.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = InvariantClassifier("rotation", features=64, steps=30, samples=8, search=3)
        >>> model = model.fit(X[:500], y[:500])
        >>> model.score(X[500:700], y[500:700]) > 0.8
        True
        >>> model.invariance_[0].unit
        'degrees'
    """

    _task: Task = "classification"
    _fitted = (*_InvariantEstimator._fitted, "classes_")

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Any) -> Self:  # noqa: ANN401
        """Learn from images X and labels y (N,).

        Args:
            X: images.
            y: labels.
            options: of :func:`~symmetries.learners.invariant_weights.fit_natural`: ``out`` and
                ``resume`` for checkpoints, ``precision``, ``devices``, ``on_step``, ...
        """
        images = self._on_black(X, reset=True)
        self.classes_, numbers = read_classes(y, len(images))
        targets = torch.from_numpy(numbers).to(images.device)
        return self._fit(images, targets, len(self.classes_), options)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities (N, classes), averaged over the posterior of the weights."""
        mean, variance = self._moments(X)
        generator = torch.Generator(mean.device).manual_seed(0)
        # The same noise for every image: what is predicted for one does not depend on others.
        noise = torch.randn(
            DRAWS, 1, mean.shape[1], generator=generator, dtype=mean.dtype, device=mean.device
        )
        p = (mean + variance.sqrt() * noise).softmax(-1).mean(0)
        return np.asarray(p.cpu().numpy(), dtype=np.float64)

    def module(self) -> nn.Module:
        """Return a copy as a module from images (N, C, H, W) to logits, in single precision.

        Pixels as in ``fit``. For audits, loops of one's own, and exports
        (:func:`~symmetries.nn.conversion.export`, :func:`~symmetries.nn.conversion.export_onnx`).
        """
        check_is_fitted(self)
        model = copy.deepcopy(self.model_).float()
        if self.network is not None:
            return AveragedOutputs(model, self.scale_, self.fill_).eval()
        return MeanLogits(model, self.scale_, self.samples, self.fill_).eval()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label (N,) of each image."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]


class InvariantRegressor(RegressorMixin, _InvariantEstimator):  # type: ignore[misc]
    """Predicts a number from an image and learns how much invariance the task has.

    Like :class:`InvariantClassifier` (same arguments, same attributes without ``classes_``), with
    a Gaussian likelihood whose noise is learned.

    Example:
        >>> X = np.random.default_rng(0).random((200, 6, 6))
        >>> model = InvariantRegressor(features=64, steps=40).fit(X, X.mean((1, 2)))
        >>> model.score(X, X.mean((1, 2))) > 0.8
        True
    """

    _task: Task = "regression"
    _fitted = (*_InvariantEstimator._fitted, "offset_", "unit_")

    def fit(self, X: ArrayLike, y: ArrayLike, **options: Any) -> Self:  # noqa: ANN401
        """Learn from images X and numbers y (N,); the options are those of the classifier."""
        images = self._on_black(X, reset=True)
        numbers = read_numbers(y, len(images))
        self.offset_, self.unit_ = float(numbers.mean()), float(numbers.std()) or 1.0
        scaled = torch.from_numpy((numbers - self.offset_) / self.unit_)[:, None]
        return self._fit(images, scaled.to(images.device), 1, options)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the posterior mean (N,) for each image."""
        mean, _ = self._moments(X)
        return np.asarray(mean[:, 0].cpu().numpy() * self.unit_ + self.offset_)
