"""Diagonal Gaussians of variational autoencoders: densities, the prior, and the bound."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_floats, check_whole
from symmetries._validation.placement import check_together

LOG_TWO_PI = math.log(2 * math.pi)


def inverse_softplus(value: float) -> float:
    """Return the number whose softplus is ``value``.

    Example:
        >>> round(F.softplus(torch.tensor(inverse_softplus(0.3))).item(), 6)
        0.3
    """
    return value + math.log(-math.expm1(-value))


UNIT_SOFTPLUS = inverse_softplus(1.0)


def free_scale(scale: Tensor, least: float) -> Tensor:
    """Return the numbers x with softplus(x) + ``least`` = scale, for scales at least 1e-6 larger.

    Example:
        >>> free = free_scale(torch.tensor([0.0, 0.3, 1e4]), 0.1)
        >>> [round(scale.item(), 4) for scale in 0.1 + F.softplus(free)]
        [0.1, 0.3, 10000.0]
    """
    inner = (scale - least).clamp_min(1e-6)
    return inner + torch.log(-torch.expm1(-inner))


def gaussian_log_prob(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Return the log-density of N(mean, scale^2) at x for each entry; all shapes broadcast."""
    return -0.5 * ((x - mean) / scale).square() - torch.log(scale) - 0.5 * LOG_TWO_PI


def gaussian_kl(mean: Tensor, scale: Tensor, prior_mean: Tensor, prior_scale: Tensor) -> Tensor:
    r"""Return KL(N(m, s^2) || N(m_0, s_0^2)), summed over the last axis.

    .. math:: \sum_i \log\frac{s_{0i}}{s_i} + \frac{s_i^2 + (m_i - m_{0i})^2}{2 s_{0i}^2} - \frac12

    Example:
        >>> zero, one = torch.zeros(3), torch.ones(3)
        >>> gaussian_kl(zero, one, zero, one).item()
        0.0
    """
    ratio = scale / prior_scale
    offset = ((mean - prior_mean) / prior_scale).square()
    return (0.5 * (ratio.square() + offset - 1) - torch.log(ratio)).sum(-1)


def importance_bound(log_weights: Tensor) -> Tensor:
    r"""Return the log of the mean weight over the last axis: in expectation a bound on log p(x).

    With w_k = p(x, h_k) / q(h_k | x) and h_k from q it is the ELBO for K = 1, and it increases to
    log p(x) with K (Burda et al. 2016; Domke and Sheldon 2018).

    Example:
        >>> importance_bound(torch.zeros(2, 5)).tolist()
        [0.0, 0.0]
    """
    return torch.logsumexp(log_weights, -1) - math.log(log_weights.shape[-1])


class GaussianPrior(nn.Module):
    """Prior p(z) = N(m, s^2) with learned m and s, initially standard normal.

    Args:
        latent: size of z.
    """

    def __init__(self, latent: int) -> None:
        super().__init__()
        check_whole(latent, "latent")
        self.mean = nn.Parameter(torch.zeros(latent))
        self.free_scale = nn.Parameter(torch.full((latent,), UNIT_SOFTPLUS))

    @property
    def scale(self) -> Tensor:
        """Standard deviation s, (latent,)."""
        return F.softplus(self.free_scale)

    def kl(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Return KL(N(mean, scale^2) || p), (N,)."""
        return gaussian_kl(mean, scale, self.mean, self.scale)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of codes (..., latent)."""
        check_floats(z, "z", "...", len(self.mean))
        check_together(weights=self.mean, z=z)
        return gaussian_log_prob(z, self.mean, self.scale).sum(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw codes (n, latent)."""
        shape = (n, len(self.mean))
        noise = torch.randn(shape, generator=generator, device=self.mean.device)
        return self.mean + self.scale * noise


def split_gaussian(out: Tensor) -> tuple[Tensor, Tensor]:
    """Split a network's (N, 2 D) into mean and scale, each (N, D); zeros give a standard normal."""
    mean, free = out.chunk(2, -1)
    return mean, F.softplus(free + UNIT_SOFTPLUS)
