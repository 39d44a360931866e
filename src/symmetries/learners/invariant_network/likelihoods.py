"""Log-likelihoods of outputs, and the square roots of their curvatures."""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._validation.checks import invalid, short
from symmetries._validation.diagnose import diagnose_labels

Likelihood = Literal["categorical", "gaussian"]
LIKELIHOODS = get_args(Likelihood)


def check_likelihood(value: object) -> None:
    """Raise an error unless this names a log-likelihood.

    Example:
        >>> check_likelihood("hinge")
        Traceback (most recent call last):
        ValueError: likelihood: expected 'categorical' or 'gaussian', got 'hinge'; the evidence is \
that of a log-likelihood: take the one nearest to your loss, or train without learned widths
    """
    if not isinstance(value, str) or value not in LIKELIHOODS:
        remedy = "the evidence is that of a log-likelihood: take the one nearest to your loss, or "
        remedy += "train without learned widths"
        raise invalid("likelihood", "'categorical' or 'gaussian'", short(value), remedy)


def log_likelihood(
    kind: Likelihood, outputs: Tensor, targets: Tensor, noise: Tensor | float = 1.0
) -> Tensor:
    r"""Return log p(y | f) of each example (N,).

    Args:
        kind: "categorical", log softmax(f)_y; or "gaussian", log N(y | f, noise^2 I).
        outputs: f (N, K).
        targets: class numbers (N,), or values (N, K).
        noise: standard deviation of the Gaussian.
    """
    if kind == "categorical":
        with diagnose_labels(targets, outputs.shape[1]):
            return -F.cross_entropy(outputs, targets, reduction="none")
    variance = torch.as_tensor(noise, dtype=outputs.dtype, device=outputs.device).square()
    error = (targets - outputs).square().sum(1)
    return -0.5 * (error / variance + outputs.shape[1] * (2 * math.pi * variance).log())


def whitened(
    kind: Likelihood, outputs: Tensor, change: Tensor, noise: Tensor | float = 1.0
) -> Tensor:
    r"""Return L^T u for a change u of the outputs, with L L^T = Lambda = -d^2 log p(y | f) / df^2.

    The curvature of the softmax is diag(p) - p p^T, and its root L = diag(sqrt p) - p sqrt(p)^T
    needs no decomposition; that of the Gaussian is I / noise^2. Neither depends on the target, so
    the generalised Gauss-Newton matrix is the sum of J^T Lambda J over examples.

    Args:
        kind: of the likelihood.
        outputs: f (..., K), where Lambda is taken.
        change: u (..., K).
        noise: standard deviation of the Gaussian.

    Example:
        >>> f, u = torch.randn(3), torch.randn(3)
        >>> p = f.softmax(0)
        >>> curvature = p.diag() - p.outer(p)
        >>> bool((whitened("categorical", f, u).square().sum() - u @ curvature @ u).abs() < 1e-5)
        True
    """
    if kind == "gaussian":
        return change / noise
    p = outputs.softmax(-1)
    return p.sqrt() * (change - (p * change).sum(-1, keepdim=True))


def unwhitened(
    kind: Likelihood, outputs: Tensor, values: Tensor, noise: Tensor | float = 1.0
) -> Tensor:
    """Return L u for values u (..., K), the transpose of :func:`whitened`."""
    if kind == "gaussian":
        return values / noise
    p = outputs.softmax(-1)
    return p.sqrt() * values - p * (p.sqrt() * values).sum(-1, keepdim=True)


def constant_evidence(kind: Likelihood, targets: Tensor) -> float:
    """Log-likelihood of all targets by one distribution for every input: the bar for networks.

    Example:
        >>> round(constant_evidence("categorical", torch.tensor([0, 0, 1, 1])), 3)
        -2.773
    """
    if kind == "categorical":
        counts = targets.unique(return_counts=True)[1].double()
        return float((counts * (counts / counts.sum()).log()).sum())
    variance = targets.double().var(0, unbiased=False).clamp_min(1e-12)
    return float(-0.5 * len(targets) * ((2 * math.pi * variance).log() + 1).sum())
