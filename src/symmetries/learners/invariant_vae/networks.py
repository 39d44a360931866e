"""The distributions over transformations: p(eta | z) and q(eta | x)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.flow import HALF, MIN_SCALE, ConditionalFlow
from symmetries.groups.base import Group
from symmetries.groups.finite import FiniteGroup
from symmetries.learners.invariant_vae.config import InvariantVAEConfig
from symmetries.nn.autoencoder import zero_linear
from symmetries.nn.features import ImageFeatures

INITIAL_RADIUS = 0.05  # of the vectors whose directions are angles: small ones turn easily
UNIT = math.log(math.expm1(1 - MIN_SCALE))


class Prior(nn.Module):
    """p(eta | z): a spline flow on a predicted Gaussian; categorical for a finite group.

    Args:
        group: the transformations.
        bounds: of their parameters: at the start the scale is a third of them.
        config: see :class:`InvariantVAEConfig`; without ``flexible`` splines stay the identity,
            without ``conditional`` z is not looked at.
    """

    def __init__(
        self, group: Group[Any], bounds: Sequence[float], config: InvariantVAEConfig
    ) -> None:
        super().__init__()
        self.conditional = config.conditional
        self.distribution = make_distribution(group, bounds, config.latent, config)
        if not config.flexible and isinstance(self.distribution, ConditionalFlow):
            self.distribution.couplings.requires_grad_(False)
            self.distribution.project.requires_grad_(False)

    def forward(self, z: Tensor) -> Tensor:
        """The context (N, latent) of codes."""
        return z if self.conditional else torch.zeros_like(z)


class Posterior(nn.Module):
    """q(eta | x): a spline flow on a predicted Gaussian; categorical for a finite group.

    With "circle" angles, eta = c(x) + delta: c is the direction of a predicted vector, 0 for other
    parameters, and delta has the flow's distribution.

    Args:
        shape: (C, H, W) of the images.
        group: the transformations.
        bounds: of their parameters.
        config: see :class:`InvariantVAEConfig`.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        group: Group[Any],
        bounds: Sequence[float],
        config: InvariantVAEConfig,
    ) -> None:
        super().__init__()
        self.features = ImageFeatures(shape, config.features)
        self.distribution = make_distribution(group, bounds, config.features[-1], config)
        self.dim = len(bounds)
        whole = [a and b > math.pi - 1e-6 for a, b in zip(group.angles, bounds, strict=True)]
        circle = config.angles == "circle" and isinstance(self.distribution, ConditionalFlow)
        self.around = [i for i in range(self.dim) if whole[i] and circle]
        self.head = nn.Sequential()
        if self.around:
            head = zero_linear(config.features[-1], 2 * len(self.around))
            nn.init.constant_(head.bias[: len(self.around)], INITIAL_RADIUS)
            self.head = nn.Sequential(head)
        with torch.no_grad():
            if isinstance(self.distribution, ConditionalFlow):
                scale = HALF * config.initial_spread - MIN_SCALE
                free = math.log(math.expm1(max(scale, MIN_SCALE)))
                last: Any = self.distribution.base[-1]
                last.bias[self.dim :] = free - UNIT

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The context (N, features) of images (N, C, H, W), and the centre (N, dim)."""
        context: Tensor = self.features(x)
        if not self.around:
            return context, torch.zeros(len(x), self.dim, device=x.device)
        cosine, sine = self.head(context).chunk(2, -1)
        angles = iter(torch.atan2(sine, cosine).unbind(-1))
        zero = torch.zeros(len(x), device=x.device)
        columns = [next(angles) if i in self.around else zero for i in range(self.dim)]
        return context, torch.stack(columns, -1)

    def sample(
        self, x: Tensor, n: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Parameters (N, n, dim) from q(eta | x), and their log-densities (N, n); Lie groups."""
        context, centre = self(x)
        delta = self.distribution.sample(context, n, generator)
        return centre[:, None] + delta, self.distribution.log_prob(delta, context)


def make_distribution(
    group: Group[Any], bounds: Sequence[float], context: int, config: InvariantVAEConfig
) -> ConditionalFlow | ConditionalCategorical:
    """A conditional distribution over the group."""
    if isinstance(group, FiniteGroup):
        return ConditionalCategorical(group.order, context, hidden=config.conditioner)
    return ConditionalFlow(
        bounds,
        context,
        layers=config.layers,
        bins=config.bins,
        hidden=config.conditioner,
        base=config.base,
    )
