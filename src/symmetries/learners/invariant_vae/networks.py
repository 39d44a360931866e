"""The distributions over transformations: p(eta | z) and q(eta | x)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from symmetries.actions.images import ImageAction
from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.flow import HALF, MIN_SCALE, ConditionalFlow
from symmetries.groups.base import Group
from symmetries.groups.finite import FiniteGroup
from symmetries.learners.invariant_vae.config import InvariantVAEConfig
from symmetries.nn.autoencoder import zero_linear
from symmetries.nn.features import ImageFeatures

INITIAL_RADIUS = 0.05  # of the vectors whose directions are angles: small ones turn easily
LEAD = 300.0  # nats that the first turn is ahead of the others at the start
PULL = 10.0  # of the centre towards the turns that fit
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
            for part in (*self.distribution.couplings, self.distribution.project):
                part.requires_grad_(False)

    def forward(self, z: Tensor) -> Tensor:
        """The context (N, latent) of codes."""
        return z if self.conditional else torch.zeros_like(z)


class Branches(NamedTuple):
    """A sample of q(eta | x) at each of K turns.

    Args:
        eta: (N, K, dim).
        log_q: (N, 1), the log-density of each of them under the mixture with equal weights.
        log_w: (N, K), logarithms of the predicted weights.
        vectors: (N, 2), whose direction is the centre.
    """

    eta: Tensor
    log_q: Tensor
    log_w: Tensor
    vectors: Tensor


class Posterior(nn.Module):
    r"""q(eta | x): a spline flow on a predicted Gaussian; categorical for a finite group.

    With "circle" angles, eta = c(x) + delta + 2 pi k / K: c is the direction of a predicted
    vector, 0 for other parameters; delta has the flow's distribution f; the turn k = 0 ... K - 1
    is drawn with predicted weights w,

    .. math:: q(\eta | x) = \sum_k w_k(x)\, f(\eta - c(x) - 2 \pi k / K \,|\, x).

    Training tries all turns (see :func:`symmetries.learners.invariant_vae.losses.joint_loss`);
    with ``settle`` it gives them up in the end, and q is that of the first turn.

    With n ``views`` the vector is averaged over evenly turned copies of the image, each of which
    says where it is, and is turned back,

    .. math:: v(x) = \frac1n \sum_k R(-a_k)\, \hat v(T_{a_k} x), \qquad a_k = 2 \pi k / n,

    so that c(T_a x) = c(x) + a: what the average of equation 19 is to an invariant encoder, this is
    to an equivariant angle. If the angle is all there is, what else q is told is averaged too, so
    that q turns with the image as a whole. Without views a prototype that half a turn leaves nearly
    as it is keeps q on half the circle, as the angles of images upside down would have to jump.

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
        self.features = ImageFeatures(shape, config.features)
        self.distribution = make_distribution(group, bounds, config.features[-1], config)
        self.dim = len(bounds)
        whole = [a and b > math.pi - 1e-6 for a, b in zip(group.angles, bounds, strict=True)]
        circle = config.angles == "circle" and isinstance(self.distribution, ConditionalFlow)
        self.around = [i for i in range(self.dim) if whole[i] and circle]
        self.settled = config.settle < 1
        self.head = nn.Sequential()
        if self.around:
            head = zero_linear(config.features[-1], 2 * len(self.around))
            nn.init.constant_(head.bias[: len(self.around)], INITIAL_RADIUS)
            self.head = nn.Sequential(head)
        views = torch.zeros(config.views if len(self.around) == 1 else 1, self.dim)
        if len(views) > 1:
            views[:, self.around[0]] = torch.arange(len(views)) * (2 * math.pi / len(views))
            nn.init.zeros_(head.bias)  # the average of turned constants is none
            nn.init.normal_(head.weight, std=INITIAL_RADIUS)
        turns = torch.zeros(config.turns if len(self.around) == 1 else 1, self.dim)
        if len(turns) > 1:
            turns[:, self.around[0]] = torch.arange(len(turns)) * (2 * math.pi / len(turns))
            self.weights = zero_linear(config.features[-1], len(turns))
        windings = torch.zeros(3, self.dim)
        windings[:, self.around[:1]] = 2 * math.pi * torch.tensor([[-1.0], [0.0], [1.0]])
        behind = LEAD * (torch.arange(len(turns)) > 0)
        self.register_buffer("behind", behind, persistent=False)
        self.register_buffer("turns", turns, persistent=False)
        self.register_buffer("views", views, persistent=False)
        self.register_buffer("windings", windings, persistent=False)
        self.behind: Tensor
        self.turns: Tensor
        self.views: Tensor
        self.windings: Tensor
        with torch.no_grad():
            if isinstance(self.distribution, ConditionalFlow):
                scale = HALF * config.initial_spread - MIN_SCALE
                free = math.log(math.expm1(max(scale, MIN_SCALE)))
                last: Any = self.distribution.base[-1]
                last.bias[self.dim :] = free - UNIT

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The context (N, features) of images (N, C, H, W), and the centre (N, dim)."""
        context, vectors = self.read(x)
        return context, self.centre(vectors)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The context (N, features) of images, and the vectors (N, 2 m) of the m angles.

        The directions of vectors are the angles: cosines come first, then sines.
        """
        if len(self.views) == 1:
            context: Tensor = self.features(x)
            return context, self.head(context) if self.around else context[:, :0]
        with torch.no_grad():
            seen = self.act.orbit(self.group.exp(self.views), x)  # (N, views, C, H, W)
        each = self.features(seen.flatten(0, 1))
        cosine, sine = self.head(each).unflatten(0, seen.shape[:2]).unbind(-1)
        angles = self.views[:, self.around[0]]
        back = (
            cosine * angles.cos() + sine * angles.sin(),
            sine * angles.cos() - cosine * angles.sin(),
        )
        contexts = each.unflatten(0, seen.shape[:2])
        context = contexts.mean(1) if self.dim == 1 else contexts[:, 0]
        return context, torch.stack(back, -1).mean(1)

    def centre(self, vectors: Tensor) -> Tensor:
        """The directions of vectors (N, 2 m) as parameters (N, dim); 0 for the others."""
        cosine, sine = vectors.chunk(2, -1)
        angles = iter(torch.atan2(sine, cosine).unbind(-1))
        zero = vectors.new_zeros(len(vectors))
        columns = [next(angles) if i in self.around else zero for i in range(self.dim)]
        return torch.stack(columns, -1)

    def branches(self, x: Tensor, generator: torch.Generator | None = None) -> "Branches":
        """One sample of delta, at every turn; Lie groups."""
        context, vectors = self.read(x)
        centre = self.centre(vectors)
        delta = self.distribution.sample(context, 1, generator)
        log_w = self.log_weights(context)
        if len(self.turns) == 1:
            log_f = self.distribution.log_prob(delta, context)
            return Branches(centre[:, None] + delta, log_f, log_w, vectors)
        eta = self.wrap(centre[:, None] + delta + self.turns)
        equal = torch.zeros_like(log_w) - math.log(len(self.turns))
        return Branches(eta, self.log_prob(eta[:, :1], context, centre, equal), log_w, vectors)

    def unlike(self, branches: "Branches", shares: Tensor) -> Tensor:
        """What predictions miss (N,), given the shares (N, K) that the turns turned out to have.

        Cross entropy of the weights, and half the square distance of the vector from the unit
        vectors of the turned centre: so that the centre itself goes where the turns have led.
        """
        if len(self.turns) == 1:
            return torch.zeros_like(shares[:, 0])
        i = self.around[0]
        angles = self.centre(branches.vectors.detach())[:, i, None] + self.turns[:, i]
        aim = (shares[..., None] * torch.stack([angles.cos(), angles.sin()], -1)).sum(1)
        missed = -(shares * branches.log_w).sum(1)
        return missed + PULL * 0.5 * (branches.vectors - aim).square().sum(-1)

    def sample(
        self, x: Tensor, n: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Parameters (N, n, dim) from q(eta | x), and their log-densities (N, n); Lie groups."""
        context, centre = self(x)
        delta = self.distribution.sample(context, n, generator)
        if len(self.turns) == 1:
            return centre[:, None] + delta, self.distribution.log_prob(delta, context)
        log_w = self.log_weights(context)
        if self.settled:
            log_w = torch.full_like(log_w, -math.inf)
            log_w[:, 0] = 0.0
        turn = torch.multinomial(log_w.exp(), n, replacement=True, generator=generator)
        eta = self.wrap(centre[:, None] + delta + self.turns[turn])
        return eta, self.log_prob(eta, context, centre, log_w)

    def log_weights(self, context: Tensor) -> Tensor:
        """Log w (N, K)."""
        if len(self.turns) == 1:
            return torch.zeros(len(context), 1, device=context.device)
        return torch.log_softmax(self.weights(context), -1)

    def log_prob(self, eta: Tensor, context: Tensor, centre: Tensor, log_w: Tensor) -> Tensor:
        """Log q (N, S) of parameters (N, S, dim): the sum over turns, each wound around once."""
        delta = self.wrap((eta - centre[:, None])[:, :, None] - self.turns)  # (N, S, K, dim)
        delta = delta[:, :, :, None] + self.windings
        log_f = torch.as_tensor(self.distribution.log_prob(delta.flatten(1, 3), context))
        log_f = torch.logsumexp(log_f.unflatten(1, delta.shape[1:4]), -1)
        return torch.logsumexp(log_f + log_w[:, None], -1)

    def wrap(self, eta: Tensor) -> Tensor:
        """The parameters with the turned angle in [-pi, pi)."""
        columns = list(eta.unbind(-1))
        i = self.around[0]
        columns[i] = torch.remainder(columns[i] + math.pi, 2 * math.pi) - math.pi
        return torch.stack(columns, -1)


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
