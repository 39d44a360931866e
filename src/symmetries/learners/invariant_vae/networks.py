"""The distributions over transformations: p(eta | z) and q(eta | x)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.images import ImageAction
from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.coupling import HALF
from symmetries.distributions.flow import MIN_SCALE, ConditionalFlow
from symmetries.groups.base import Group
from symmetries.groups.circles import circular_parameters
from symmetries.learners.invariant_vae.config import InvariantVAEConfig
from symmetries.nn.features import ImageFeatures

INITIAL_RADIUS = 0.05  # of the vectors whose directions are angles: small ones turn easily
INITIAL_LENGTH = 0.06  # of the vectors of views
UNIT = math.log(math.expm1(1 - MIN_SCALE))
TURN = 2 * math.pi


class Prior(nn.Module):
    """p(eta | z): a spline flow on a predicted Gaussian; categorical for a finite group.

    Where an angle closes up, densities of eta and of eta plus whole turns are added, as these are
    one transformation; beside shifts or unequal scales they are not.

    Args:
        group: the transformations.
        bounds: of their parameters: at the start the scale is a third of them.
        config: see :class:`InvariantVAEConfig`; without ``flexible`` splines stay the identity,
            without ``conditional`` z is ignored.
    """

    def __init__(
        self, group: Group[Any], bounds: Sequence[float], config: InvariantVAEConfig
    ) -> None:
        super().__init__()
        self.conditional = config.flow.conditional
        self.distribution = make_distribution(group, bounds, config.network.latent, config)
        windings = whole_turns(group, bounds, config)
        self.register_buffer("windings", windings, persistent=False)
        self.windings: Tensor
        if not config.flow.flexible and isinstance(self.distribution, ConditionalFlow):
            for part in (*self.distribution.couplings, self.distribution.project):
                part.requires_grad_(False)

    def forward(self, z: Tensor) -> Tensor:
        """Return the context (N, latent) of codes."""
        return z if self.conditional else torch.zeros_like(z)

    def log_prob(self, eta: Tensor, z: Tensor) -> Tensor:
        """Log-density (N, S) of parameters (N, S, dim), given codes (N, latent); Lie groups."""
        return wound_log_prob(self.distribution, eta, self(z), counted(self))


class Posterior(nn.Module):
    r"""q(eta | x): a spline flow on a predicted Gaussian; categorical for a finite group.

    With "circle" angles, eta = c(x) + delta: c is the direction of a predicted vector, 0 for other
    parameters; delta has the flow's distribution. With n ``views`` the vector is averaged over
    evenly turned copies of the image, each of which says where it is, and is turned back,

    .. math:: v(x) = \frac1n \sum_k R(-a_k)\, \hat v(T_{a_k} x), \qquad a_k = 2 \pi k / n,

    so that c(T_a x) = c(x) + a: what the average of equation 19 is to an invariant encoder, this is
    to an equivariant angle. If the angle is the only parameter, the other inputs of q are averaged
    too, so that q turns with the image as a whole. Without views a prototype that half a turn
    leaves nearly as it is keeps q on half the circle, as the angles of images upside down would
    have to jump.

    Args:
        shape: (C, H, W) of the images.
        group: the transformations.
        bounds: of their parameters.
        config: see :class:`InvariantVAEConfig`.
        act: how the group moves images.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        group: Group[Any],
        bounds: Sequence[float],
        config: InvariantVAEConfig,
        act: ImageAction,
    ) -> None:
        super().__init__()
        self.group, self.act = group, act
        self.features = ImageFeatures(shape, config.flow.features)
        self.distribution = make_distribution(group, bounds, config.flow.features[-1], config)
        self.dim = len(bounds)
        self.around = circle_angles(group, bounds, config)
        views = torch.zeros(config.flow.views if len(self.around) == 1 else 1, self.dim)
        self.head = nn.Sequential()
        if self.around:
            head = nn.Linear(config.flow.features[-1], 2 * len(self.around), bias=len(views) == 1)
            if len(views) > 1:  # of turned constants nothing is left: no bias
                nn.init.normal_(
                    head.weight, std=INITIAL_LENGTH / math.sqrt(config.flow.features[-1])
                )
                views[:, self.around[0]] = torch.arange(len(views)) * (TURN / len(views))
            else:
                nn.init.zeros_(head.weight)
                nn.init.zeros_(head.bias)
                nn.init.constant_(head.bias[: len(self.around)], INITIAL_RADIUS)
            self.head = nn.Sequential(head)
        windings = whole_turns(group, bounds, config)
        self.register_buffer("views", views, persistent=False)
        self.register_buffer("windings", windings, persistent=False)
        self.views: Tensor
        self.windings: Tensor
        with torch.no_grad():
            if isinstance(self.distribution, ConditionalFlow):
                scale = HALF * config.flow.initial_spread - MIN_SCALE
                free = math.log(math.expm1(max(scale, MIN_SCALE)))
                last: Any = self.distribution.base[-1]
                last.bias[self.dim :] = free - UNIT

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the context (N, features) of images (N, C, H, W), and the centre (N, dim)."""
        if len(self.views) == 1:
            context: Tensor = self.features(x)
            return context, self.centre(self.head(context) if self.around else context[:, :0])
        with torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad):
            seen = self.act.orbit(self.group.exp(self.views), x)  # (N, views, C, H, W)
        each = self.features(seen.flatten(0, 1)).unflatten(0, seen.shape[:2])
        cosine, sine = self.head(each).unbind(-1)
        angles = self.views[:, self.around[0]]
        back = (
            cosine * angles.cos() + sine * angles.sin(),
            sine * angles.cos() - cosine * angles.sin(),
        )
        context = each.mean(1) if self.dim == 1 else each[:, 0]
        return context, self.centre(torch.stack(back, -1).mean(1))

    def centre(self, vectors: Tensor) -> Tensor:
        """Return directions of vectors (N, 2 m), m cosines and m sines, as parameters (N, dim)."""
        cosine, sine = vectors.chunk(2, -1)
        angles = iter(torch.atan2(sine, cosine).unbind(-1))
        zero = vectors.new_zeros(len(vectors))
        columns = [next(angles) if i in self.around else zero for i in range(self.dim)]
        return torch.stack(columns, -1)

    def sample(
        self, x: Tensor, n: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw parameters (N, n, dim) from q(eta | x), with log-densities (N, n); Lie groups."""
        context, centre = self(x)
        delta = self.distribution.sample(context, n, generator)
        if len(self.windings) > 1:  # as near as whole turns bring it: more of them need not count
            delta = delta - self.windings[1] * torch.round(delta / TURN)
        log_q = wound_log_prob(self.distribution, delta, context, counted(self))
        return centre[:, None] + delta, log_q


