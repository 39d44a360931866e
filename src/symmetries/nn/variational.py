r"""Linear last layer with a Gaussian posterior over its weights.

Outputs are independent blocks: w_c ~ N(mu_c, S_c), with prior N(0, alpha I). For features phi the
outputs are Gaussian with mean mu_c' phi and variance phi' S_c phi, and they are sampled directly
("local reparameterisation": each output has the same distribution as with sampled weights, but it
takes B random numbers instead of D, and the gradient has less noise).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._utils.per_example_random import per_example_random
from symmetries._validation.checks import (
    check_choice,
    check_floats,
    check_positive,
    check_whole,
    invalid,
)
from symmetries._validation.placement import check_like
from symmetries.ops.full_moments import full_moments
from symmetries.ops.gaussian_kl import cholesky_kl, gaussian_kl

Covariance = Literal["full", "diagonal", "point"]
COVARIANCES = ("full", "diagonal", "point")


def with_ones(features: Tensor) -> Tensor:
    """Append a constant feature 1, whose weight is the bias."""
    return F.pad(features, (0, 1), value=1.0)


def as_runs(features: Tensor, runs: int, inputs: int) -> Tensor:
    """Return features (R, B, D) from (R, B, D), or from (B, D) if there is one run."""
    check_floats(features, "features", "...", "D")
    if features.ndim == 2 and runs == 1:
        features = features[None]
    if features.ndim != 3 or features.shape[0] != runs or features.shape[2] != inputs:
        expected = f"shape ({runs}, B, {inputs})" + (f" or (B, {inputs})" if runs == 1 else "")
        shape = f"shape {tuple(features.shape)}"
        raise invalid("features", expected, shape, "give separate features for every run")
    return features


class VariationalLinear(nn.Module):
    r"""Bayesian linear layer y_c = w_c' phi with w_c ~ N(mu_c, S_c) and a closed-form KL.

    The covariance of each output is "full", S = L L' with L lower triangular (``lower`` is the part
    below the diagonal, and stays 0 elsewhere) and exp on its diagonal; "diagonal"; or
    "point", without covariance and KL, as a control for the effect of integrating over weights.

    Args:
        inputs: number of features.
        outputs: number of outputs.
        covariance: "full", "diagonal" or "point".
        bias: whether a constant feature is added; its weight has the same prior.
        runs: number R of layers computed as one.
        prior_variance: alpha.
        learn_prior: whether each run uses the alpha with the smallest KL instead (empirical
            Bayes, in closed form).
        scale: initial standard deviation of all weights.

    Example:
        >>> layer = VariationalLinear(4, 3)
        >>> mean, variance = layer(torch.rand(5, 4))
        >>> mean.shape, variance.shape, layer.kl().tolist()  # at the start it is the prior
        (torch.Size([5, 3]), torch.Size([5, 3]), [0.0])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        covariance: Covariance = "full",
        bias: bool = True,
        runs: int = 1,
        prior_variance: float = 1.0,
        learn_prior: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice(covariance, COVARIANCES, "covariance")
        sizes = {"inputs": inputs, "outputs": outputs, "runs": runs}
        for name, size in sizes.items():
            check_whole(size, name)
        check_positive(prior_variance, "prior_variance")
        check_positive(scale, "scale")
        self.inputs, self.outputs, self.runs = inputs, outputs, runs
        self.covariance, self.bias = covariance, bias
        dim = inputs + bias
        self.mean = nn.Parameter(torch.zeros(runs, outputs, dim))
        if covariance != "point":
            start = torch.full((runs, outputs, dim), math.log(scale))
            self.log_diagonal = nn.Parameter(start)
        if covariance == "full":
            self.lower = nn.Parameter(torch.zeros(runs, outputs, dim, dim))
            self.lower.triangular = True  # type: ignore[attr-defined]  # for the optimiser
        self.learn_prior = learn_prior
        self.register_buffer("prior_variance", torch.full((runs,), float(prior_variance)))
        self.prior_variance: Tensor

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the outputs.

        Args:
            features: (R, B, D), or (B, D) if there is one run.

        Returns:
            Two tensors (R, B, outputs), or (B, outputs).
        """
        mean, variance, _ = self._moments(features)
        return (mean, variance) if features.ndim == 3 else (mean[0], variance[0])

    def moments_and_kl(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance (R, B, outputs), and the KL (R,): cheaper than separately."""
        mean, variance, energy = self._moments(features)
        return mean, variance, self._kl(energy)

    def kl(self) -> Tensor:
        """Return the KL from the prior, (R,), in nats."""
        energy = self.lower.square().sum((1, 2, 3)) if self.covariance == "full" else None
        return self._kl(energy)

    def _kl(self, off_diagonal: Tensor | None) -> Tensor:
        """Return the KL, given the sum of squares (R,) below the diagonals of a full covariance."""
        if self.covariance == "point":
            return self.mean.new_zeros(self.runs)
        alpha = None if self.learn_prior else self.prior_variance
        if off_diagonal is not None:
            return cholesky_kl(self.mean, self.log_diagonal, off_diagonal, alpha)
        energy = self.mean.square().sum((1, 2)) + (2 * self.log_diagonal).exp().sum((1, 2))
        log_det = 2 * self.log_diagonal.sum((1, 2))
        return gaussian_kl(energy, log_det, self.mean[0].numel(), alpha)

    def _moments(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        phi = as_runs(features, self.runs, self.inputs)
        check_like(features, self.mean, "features")
        phi = with_ones(phi) if self.bias else phi
        if self.covariance == "full":
            with torch.autocast(phi.device.type, enabled=False):
                phi = phi.to(self.mean.dtype)
                return full_moments(phi, self.mean, self.log_diagonal, self.lower)
        return phi @ self.mean.transpose(1, 2), self._variance(phi), None

    def _variance(self, phi: Tensor) -> Tensor:
        if self.covariance == "point":
            return phi.new_zeros(*phi.shape[:2], self.outputs)
        scale = self.log_diagonal.exp()
        return phi.square() @ scale.square().transpose(1, 2)

    def extra_repr(self) -> str:
        """Return the sizes shown by print(layer)."""
        return f"{self.inputs}, {self.outputs}, covariance={self.covariance!r}, runs={self.runs}"


def sample_outputs(
    mean: Tensor, variance: Tensor, draws: int, generator: torch.Generator | None
) -> Tensor:
    """Draw (draws, ..., B, outputs) from independent Gaussians; leading axes share the noise."""
    noise = output_noise(mean, draws, generator)
    # The root has no derivative at 0, which a point estimate or an empty image reaches.
    return mean + (variance + torch.finfo(mean.dtype).tiny).sqrt() * noise


def output_noise(like: Tensor, draws: int, generator: torch.Generator | None) -> Tensor:
    """Draw standard normal numbers (draws, 1, ..., B, outputs), with rows tied to examples."""
    shape = (draws, *([1] * (like.ndim - 2)), *like.shape[-2:])
    return per_example_random(
        torch.randn, shape, -2, generator, device=like.device, dtype=like.dtype
    )
