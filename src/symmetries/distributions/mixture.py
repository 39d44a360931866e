"""A mixture of Gaussians with full covariances, fitted to points."""

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from symmetries.checks import (
    check_finite,
    check_floats,
    check_generator,
    check_whole,
    invalid,
    wrong_type,
)
from symmetries.placement import check_together

COMPONENTS = (1, 3, 10, 30, 100)  # tried, as long as points held out become likelier
HELD_OUT = 0.1
ROUNDS = 60  # of expectation and maximisation
ROWS = 4096  # points at a time


class GaussianMixture(nn.Module):
    r"""p(z) = \sum_k w_k N(z; m_k, L_k L_k^T).

    Args:
        components: how many Gaussians, standard normal and alike at the start.
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
        """Log-density (...) of points (..., dim)."""
        dim = self.mean.shape[1]
        check_floats(z, "z", "...", dim)
        check_together(weights=self.mean, z=z)
        # In double precision: narrow Gaussians, and no products of eight bits under autocast.
        factor, weight = self.factor.double(), self.weight.double()
        scale = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        level = weight.log() - scale - 0.5 * dim * math.log(2 * math.pi)
        parts = []
        for part in z.reshape(-1, dim).double().split(ROWS):
            away = (part - self.mean.double()[:, None]).mT  # (K, dim, rows)
            inner = torch.linalg.solve_triangular(factor, away, upper=False)
            parts.append((level[:, None] - 0.5 * inner.square().sum(1)).logsumexp(0))
        return torch.cat(parts).reshape(z.shape[:-1]).to(z.dtype)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Points (n, dim)."""
        check_whole(n, "n")
        check_generator(generator)
        which = torch.multinomial(self.weight, n, replacement=True, generator=generator)
        shape = (n, self.mean.shape[1])
        noise = torch.randn(shape, generator=generator, device=self.mean.device)
        return self.mean[which] + (self.factor[which] @ noise[..., None])[..., 0]

    def extra_repr(self) -> str:
        """Sizes."""
        return f"components={len(self.mean)}, dim={self.mean.shape[1]}"


def fit_mixture(
    points: Tensor, components: Sequence[int] = COMPONENTS, *, seed: int = 0
) -> GaussianMixture:
    """The mixture of as many Gaussians as make points held out likeliest.

    Numbers of components are tried from the smallest on, by expectation and maximisation of nine
    tenths of the points, until the log-density of the rest falls.

    Args:
        points: (N, dim), at least 2 (dim + 1) of them for each component; numbers of components
            that are too large for that are not tried.
        components: numbers to try.
        seed: of what is held out, and of the start.

    Example:
        >>> points = torch.randn(500, 2) + 9 * torch.randint(2, (500, 1))
        >>> len(fit_mixture(points, (1, 2)).mean)
        2
    """
    check_floats(points, "points", "N", "dim")
    check_finite(points, "points")
    if not isinstance(components, Sequence) or isinstance(components, str):
        raise wrong_type("components", "whole numbers to try", components, "give some in a list")
    for number in components:
        check_whole(number, "components")
    check_whole(seed, "seed", least=0)
    each = 2 * (points.shape[1] + 1)
    tried = sorted(number for number in components if number * each <= len(points))
    if not tried:
        expected = f"at least {each} for each component"
        raise invalid("points", expected, len(points), "draw more, or ask for fewer components")
    generator = torch.Generator().manual_seed(seed)
    rows = points.detach().cpu()[torch.randperm(len(points), generator=generator)]
    count = max(1, round(HELD_OUT * len(rows)))
    held, rows = rows[:count], rows[count:]
    best, most = GaussianMixture(1, points.shape[1]), -math.inf
    for number in tried:
        found = _fitted(rows, number, seed)
        value = float(found.log_prob(held).mean())
        if value < most:
            break
        best, most = found, value
    return best.to(points.device)


def _fitted(rows: Tensor, number: int, seed: int) -> GaussianMixture:
    from sklearn import exceptions, mixture

    scale, centre = rows.std(0), rows.mean(0)
    scale = torch.where(scale > 0, scale, 1.0)
    machine = mixture.GaussianMixture(number, random_state=seed, max_iter=ROUNDS)
    with warnings.catch_warnings():  # some rounds are enough
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        machine.fit(((rows - centre) / scale).numpy())
    found = GaussianMixture(number, rows.shape[1])
    covariance = torch.from_numpy(machine.covariances_)
    found.weight.copy_(torch.from_numpy(machine.weights_))
    found.mean.copy_(torch.from_numpy(machine.means_) * scale + centre)
    found.factor.copy_(scale[:, None] * torch.linalg.cholesky(covariance))
    return found