def circle_angles(
    group: Group[Any], bounds: Sequence[float], config: InvariantVAEConfig
) -> list[int]:
    """Return the parameters that are angles over a whole circle, if they are treated as such."""
    if config.flow.angles != "circle" or group.finite:
        return []
    whole = [a and b > math.pi - 1e-6 for a, b in zip(group.angles, bounds, strict=True)]
    return [i for i, around in enumerate(whole) if around]


def whole_turns(group: Group[Any], bounds: Sequence[float], config: InvariantVAEConfig) -> Tensor:
    """Return 0, 1, -1, 2 and -2 turns (5, dim) of an angle that closes up; else none (1, dim).

    Of a single angle only: sums over the turns of several would take long.
    """
    around = circle_angles(group, bounds, config)
    turns = torch.zeros(1, len(bounds))
    if len(around) != 1 or not circular_parameters(group, bounds, "exact")[around[0]]:
        return turns
    turns = turns.repeat(5, 1)
    turns[:, around[0]] = TURN * torch.tensor([0.0, 1.0, -1.0, 2.0, -2.0])
    return turns


def counted(part: Prior | Posterior) -> Tensor:
    """Return the whole turns to sum over: all of them, or the nearest while training."""
    return part.windings[:3] if part.training else part.windings


def wound_log_prob(
    distribution: Any,  # noqa: ANN401 - a flow
    eta: Tensor,
    context: Tensor,
    windings: Tensor,
) -> Tensor:
    """Return the log-density (N, S) of parameters (N, S, dim), summed over whole turns (W, dim)."""
    if len(windings) == 1:
        return torch.as_tensor(distribution.log_prob(eta, context))
    points = eta[:, :, None] + windings
    each = torch.as_tensor(distribution.log_prob(points.flatten(1, 2), context))
    return torch.logsumexp(each.unflatten(1, points.shape[1:3]), -1)


def make_distribution(
    group: Group[Any], bounds: Sequence[float], context: int, config: InvariantVAEConfig
) -> ConditionalFlow | ConditionalCategorical:
    """Return a conditional distribution over the group."""
    if group.finite:
        return ConditionalCategorical(group.order, context, hidden=config.flow.conditioner)
    return ConditionalFlow(
        bounds,
        context,
        layers=config.flow.layers,
        bins=config.flow.bins,
        hidden=config.flow.conditioner,
        base=config.flow.base,
    )
