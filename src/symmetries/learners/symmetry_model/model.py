"""The symmetry model: prototypes, transformations, new versions and a summary of images."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import (
    check_chw,
    check_classes,
    check_image_shape,
    check_whole,
    invalid,
)
from symmetries._validation.placement import check_like
from symmetries.actions.base import Action
from symmetries.data.base import ImageSet, images_to_learn
from symmetries.groups.base import Group
from symmetries.learners.base import ImageLearner, run_options
from symmetries.learners.symmetry_model.config import USUAL_BOUNDS, SymmetryConfig
from symmetries.learners.symmetry_model.coordinates import repeat_elements
from symmetries.learners.symmetry_model.fitting import STAGES, train_jobs
from symmetries.learners.symmetry_model.health import content_kept
from symmetries.learners.symmetry_model.networks import FiniteInference, Generative, LieInference
from symmetries.learners.symmetry_model.summary import summarise
from symmetries.results import SymmetrySummary
from symmetries.training import History
from symmetries.training.ensemble import TrainJobs, fit_alone
from symmetries.training.step import seeded

SMALLEST = 8
MOST_REFINEMENTS = 1000
CHUNK = 2048  # images at a time outside of training


class SymmetryModel(ImageLearner):
    r"""Which transformations occur in images, and how much: x = T_eta(x_hat), eta ~ p(eta | x_hat).

    Two stages, from images alone. First f, which maps every image of an orbit to one prototype
    x_hat = T_{f(x)}^-1 x, by comparing random versions of each image; then p(eta | x_hat) by
    maximum likelihood (Allingham et al. 2024, A Generative Model of Symmetry Transformations).

    Args:
        action: how the transformations to look for move images: an ``ImageAction``, a group or its
            name. Affine2 or parts of it, SE2, Colour, a product of those, or one finite group.
        shape: (C, H, W) of the images, at least 8 x 8.
        config: a preset, "quick", "default" or "paper", or a :class:`SymmetryConfig`.
        bounds: how far the transformations may go, in the group's units: by name, or one for each
            parameter. They must cover what occurs, and keep the picture in its frame.
        fill: background value; that of the action by default.
        seed: random seed of the initial weights and of training.

    Example:
        >>> model = SymmetryModel("rotation", (1, 8, 8), "quick")
        >>> x = torch.rand(4, 1, 8, 8)
        >>> model.infer(x).shape, model.prototype(x).shape, model.sample(x, 3).shape
        (torch.Size([4, 1]), torch.Size([4, 1, 8, 8]), torch.Size([4, 3, 1, 8, 8]))
    """

    name = "symmetry_model"
    kind = SymmetryConfig
    config: SymmetryConfig

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        config: SymmetryConfig | str = "default",
        *,
        bounds: Mapping[str, float] | Sequence[float] | None = None,
        fill: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(action, _checked_shape(shape), config, bounds, fill, seed, USUAL_BOUNDS)
        self.inference: LieInference | FiniteInference
        with seeded(seed):
            if self.group.finite:
                self.inference = FiniteInference(self.shape, self.group.order, self.config)
            else:
                sizes = (self.shape, self.group, self.bounds, self.config)
                self.inference = LieInference(*sizes, self.act.fill)
            self.generative = Generative(self.shape, self.group, self.bounds, self.config)
        self.eval()

    def fit(
        self,
        images: Tensor | ImageSet,
        *,
        stages: Sequence[str] = STAGES,
        **run: Any,  # noqa: ANN401 - fields of TrainConfig
    ) -> History:
        """Learn both networks, one after the other.

        Args:
            images: (N, C, H, W), values in [0, 1] or near (noisy, standardised), or a set.
            stages: which of "inference" and "generative".
            run: fields of :class:`symmetries.training.TrainConfig`: the folder ``out`` for
                checkpoints and metrics (a sub-folder for each stage), ``resume``, ``device``,
                ``progress``, ``log_every``, ``precision``, ``devices``, ``nodes``, ``graph``.

        Returns:
            The logged metrics of both stages; those of each are in its ``stages``.
        """
        return fit_alone(self.train_jobs(images, stages=stages, **run))

    def train_jobs(
        self,
        images: Tensor | ImageSet,
        *,
        stages: Sequence[str] = STAGES,
        **run: Any,  # noqa: ANN401
    ) -> TrainJobs[History]:
        """Yield the training jobs of :meth:`fit`, for :func:`symmetries.training.fit_many`."""
        return train_jobs(self, images, stages, {"out": None, **run_options(run)})

    @torch.no_grad()
    def element(self, x: Tensor, refine: int = 0) -> Any:  # noqa: ANN401 - elements differ by group
        """Return the element e with x = T_e x_hat, refined by treating x_hat as an image n times.

        Args:
            x: (N, C, H, W), on the model's device.
            refine: how many times; each composes another inferred element.
        """
        self.check_shape(x)
        check_like(x, next(self.inference.parameters()), "x")
        check_whole(refine, "refine", least=0, most=MOST_REFINEMENTS)
        total = self._found(x)
        for _ in range(refine):
            inner = self._found(self.act(self.group.inverse(total), x))
            total = self.group.compose(total, inner)
        return total

    @torch.no_grad()
    def infer(self, x: Tensor, refine: int = 0) -> Tensor:
        """Return the parameters eta (N, dim) of images (N, C, H, W).

        With ``refine`` the group must be closed, as composed elements need parameters again.
        """
        if refine and not self.group.closed:
            remedy = "use element(x, refine), or prototype(x, refine), or a closed group"
            raise invalid("refine", f"0, as {self.group!r} is not closed", refine, remedy)
        if refine or isinstance(self.inference, FiniteInference):
            return torch.as_tensor(self.group.log(self.element(x, refine)))
        self.check_shape(x)
        check_like(x, next(self.inference.parameters()), "x")
        return torch.cat([self.inference(part) for part in x.split(CHUNK)])

    @torch.no_grad()
    def prototype(self, x: Tensor, refine: int = 0) -> Tensor:
        """Return the prototypes (N, C, H, W) of images, by one resampling of each image.

        Args:
            x: (N, C, H, W).
            refine: iterate: treat the prototype as an image, n times.
        """
        return self.act(self.group.inverse(self.element(x, refine)), x)

    @torch.no_grad()
    def sample_eta(self, x: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw transformations (N, n, dim) from p(eta | x_hat); whole steps for finite groups."""
        drawn = self._draw(self.prototype(x), n, generator)
        return torch.as_tensor(self.group.log(drawn)) if self.group.finite else drawn

    @torch.no_grad()
    def sample(
        self, x: Tensor, n: int = 1, generator: torch.Generator | None = None, refine: int = 0
    ) -> Tensor:
        """Return new versions (N, n, C, H, W) of images, drawn from p(eta | x_hat).

        T_eta T_f(x)^-1 is composed first, so each version is one resampling of x. ``refine``:
        see :meth:`element`.
        """
        element = self.group.inverse(self.element(x, refine))
        prototypes = self.act(element, x)
        drawn = self._draw(prototypes, n, generator)
        new = drawn if self.group.finite else self.group.exp(drawn)
        every = repeat_elements(element, n)
        return self.act.orbit(self.group.compose(new, every), x)

    def augment(self, batch: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one new version of each image (N, C, H, W): a transform for any training loop."""
        return self.sample(batch, 1, generator)[:, 0]

    @torch.no_grad()
    def log_prob(self, x: Tensor, eta: Tensor) -> Tensor:
        """Return log p(eta | x_hat(x)): a density per unit of eta, or a log-probability if finite.

        Args:
            x: (N, C, H, W).
            eta: (N, dim), or (N, S, dim) for S transformations of each.

        Returns:
            (N,) or (N, S).
        """
        context = self.generative(self.prototype(x))
        value = self.group.exp(eta) if self.group.finite else eta
        return self.generative.distribution.log_prob(value, context)

    @torch.no_grad()
    def marginals(
        self, x: Tensor, bins: int = 60, n: int = 2048, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the densities of each parameter under p(eta | x_hat), for every image.

        Returns:
            Edges (dim, bins + 1), and densities (N, dim, bins) that integrate to one; what falls
            outside the bounds is counted in the outermost bins.
        """
        check_whole(bins, "bins")
        eta = self.sample_eta(x, n, generator).to(torch.float32)
        limit = torch.tensor(self.bounds, device=eta.device)
        place = ((eta / limit + 1) / 2 * bins).long().clamp(0, bins - 1).transpose(1, 2)
        counts = torch.zeros(*place.shape[:2], bins, device=eta.device)
        counts.scatter_add_(2, place, torch.ones_like(place, dtype=counts.dtype))
        width = 2 * limit / bins
        edges = limit[:, None] * torch.linspace(-1, 1, bins + 1, device=eta.device)
        return edges, counts / (n * width[:, None])

    def summary(
        self,
        x: Tensor | ImageSet,
        labels: Tensor | None = None,
        *,
        most: int = 512,
        n: int = 1024,
        seed: int = 0,
    ) -> SymmetrySummary:
        """Summarise the symmetries of images: a width, a noise floor and a verdict per parameter.

        Args:
            x: (N, C, H, W), or a set of images.
            labels: (N,) for widths per class; those of the set by default.
            most: images to look at, a random choice.
            n: samples of eta for each.
            seed: of the samples.
        """
        names: tuple[str, ...] | None = None
        if isinstance(x, ImageSet):
            labels = x.labels if labels is None else labels
            names = x.class_names
        check_whole(most, "most")
        check_whole(n, "n", least=2)
        images = images_to_learn(x, self.shape, "x")
        if labels is not None:
            check_classes(labels, len(images))
        part = some_of(images, most).to(self.device)
        classes = None if labels is None else some_of(labels, most).cpu()
        return summarise(self, part, classes, names, n=n, seed=seed)

    def content_kept(self, x: Tensor) -> float:
        """Return the share of the variance that survives the way to the prototype and back."""
        return content_kept(self, x.to(self.device))

    def _found(self, x: Tensor) -> Any:  # noqa: ANN401 - elements differ by group
        out = torch.cat([self.inference(part) for part in x.split(CHUNK)])
        return out.argmax(-1) if self.group.finite else self.group.exp(out)

    def _draw(self, prototypes: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        """Return samples of p(. | x_hat): eta (N, n, dim), or elements (N, n) of a finite group."""
        check_whole(n, "n")
        step = max(1, CHUNK * 32 // n)
        parts = prototypes.split(step)
        draw = self.generative.distribution.sample
        return torch.cat([draw(self.generative(part), n, generator) for part in parts])

    def check_shape(self, x: Tensor) -> None:
        """Raise an error unless these are images (N, C, H, W) of the model's shape."""
        check_image_shape(x, self.shape, "x")


def _checked_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    check_chw(shape)
    if min(shape[1:]) < SMALLEST:
        expected = f"(C, H, W) with sides of at least {SMALLEST} pixels"
        raise invalid("shape", expected, tuple(shape), "enlarge the images first")
    return shape[0], shape[1], shape[2]
