"""Objectives: the negative ELBO, and Augerino's objective for comparison."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_choice,
    check_class_range,
    check_classes,
    check_counts,
    check_finite,
    check_floats,
    check_held,
    check_number,
    check_some,
    check_tensors,
    check_whole,
    invalid,
    short,
    wrong_type,
)
from symmetries._validation.diagnose import diagnose_labels
from symmetries._validation.placement import check_dtype, check_together
from symmetries.distributions.box import SAMPLINGS, Sampling
from symmetries.nn.invariant_model import InvariantModel
from symmetries.nn.variational import output_noise, sample_outputs
from symmetries.ops.expected_log_softmax import expected_log_softmax

if TYPE_CHECKING:
    from symmetries.training.step import Step
    from symmetries.training.update import Loss


def log_likelihood(
    model: InvariantModel,
    mean: Tensor,
    variance: Tensor,
    targets: Tensor,
    draws: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the expected log-likelihood (R, B) of the targets, for outputs N(mean, variance).

    Args:
        model: whose task and noise count.
        mean: (R, B, outputs).
        variance: (R, B, outputs).
        targets: class numbers (B,), or values (B, outputs).
        draws: samples of the outputs; regression needs none, its expectation is closed.
        generator: source of randomness.
    """
    check_floats(mean, "mean", "R", "B", model.head.outputs)
    check_floats(variance, "variance", *mean.shape)
    check_together(mean=mean, variance=variance, targets=targets)
    if model.task == "regression":
        precision = (-2 * model.log_noise).exp()[:, None]
        square = ((targets - mean).square() + variance) * precision
        terms = -0.5 * (math.log(2 * math.pi) + square) - model.log_noise[:, None]
        return terms.sum(-1)
    check_classes(targets, mean.shape[1], "targets")
    noise = output_noise(mean, draws, generator)[:, 0]
    with diagnose_labels(targets, mean.shape[-1], "targets"):
        return expected_log_softmax(mean, variance, noise, targets)


