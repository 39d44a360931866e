"""Invariant model: features averaged over a learned box, and a Gaussian last layer."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_floats, invalid
from symmetries.distributions.box import Sampling, UniformBox
from symmetries.groups.base import Group
from symmetries.groups.names import named_group
from symmetries.nn.feature_maps import InvariantFeatures
from symmetries.nn.natural_linear import NaturalLinear
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.nn.variational import VariationalLinear

Task = Literal["classification", "regression"]
TASKS = ("classification", "regression")
Posterior = Literal["natural", "full", "diagonal", "point"]
POSTERIORS = ("natural", "full", "diagonal", "point")
Head = NaturalLinear | VariationalLinear


class InvariantModel(nn.Module):
    """Features averaged over a learned box of transformations, and a Gaussian last layer.

    Args:
        body: ``InvariantFeatures`` (transforms filters), or an ``OrbitAverage`` over "features"
            of any network (transforms inputs; one run).
        head: ``NaturalLinear``, or ``VariationalLinear`` ("point" makes it a plain network).
        boxes: one distribution of transformations for each run.
        task: "classification" (softmax) or "regression" (Gaussian, learned noise).

    Example:
        A deeper network averages any features of images over rotations of the input. Train it
        with ``learners.invariant_weights.elbo_loss``; the bound covers the last layer only, so
        it finds less invariance than a shallow network does (``papers/invariant-weights``).

        >>> from symmetries.groups.affine import Affine2
        >>> box = UniformBox(Affine2("rotation"), 0.1, constraint="reflect")
        >>> cnn = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16))
        >>> head = VariationalLinear(16, 10, scale=0.1)
        >>> model = InvariantModel(OrbitAverage(cnn, box), head, [box])
        >>> model.features(torch.rand(5, 1, 8, 8), samples=4).shape
        torch.Size([1, 5, 16])
    """

    def __init__(
        self,
        body: InvariantFeatures | OrbitAverage,
        head: Head,
        boxes: Sequence[UniformBox],
        task: Task = "classification",
    ) -> None:
        super().__init__()
        check_choice(task, TASKS, "task")
        if len(boxes) != head.runs:
            raise invalid("boxes", f"{head.runs} boxes", len(boxes), "one box for each run")
        self.body = body
        self.head = head
        self.boxes = nn.ModuleList(boxes)
        self.task = task
        self.log_noise = nn.Parameter(torch.zeros(head.runs, head.outputs))
        self.log_noise.requires_grad_(task == "regression")

    @property
    def group(self) -> Group[Any]:
        """Group of the transformations."""
        return cast(UniformBox, self.boxes[0]).group

    @property
    def half_width(self) -> Tensor:
        """Half-widths (R, dim), in the group's own units."""
        boxes = [cast(UniformBox, box) for box in self.boxes]
        first = boxes[0]
        if all(b.constraint == first.constraint and b.group is first.group for b in boxes):
            return first.constrained(torch.stack([box.free for box in boxes]))
        return torch.stack([box.half_width for box in boxes])

    def features(
        self,
        images: Tensor,
        samples: int,
        sampling: Sampling = "random",
        generator: torch.Generator | None = None,
        half_width: Tensor | None = None,
    ) -> Tensor:
        """Return features (R, B, D) averaged over S transformations shared by all images of a run.

        Args:
            images: (B, C, H, W), or (R, B, C, H, W).
            samples: number S of transformations.
            sampling: "random", "sobol" or "grid".
            generator: random generator.
            half_width: (R, dim) half-widths instead of the model's own.
        """
        return self.features_at(images, self.noise(samples, sampling, generator), half_width)

    def noise(
        self, samples: int, sampling: Sampling = "random", generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw samples (S, dim) in [-1, 1]^dim, before scaling by the half-widths."""
        return cast(UniformBox, self.boxes[0]).noise(samples, sampling, generator)

    def features_at(
        self, images: Tensor, noise: Tensor, half_width: Tensor | None = None
    ) -> Tensor:
        """Return features (R, B, D) averaged over given transformations.

        Args:
            images: (B, C, H, W), or (R, B, C, H, W).
            noise: (S, dim), as returned by :meth:`noise`.
            half_width: (R, dim) half-widths instead of the model's own.
        """
        check_floats(images, "images", "...", "C", "H", "W")
        width = self.half_width if half_width is None else half_width
        element = self.group.exp(noise * width[:, None])
        if isinstance(self.body, OrbitAverage):
            pictures = images[0] if images.ndim == 5 else images
            return self.body.average(pictures, element[0])[None]
        return self.body(images, element)


def shallow_model(
    shape: tuple[int, int, int],
    outputs: int,
    group: str | Group[Any],
    *,
    half_widths: Sequence[float | Sequence[float]] = (0.1,),
    learn: bool | Sequence[bool] = True,
    constraint: Literal["none", "softplus", "tanh", "reflect"] = "reflect",
    features: int = 1024,
    posterior: Posterior = "natural",
    prior_variance: float = 1.0,
    learn_prior: bool = True,
    scale: float = 1.0,
    bias: bool = True,
    task: Task = "classification",
    **options: Any,  # noqa: ANN401 - those of InvariantFeatures
) -> InvariantModel:
    """Build the paper's network: one hidden layer of transformed filters, a Gaussian last layer.

    Args:
        shape: (C, H, W) of the images.
        outputs: number of classes or of values.
        group: ``Affine2`` or ``SE2``, or the name of one.
        half_widths: at the start, for each run; its length is the number of runs.
        learn: whether widths are trained, for all runs or for each.
        constraint: see :class:`UniformBox`.
        features: number of hidden units.
        posterior: "natural" (full blocks, natural-gradient steps), or the covariance of a
            ``VariationalLinear``.
        prior_variance: initial prior variance of the last layer.
        learn_prior: whether the prior variance is learned.
        scale: initial standard deviation if the posterior is a ``VariationalLinear``.
        bias: whether the last layer has a bias.
        task: "classification" or "regression".
        options: options of :class:`InvariantFeatures` (kind, sigma, amplitude, seed, blur, ...).

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> model = shallow_model((1, 8, 8), 10, Affine2("rotation"), features=32)
        >>> model.features(torch.rand(5, 1, 8, 8), samples=4).shape
        torch.Size([1, 5, 32])
    """
    check_choice(posterior, POSTERIORS, "posterior")
    group = named_group(group)
    moves = isinstance(group, Group) and group.exp(torch.zeros(1, group.dim))
    if not isinstance(moves, Tensor) or moves.shape[-2:] != (3, 3):
        remedy = "use Affine2 or SE2, by name rotation, translation, scale, affine, se2, ...; "
        remedy += "other groups move inputs: OrbitAverage"
        raise invalid("group", "a group of the plane", repr(group), remedy)
    runs = len(half_widths)
    flags = [learn] * runs if isinstance(learn, bool) else learn
    boxes = [
        UniformBox(group, width, constraint=constraint, learn=flag)
        for width, flag in zip(half_widths, flags, strict=True)
    ]
    body = InvariantFeatures(shape, features, runs=runs, **options)
    head: Head
    if posterior == "natural":
        head = NaturalLinear(
            features,
            outputs,
            bias=bias,
            runs=runs,
            prior_variance=prior_variance,
            learn_prior=learn_prior,
        )
    else:
        head = VariationalLinear(
            features,
            outputs,
            covariance=posterior,
            bias=bias,
            runs=runs,
            prior_variance=prior_variance,
            learn_prior=learn_prior,
            scale=scale,
        )
    return InvariantModel(body, head, boxes, task)
