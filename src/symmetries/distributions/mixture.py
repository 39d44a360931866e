"""Mixture of Gaussians with full covariances, fitted to points."""

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_finite,
    check_floats,
    check_generator,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries._validation.placement import check_together, exact_products

COMPONENTS = (1, 3, 10, 30, 100, 300)  # tried in order while the held-out likelihood rises
HELD_OUT = 0.1
ROUNDS, LEAST_GAIN = 100, 1e-3  # limits of expectation maximisation; gain in nats per point
LEAST_VARIANCE = 1e-6  # along any direction, for points of variance 1
ENTRIES = 2**22  # largest number of values computed at once


class GaussianMixture(nn.Module):
    r"""Mixture of Gaussians p(z) = \sum_k w_k N(z; m_k, L_k L_k^T).

    Args:
        components: number of Gaussians, all standard normal initially.
        dim: size of z.

    Example:
        >>> mixture = GaussianMixture(4, 2)
        >>> mixture.sample(3).shape, round(mixture.log_prob(torch.zeros(2)).exp().item(), 3)
        (torch.Size([3, 2]), 0.159)
    """

    def __init__(self, components: int, dim: int) -> None:
        super().__init__()
        check_whole(components, "components")
        check_whole(dim, "dim")
        self.register_buffer("weight", torch.full((components,), 1 / components))
        self.register_buffer("mean", torch.zeros(components, dim))
        self.register_buffer("factor", torch.eye(dim).repeat(components, 1, 1))
        self.weight: Tensor
        self.mean: Tensor
        self.factor: Tensor

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density (...) of points (..., dim)."""
        dim = self.mean.shape[1]
        check_floats(z, "z", "...", dim)
        check_together(weights=self.mean, z=z)
        rows = max(1, ENTRIES // (dim * max(self.mean.shape)))  # at a time, for the memory
        parts = [self.log_joint(part).logsumexp(1) for part in z.reshape(-1, dim).split(rows)]
        return torch.cat(parts).reshape(z.shape[:-1]).to(z.dtype)

    def log_joint(self, z: Tensor) -> Tensor:
        """Return the logarithms (N, K) of w_k N(z; m_k, L_k L_k^T), in double precision."""
        # Gaussians may be narrow, and autocast or TF32 would round products.
        factor, weight, mean = (part.double() for part in (self.factor, self.weight, self.mean))
        scale = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        level = weight.log() - scale - 0.5 * mean.shape[1] * math.log(2 * math.pi)
        away = (z.double() - mean[:, None]).mT  # (K, dim, N)
        inner = torch.linalg.solve_triangular(factor, away, upper=False)
        return (level[:, None] - 0.5 * inner.square().sum(1)).T

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw points (n, dim)."""
        check_whole(n, "n")
        check_generator(generator)
        which = torch.multinomial(self.weight, n, replacement=True, generator=generator)
        mean = self.mean
        shape = (n, mean.shape[1])
        noise = torch.randn(shape, generator=generator, device=mean.device, dtype=mean.dtype)
        with exact_products(noise):
            return mean[which] + (self.factor[which] @ noise[..., None])[..., 0]

    def extra_repr(self) -> str:
        """Return the sizes shown by print."""
        return f"components={len(self.mean)}, dim={self.mean.shape[1]}"


def points_needed(dim: int) -> int:
    """Return the smallest number of points of this dimension for each component."""
    return 4 * (dim + 1)


def fit_mixture(
    points: Tensor, components: Sequence[int] = COMPONENTS, *, seed: int = 0
) -> GaussianMixture:
    """Fit a mixture with the number of Gaussians that maximises the held-out likelihood.

    Numbers of components are tried in ascending order, by expectation maximisation on nine tenths
    of the points, until the log-density of the remaining points falls.

    Args:
        points: (N, dim), at least 4 (dim + 1) for each component; numbers of components that are
            too large for that are not tried.
        components: numbers of components to try.
        seed: random seed of the held-out points and of the initialisation.

    Example:
        >>> points = torch.randn(500, 2) + 9 * torch.randint(2, (500, 1))
        >>> len(fit_mixture(points, (1, 2)).mean)
        2
    """
    check_floats(points, "points", "N", "dim")
    check_finite(points, "points")
    if not isinstance(components, Sequence) or isinstance(components, str):
        remedy = "give a list of integers"
        raise wrong_type("components", "whole numbers to try", components, remedy)
    if not components:
        raise invalid("components", "at least one number to try", "none", "try (1, 3, 10)")
    for number in components:
        check_whole(number, "components")
    check_whole(seed, "seed", least=0)
    each = points_needed(points.shape[1])
    tried = sorted(number for number in components if number * each <= len(points))
    if not tried:
        expected = f"at least {each} for each component"
        raise invalid("points", expected, len(points), "draw more, or ask for fewer components")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(points), generator=generator).to(points.device)
    rows = points.detach().double()[order]
    count = max(1, round(HELD_OUT * len(rows)))
    held, rows = rows[:count], rows[count:]
    scale, centre = rows.std(0), rows.mean(0)
    scale = torch.where(scale > 0, scale, 1.0)
    rows = (rows - centre) / scale
    best, most = GaussianMixture(1, points.shape[1]), -math.inf
    for number in tried:
        found = maximised(rows, number, seed)
        found.mean.copy_(found.mean * scale + centre)
        found.factor.mul_(scale[:, None])
        value = float(found.log_prob(held).mean())
        if value < most:
            break
        best, most = found, value
    return best.to(points.dtype)


def maximised(rows: Tensor, number: int, seed: int) -> GaussianMixture:
    """Run scikit-learn's expectation maximisation from the clusters of k-means.

    Args:
        rows: (N, dim) of mean 0 and variance 1, in double precision.
        number: number of components.
        seed: random seed of k-means.
    """
    from sklearn import mixture

    fitted = mixture.GaussianMixture(
        number,
        tol=LEAST_GAIN,
        reg_covar=LEAST_VARIANCE,
        max_iter=ROUNDS,
        random_state=seed % 2**32,  # takes 32 bits
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)  # the rounds may end first
        fitted.fit(rows.cpu().numpy())
    found = GaussianMixture(number, rows.shape[1]).to(rows)
    found.weight.copy_(torch.from_numpy(fitted.weights_))
    found.mean.copy_(torch.from_numpy(fitted.means_))
    found.factor.copy_(torch.linalg.cholesky(torch.from_numpy(fitted.covariances_)))
    return found