@torch.no_grad()
def expected_sites(
    model: InvariantModel,
    outputs: tuple[Tensor, Tensor],
    targets: Tensor,
    draws: int,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Return the sites h m + g and h of a natural-gradient step, both (R, B, outputs).

    g and h are the slope and the (negative) curvature of the log-likelihood in each output,
    expected under the outputs N(mean, variance).
    """
    mean, variance = outputs
    if model.task == "regression":
        curvature = (-2 * model.log_noise).exp()[:, None].expand_as(mean)
        slope = (targets - mean) * curvature
    else:
        p = sample_outputs(mean, variance, draws, generator).softmax(-1)
        observed = torch.zeros_like(mean[0]).scatter_(1, targets[:, None], 1.0)
        slope, curvature = observed - p.mean(0), (p * (1 - p)).mean(0)
    return curvature * mean + slope, curvature


def images_of(batch: Sequence[Tensor], sets: Sequence[int] | None = None) -> Tensor:
    """Return the images of each run: those of the only set, or of the set that belongs to each run.

    Args:
        batch: one or several tensors (B, C, H, W).
        sets: for each run the number of its tensor; None where there is one for all.
    """
    if not isinstance(batch, Sequence) or not batch:
        raise wrong_type("batch", "a list of tensors", batch, "wrap a single one: [images]")
    for images in batch:
        check_floats(images, "images", "N", "C", "H", "W")
    if len(batch) == 1 and sets is None:
        return batch[0]
    known = isinstance(sets, Sequence) and len(sets) > 0
    if not known or not all(isinstance(n, int) and 0 <= n < len(batch) for n in sets):  # type: ignore[union-attr]
        expected = f"for each run the number of its set, from 0 to {len(batch) - 1}"
        raise invalid("sets", expected, short(sets), "name them all")
    return torch.stack([batch[number] for number in sets])  # type: ignore[union-attr]


def check_labelled(model: InvariantModel, images: Sequence[Tensor], targets: Tensor) -> None:
    """Raise unless these are a model, tensors of images (N, C, H, W) and N targets.

    Reads values, which synchronises: for entry points only.
    """
    if not isinstance(model, InvariantModel):
        raise wrong_type("model", "an InvariantModel", model, "see shallow_model")
    if not isinstance(images, list | tuple) or not images:
        raise wrong_type("images", "a list of tensors", images, "wrap a single one: [images]")
    images_of(images, [0])
    for part in images:
        check_some(part, "images")
    check_tensors(targets=targets)
    if targets.ndim == 0 or len(targets) == 0 or any(len(part) != len(targets) for part in images):
        got = f"{tuple(targets.shape)} for {[len(part) for part in images]} images"
        raise invalid("targets", "one for each image, at least one", got, "check the labels")
    for part in images:
        check_finite(part, "images")
        check_dtype(part, model.half_width.dtype, "images")
    check_held(targets, "targets")
    if model.task == "regression":
        check_floats(targets, "targets", len(targets), model.head.outputs)
    else:
        check_classes(targets, len(targets), "targets")
        check_class_range(targets, model.head.outputs, "targets")


def elbo_loss(
    examples: int,
    *,
    samples: int = 32,
    sampling: Sampling = "random",
    draws: int = 1,
    sets: Sequence[int] | None = None,
    rest: float = 0.0,
) -> "Loss":
    """The negative ELBO per example, summed over runs, for :func:`symmetries.training.train`.

    A batch is one tensor of images (or several, see :func:`images_of`) and the targets.

    Args:
        examples: N, of the training set.
        samples: S transformations, shared by the batch.
        sampling: "random", "sobol" or "grid".
        draws: L samples of the weights.
        sets: which tensor of images belongs to each run.
        rest: share of the steps, from the first, in which filters and networks rest while widths
            and the last layer are learned: a network that is trained from the start may fit what
            it sees before its widths have grown.
    """
    check_counts(examples=examples, samples=samples, draws=draws)
    check_choice(sampling, SAMPLINGS, "sampling")
    resting = _Resting(rest)

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: "Step") -> dict[str, Tensor]:
        model = cast(InvariantModel, model)
        images = images_of(batch[:-1], sets)
        resting(model, step)
        width = model.half_width
        phi = model.features(images, samples, sampling, step.generator, width)
        mean, variance, kl = model.head.moments_and_kl(phi)
        fit = log_likelihood(model, mean, variance, batch[-1], draws, step.generator)
        return _bound(kl, fit, examples) | {
            name: width[0, i] for i, name in enumerate(model.group.names)
        }

    return loss


def _bound(kl: Tensor, fit: Tensor, examples: int) -> dict[str, Tensor]:
    """Return the loss of all runs and its two parts, from KL (R,) and log-likelihoods (R, B)."""
    kl, fit = kl / examples, fit.mean(1)
    return {"loss": (kl - fit).sum(), "log_likelihood": fit.mean(), "kl": kl.mean()}


class _Resting:
    """Holds the gradients of a model's body at zero for the first steps.

    It computes with ``step.progress``, a tensor, so that the step can be a CUDA graph.
    """

    def __init__(self, share: float) -> None:
        if not 0 <= share < 1:
            raise invalid("rest", "a share in [0, 1)", share, "0.1 is a tenth of the steps")
        self.share = share
        self.gate = torch.ones(())
        self.model: nn.Module | None = None

    def __call__(self, model: InvariantModel, step: "Step") -> None:
        if not self.share:
            return
        self.gate = (step.progress >= self.share).float()
        if self.model is not model:
            self.model = model
            own = {id(p) for p in model.boxes.parameters()}  # an orbit average holds its box
            for parameter in model.body.parameters():
                if parameter.requires_grad and id(parameter) not in own:
                    parameter.register_hook(lambda slope: slope * self.gate)


def augerino_loss(
    strength: float = 0.01,
    *,
    samples: int = 1,
    sampling: Sampling = "random",
    sets: Sequence[int] | None = None,
) -> "Loss":
    """Return the cross-entropy minus strength times the norm of the widths (Benton et al. 2020).

    The baseline that learns widths of a point estimate by rewarding them outright. Augerino's
    density is U(-w/2, w/2): its w is twice our half-width.

    Args:
        strength: of the reward.
        samples: S transformations, shared by the batch; Augerino trains with one.
        sampling: "random", "sobol" or "grid".
        sets: which tensor of images belongs to each run.
    """
    check_number(strength, "strength")
    check_choice(sampling, SAMPLINGS, "sampling")
    check_whole(samples, "samples")

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: "Step") -> dict[str, Tensor]:
        model = cast(InvariantModel, model)
        images = images_of(batch[:-1], sets)
        phi = model.features(images, samples, sampling, step.generator)
        mean, variance = model.head(phi)
        fit = log_likelihood(model, mean, variance, batch[-1]).mean(1)
        reward = strength * torch.linalg.vector_norm(2 * model.half_width, dim=1)
        return {"loss": -(fit + reward).sum(), "log_likelihood": fit.mean()}

    return loss
