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
from symmetries.nn.full_moments import FullMoments
from symmetries.ops.available import usable

Covariance = Literal["full", "diagonal", "low-rank", "point"]
COVARIANCES = ("full", "diagonal", "low-rank", "point")


def gaussian_kl(energy: Tensor, log_det: Tensor, dim: int, prior_variance: Tensor | None) -> Tensor:
    r"""Return KL(N(mu, S) || N(0, alpha I)), in closed form.

    .. math:: \tfrac12\left[D\log\alpha - \log\det S - D + (\operatorname{tr} S + \mu'\mu)/\alpha
              \right]

    Args:
        energy: tr S + mu' mu.
        log_det: log det S.
        dim: D.
        prior_variance: alpha; None uses the alpha with the smallest KL, energy / D.

    Example:
        >>> gaussian_kl(torch.tensor(3.0), torch.tensor(0.0), 3, torch.tensor(1.0)).item()
        0.0
    """
    alpha = energy / dim if prior_variance is None else prior_variance
    return 0.5 * (dim * torch.log(alpha) - log_det - dim + energy / alpha)


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
    below the diagonal, and stays 0 elsewhere) and exp on its diagonal; "diagonal"; "low-rank",
    S = V V' + diag; or "point", without covariance and KL, as a control for the effect of
    integrating over weights.

    Args:
        inputs: number of features.
        outputs: number of outputs.
        covariance: "full", "diagonal", "low-rank" or "point".
        rank: number of columns of V for "low-rank".
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
        rank: int = 8,
        bias: bool = True,
        runs: int = 1,
        prior_variance: float = 1.0,
        learn_prior: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice(covariance, COVARIANCES, "covariance")
        sizes = {"inputs": inputs, "outputs": outputs, "rank": rank, "runs": runs}
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
        if covariance == "low-rank":
            # Not zero, where its gradient would vanish.
            v = torch.randn(outputs, dim, rank, generator=torch.Generator().manual_seed(0))
            self.columns = nn.Parameter((v * 0.01 * scale).expand(runs, -1, -1, -1).clone())
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

    def sample(
        self, features: Tensor, draws: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw outputs (draws, R, B, outputs) or (draws, B, outputs), by local reparameterisation.

        All runs share the random numbers, so a run gives the same result alone as with others.
        """
        mean, variance = self(features)
        return sample_outputs(mean, variance, draws, generator)

    def sample_weights(self, draws: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draw weights (draws, R, outputs, D), with the bias last; runs share the numbers."""
        like = self.mean
        if self.covariance == "point":
            return like.expand(draws, *like.shape)
        shape = (draws, 1, *like.shape[1:])
        noise = _normal(shape, like, generator)
        if self.covariance == "full":
            deviation = (self.factor() @ noise[..., None])[..., 0]
        else:
            deviation = self.log_diagonal.exp() * noise
        if self.covariance == "low-rank":
            rank = self.columns.shape[-1]
            small = _normal((*shape[:-1], rank), like, generator)
            deviation = deviation + (self.columns @ small[..., None])[..., 0]
        return like + deviation

    def kl(self) -> Tensor:
        """Return the KL from the prior, (R,), in nats."""
        energy = self.lower.square().sum((1, 2, 3)) if self.covariance == "full" else None
        return self._kl(energy)

    def _kl(self, off_diagonal: Tensor | None) -> Tensor:
        """Return the KL, given the sum of squares (R,) below the diagonals of a full covariance."""
        if self.covariance == "point":
            return self.mean.new_zeros(self.runs)
        if off_diagonal is not None and usable(self.mean, self.log_diagonal, off_diagonal):
            from symmetries.ops.gaussians import KernelKL

            kl: Tensor = KernelKL.apply(  # type: ignore[no-untyped-call]
                self.mean, self.log_diagonal, off_diagonal, self.prior_variance, self.learn_prior
            )
            return kl
        energy = self.mean.square().sum((1, 2)) + (2 * self.log_diagonal).exp().sum((1, 2))
        if off_diagonal is not None:
            energy = energy + off_diagonal
        if self.covariance == "low-rank":
            energy = energy + self.columns.square().sum((1, 2, 3))
        dim = self.outputs * self.mean.shape[-1]
        alpha = None if self.learn_prior else self.prior_variance
        return gaussian_kl(energy, self._log_det(), dim, alpha)

    def factor(self) -> Tensor:
        """Return the Cholesky factors L (R, outputs, D, D) of a full covariance."""
        return self.lower + torch.diag_embed(self.log_diagonal.exp())

    def _moments(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        phi = as_runs(features, self.runs, self.inputs)
        check_like(features, self.mean, "features")
        phi = with_ones(phi) if self.bias else phi
        if self.covariance == "full":
            with torch.autocast(phi.device.type, enabled=False):
                parts: tuple[Tensor, Tensor, Tensor] = FullMoments.apply(  # type: ignore[no-untyped-call]
                    phi.to(self.mean.dtype), self.mean, self.log_diagonal, self.lower
                )
            return parts
        return phi @ self.mean.transpose(1, 2), self._variance(phi), None

    def _variance(self, phi: Tensor) -> Tensor:
        if self.covariance == "point":
            return phi.new_zeros(*phi.shape[:2], self.outputs)
        scale = self.log_diagonal.exp()
        variance = phi.square() @ scale.square().transpose(1, 2)
        if self.covariance == "low-rank":
            low = (phi[:, None] @ self.columns).square().sum(-1)
            variance = variance + low.transpose(1, 2)
        return variance

    def _log_det(self) -> Tensor:
        log_det = 2 * self.log_diagonal.sum((1, 2))
        if self.covariance == "low-rank":
            # det(V V' + E) = det(E) det(I + V' E^-1 V): a small matrix, at least I.
            scaled = self.columns * (-self.log_diagonal).exp()[..., None]
            small = scaled.transpose(-1, -2) @ scaled
            small = small + torch.eye(small.shape[-1], dtype=small.dtype, device=small.device)
            log_det = log_det + torch.linalg.slogdet(small)[1].sum(1)
        return log_det

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


def _normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)
