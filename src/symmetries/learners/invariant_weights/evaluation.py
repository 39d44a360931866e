"""Evaluation of a model: expected log-likelihood, accuracy and outputs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_counts, check_whole
from symmetries.distributions.box import SAMPLINGS, Sampling
from symmetries.learners.invariant_weights.objectives import (
    check_labelled,
    images_of,
    log_likelihood,
)
from symmetries.nn.invariant_model import InvariantModel


@dataclass(frozen=True)
class Evaluation:
    """Log-likelihood, score and outputs of a model on labelled images, for each run.

    Args:
        log_likelihood: expected, per example.
        score: accuracy; for regression the mean square error.
        mean: of the outputs, (R, N, outputs).
        variance: of the outputs, (R, N, outputs).
    """

    log_likelihood: Tensor
    score: Tensor
    mean: Tensor
    variance: Tensor


SLACK = 1e-4  # of a bound, for rounding


def warn_of_runaways(model: InvariantModel) -> None:
    """Warn about half-widths outside the bounds of their parameters.

    With "reflect" and "tanh" they cannot; with "none" and "softplus" nothing stops them.
    """
    limits = [limit * (1 + SLACK) for limit in model.group.bounds]
    for run, widths in enumerate(model.half_width.detach().tolist()):
        for name, width, limit in zip(model.group.names, widths, limits, strict=True):
            if not -limit <= width <= limit:
                text = (
                    f"half-width of {name} (run {run}): expected at most {limit:.4g}, got "
                    f"{width:.4g}: it has diverged. Use constraint='reflect' or 'tanh', or lower "
                    "its rate"
                )
                warnings.warn(text, RuntimeWarning, stacklevel=3)


@torch.no_grad()
def evaluate(
    model: InvariantModel,
    images: Sequence[Tensor],
    targets: Tensor,
    *,
    samples: int = 32,
    sampling: Sampling = "sobol",
    draws: int = 16,
    sets: Sequence[int] | None = None,
    chunk: int = 1000,
    seed: int = 0,
    half_width: Tensor | None = None,
) -> Evaluation:
    """Return the expected log-likelihood and the accuracy; warn about half-widths out of bounds.

    Transformations are shared by all examples; "random" ones by those of a chunk.

    Args:
        model: to evaluate.
        images: one or several tensors (N, C, H, W), see :func:`images_of`.
        targets: (N,) or (N, outputs).
        samples: S.
        sampling: "random", "sobol" or "grid".
        draws: samples of the outputs.
        sets: which tensor of images belongs to each run.
        chunk: examples at a time.
        seed: of all random numbers.
        half_width: (R, dim) in place of the model's own.
    """
    check_labelled(model, images, targets)
    check_counts(samples=samples, draws=draws, chunk=chunk)
    check_whole(seed, "seed", least=0)
    check_choice(sampling, SAMPLINGS, "sampling")
    warn_of_runaways(model)
    device = model.half_width.device
    means, variances, fits = [], [], []
    generator = torch.Generator(device)
    for first in range(0, len(targets), chunk):
        part = slice(first, first + chunk)
        pictures = images_of([tensor[part].to(device) for tensor in images], sets)
        # Random transformations are part of the bound: new ones for every chunk.
        generator.manual_seed(seed + first if sampling == "random" else seed)
        phi = model.features(pictures, samples, sampling, generator, half_width)
        mean, variance = model.head(phi)
        target = targets[part].to(device)
        fits.append(log_likelihood(model, mean, variance, target, draws, generator))
        means.append(mean)
        variances.append(variance)
    mean, y = torch.cat(means, 1), targets.to(device)
    if model.task == "classification":
        score = (mean.argmax(-1) == y).float().mean(1)
    else:
        score = (mean - y).square().mean((1, 2))
    return Evaluation(torch.cat(fits, 1).mean(1), score, mean, torch.cat(variances, 1))
