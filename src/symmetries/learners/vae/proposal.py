"""Proposals for the transformation between a prototype and an image, and the bounds they give."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.base import Group
from symmetries.learners.vae.model import CHUNK
from symmetries.nn.diagonal_gaussian import LOG_TWO_PI, gaussian_log_prob

if TYPE_CHECKING:
    from symmetries.learners.vae.inv_vae import InvVAE

DEFENSIVE = 0.1  # share of wide draws
STEPS, FIRST_STEPS = 2, 32  # of Fisher scoring, for each prototype and before
TURNS = (-2, -1, 0, 1, 2)  # from which a draw may have come; more are out of its reach
DIFFERENCE = 0.003  # of a parameter, as a share of its bound
JITTER = 1e-5  # on the diagonal of matrices whose diagonal is 1


@dataclass(frozen=True)
class Pairs:
    """R images, each with a prototype that may explain it.

    Args:
        model: has the action, the noise and p(eta | prototype).
        x: images (R, C, H, W).
        means: prototypes (R, C, H, W).
        moves: the noise is that of the prototype's pixels, and moves with it.
        context: of p(eta | prototype).
    """

    model: "InvVAE"
    x: Tensor
    means: Tensor
    moves: bool
    context: Any

    def moved(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Return prototypes (R, S, C, H, W) moved by each eta (R, S, dim), and the noise there."""
        symmetry = self.model.symmetry
        moved = symmetry.act.orbit(symmetry.group.exp(eta), self.means)
        scale = self.model.scale(symmetry.group.exp(eta.flatten(0, 1)), self.moves)
        return moved, scale.unflatten(0, eta.shape[:2]) if self.moves else scale[None, None]

    def log_prob(self, eta: Tensor) -> Tensor:
        """Log p(x, eta | prototype), (R,), of eta (R, dim)."""
        moved, scale = self.moved(eta[:, None])
        fit = gaussian_log_prob(self.x[:, None], moved, scale).sum((1, 2, 3, 4))
        log_p: Tensor = self.model.symmetry.generative.distribution.log_prob(eta, self.context)
        return fit + log_p

    def linear(self, eta: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return the slope (R, dim) of log N(x; m, s^2) in eta / unit, and its Fisher information.

        .. math:: g = J^T \frac{x - m}{s^2} + L^T \Big(\frac{(x - m)^2}{s^2} - 1\Big), \qquad
                  F = J^T s^{-2} J + 2 L^T L

        with J and L the derivatives of m and of log s, by differences.
        """
        reach = DIFFERENCE * torch.tensor(self.model.symmetry.bounds, device=eta.device)
        offsets = torch.cat((torch.zeros_like(reach)[None], torch.diag(reach)))
        moved, scale = (part.flatten(-3) for part in self.moved(eta[:, None] + offsets))
        here, per = scale[:, :1], (unit / reach)[:, None]
        left = (self.x.flatten(1)[:, None] - moved[:, :1]) / here
        columns = per * (moved[:, 1:] - moved[:, :1]) / here
        slope, information = (columns * left).sum(-1), _gram(columns)
        if self.moves:
            columns = per * (scale[:, 1:] / here).log()
            slope = slope + (columns * (left.square() - 1)).sum(-1)
            information = information + 2 * _gram(columns)
        return slope, information


def pairs_of(model: "InvVAE", x: Tensor, means: Tensor, moves: bool) -> Pairs:
    """Return images and prototypes, each (R, C, H, W), with what p(eta | prototype) needs."""
    return Pairs(model, x, means, moves, model.symmetry.generative(means))


@dataclass(frozen=True)
class Gaussian:
    """N(centre, stretch^2 A^-1), R of them, where A = D^-1 L L^T D^-1.

    Args:
        centre: (R, dim).
        unit: D, (R, dim).
        lower: L, (R, dim, dim), lower triangular.
        stretch: of the standard deviations.
    """

    centre: Tensor
    unit: Tensor
    lower: Tensor
    stretch: Tensor

    def draw(self, generator: torch.Generator | None) -> Tensor:
        """Draw one eta (R, dim) from each Gaussian."""
        here = self.centre
        noise = torch.randn(here.shape, generator=generator, device=here.device, dtype=here.dtype)
        step = torch.linalg.solve_triangular(self.lower.mT, noise[..., None], upper=True)[..., 0]
        return self.centre + self.stretch * self.unit * step

    def log_prob(self, eta: Tensor) -> Tensor:
        """Return the log-density (R,) of eta (R, dim)."""
        step = (eta - self.centre) / (self.stretch * self.unit)
        noise = (self.lower * step[..., None]).sum(1)
        size = (self.lower.diagonal(dim1=1, dim2=2) / (self.stretch * self.unit)).log().sum(-1)
        return size - 0.5 * (noise.square() + LOG_TWO_PI).sum(-1)


def propose(
    pairs: Pairs, start: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return one eta (R, dim) of a mixture for each pair, and the logarithm (R,) of its density.

    Most come from :func:`posterior`; a tenth from N(start, spread^2), so that no weight is far
    above the others where the former is too narrow (Hesterberg 1995). Angles are within half a
    turn of the start, as further turns would count twice if p(eta) goes around; where it does,
    they are those from its own turn, in case the group does not close up (shifts beside a turn).
    """
    near, spread = posterior(pairs, start), pairs.model.spread
    shape, device = start.shape, start.device
    far = start + spread * torch.randn(shape, generator=generator, device=device)
    chosen = torch.rand(shape[0], 1, generator=generator, device=device) < DEFENSIVE
    eta = torch.where(chosen, far, near.draw(generator))
    group = pairs.model.symmetry.group
    turn = _turn(group, device)
    eta = _nearest(eta, start, turn)
    total = torch.full_like(eta[:, 0], -math.inf)
    for turns in itertools.product(*(TURNS if angle else (0,) for angle in group.angles)):
        same = eta + turn * torch.tensor(turns, device=device)
        log_far = gaussian_log_prob(same, start, spread).sum(-1)
        total = total.logaddexp(math.log(1 - DEFENSIVE) + near.log_prob(same))
        total = total.logaddexp(math.log(DEFENSIVE) + log_far)
    around = pairs.model.symmetry.generative.distribution.around
    own = torch.tensor([i in around for i in range(group.dim)], device=device)
    return torch.where(own, _nearest(eta, torch.zeros_like(eta), turn), eta), total


def settled(model: "InvVAE", x: Tensor, moves: bool) -> Tensor:
    """Return parameters (N, dim) that move prototypes of mean codes to images, from f(x) on.

    Args:
        model: the VAE of prototypes and its symmetry model.
        x: (N, C, H, W).
        moves: the noise is that of the prototype's pixels, and moves with it.
    """
    means = model.vae.decode(model.vae.encode(model.prototype(x))[0])
    pairs = pairs_of(model, x, means, moves)
    return posterior(pairs, model.symmetry.infer(x, model.refine), FIRST_STEPS).centre


def posterior(pairs: Pairs, start: Tensor, steps: int = STEPS) -> Gaussian:
    r"""Return a Gaussian near p(eta | x, prototype), if eta is N(start, spread^2) beforehand.

    Some steps of Fisher scoring from ``start``, where p(x, eta | prototype) rises by them, then
    the information at the end: exact where moved prototypes are linear in eta and noise stays.
    What an image does not say, such as the angle of a circle, is as wide as the spread. Angles
    stay within half a turn of the start, however long a step is.

    Args:
        pairs: images and prototypes.
        start: eta (R, dim).
        steps: how many.
    """
    spread, turn = pairs.model.spread, _turn(pairs.model.symmetry.group, start.device)
    eta, best = start, pairs.log_prob(start)
    damping = torch.zeros_like(best)[:, None]
    for _ in range(steps):
        slope, information = pairs.linear(eta, spread)
        slope = slope - (eta - start) / spread
        unit, lower = _factor(information, damping)
        step = torch.cholesky_solve((unit * slope)[..., None], lower)[..., 0]
        trial = _nearest(eta + spread * unit * step, start, turn)
        found = pairs.log_prob(trial)
        better = found > best
        eta, best = torch.where(better[:, None], trial, eta), torch.where(better, found, best)
        damping = torch.where(better[:, None], damping, 10 * damping + 1)
    unit, lower = _factor(pairs.linear(eta, spread)[1], torch.zeros_like(damping))
    return Gaussian(eta, spread * unit, lower, pairs.model.stretch)


def _turn(group: Group[Any], device: torch.device) -> Tensor:
    """Return a whole turn (dim,) of angles, 0 for other parameters."""
    angles = torch.tensor(group.angles, device=device)
    return 2 * angles * torch.tensor(group.bounds, device=device)


def _nearest(eta: Tensor, start: Tensor, turn: Tensor) -> Tensor:
    """Return parameters (R, dim) with angles within half a turn of the start."""
    return eta - turn * ((eta - start) / torch.where(turn > 0, turn, 1.0)).round()


def _gram(columns: Tensor) -> Tensor:
    """Return products (R, dim, dim) of columns (R, dim, P), in full precision."""
    return torch.stack([(columns * one[:, None]).sum(-1) for one in columns.unbind(1)], 1)


def _factor(information: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """D (R, dim) and L (R, dim, dim) of information + 1, its diagonal damped by (R, 1)."""
    diagonal = (information.diagonal(dim1=1, dim2=2) + 1) * (1 + damping)
    unit = diagonal.rsqrt()
    correlation = unit[:, :, None] * information * unit[:, None]
    correlation.diagonal(dim1=1, dim2=2).fill_(1 + JITTER)
    return unit, torch.linalg.cholesky_ex(correlation).L


def log_weights(
    model: "InvVAE",
    x: Tensor,
    k: int,
    generator: torch.Generator | None,
    moves: bool,
    start: Tensor | None = None,
) -> Tensor:
    r"""Logarithms (N, k) of N(x; T_eta mu, S_eta^2) p(eta | mu) p(z) / (r(eta | x, mu) q(z | x)).

    The prototype mu is decoded from z; r is :func:`symmetries.learners.vae.proposal.propose`. In a
    finite group the sum over all eta takes the place of a draw from r.

    Args:
        model: the VAE of prototypes and its symmetry model.
        x: (N, C, H, W).
        k: draws of z, and of eta with each.
        generator: source of randomness, on the device of x.
        moves: the noise S is that of the prototype's pixels, and moves with it.
        start: eta (N, dim) near which r looks for each draw's; not for a finite group.
    """
    z, log_ratio = model.vae.draw(model.prototype(x), k, generator)
    means = model.vae.decode(z.flatten(0, 1))
    if start is None:
        return _over_elements(model, x, means, k, moves) + log_ratio
    return _over_draws(model, x, means, k, generator, moves, start) + log_ratio


def _over_draws(
    model: "InvVAE",
    x: Tensor,
    means: Tensor,
    k: int,
    generator: torch.Generator | None,
    moves: bool,
    start: Tensor,
) -> Tensor:
    """Return log-weights with one eta drawn from r for each mean (N k, C, H, W)."""
    pairs = pairs_of(model, x.repeat_interleave(k, 0), means, moves)
    eta, log_r = propose(pairs, start.repeat_interleave(k, 0), generator)
    return (pairs.log_prob(eta) - log_r).unflatten(0, (len(x), k))


def _over_elements(model: "InvVAE", x: Tensor, means: Tensor, k: int, moves: bool) -> Tensor:
    """Log-weights summed over all elements of a finite group for each mean (N k, C, H, W)."""
    symmetry = model.symmetry
    every = symmetry.group.elements(x.device)
    moved = symmetry.act.orbit(every, means).unflatten(0, (len(x), k))
    fit = gaussian_log_prob(x[:, None, None], moved, model.scale(every, moves)).sum((3, 4, 5))
    log_p = symmetry.generative.distribution.log_probs(symmetry.generative(means))
    return torch.logsumexp(fit + log_p.unflatten(0, (len(x), k)), -1)


ROUNDS = 8  # to find the noise that moves


def squares(model: "InvVAE", images: Tensor, settle: bool) -> Iterator[tuple[Any, Tensor]]:
    """Yield elements of images, and squared residuals (N, C, H, W) of their reconstructions.

    Args:
        model: the VAE of prototypes and its symmetry model.
        images: (N, C, H, W).
        settle: elements are drawn as for bounds; else they are those that are inferred.
    """
    generator = torch.Generator(model.vae.device).manual_seed(0)
    symmetry, moves = model.symmetry, model.moves_pixels
    for x in images.split(CHUNK):
        x = x.to(model.vae.device)
        z, _ = model.vae.draw(model.prototype(x), 1, generator)
        means = model.vae.decode(z[:, 0])
        if settle:
            pairs = pairs_of(model, x, means, moves)
            eta = posterior(pairs, settled(model, x, moves)).draw(generator)
            element = symmetry.group.exp(eta)
        else:
            element = symmetry.element(x, model.refine)
        yield element, (x - symmetry.act(element, means)).square()


def set_noise(model: "InvVAE", left: Sequence[tuple[Any, Tensor]]) -> None:
    """Set both noises of a model, from elements and the squared residuals of their images."""
    least = model.vae.config.least_noise
    total = torch.stack([part.sum(0) for _, part in left]).sum(0)
    count = sum(len(part) for _, part in left)
    model.noise.copy_((total / count).sqrt().clamp_min(least))
    if not model.moves_pixels:
        return
    model.prototype_noise.copy_(model.noise.mean().expand_as(model.noise))
    for _ in range(ROUNDS):
        parts = [(at, part / model.scale(at, True).square()) for at, part in left]
        model.prototype_noise.mul_(mean_back(model, parts).sqrt()).clamp_min_(least)


def mean_back(model: "InvVAE", parts: Sequence[tuple[Any, Tensor]]) -> Tensor:
    """The mean (C, H, W) of pictures that are moved back by their elements, within frames."""
    group = model.symmetry.group
    back = ImageAction(group)
    total, seen = torch.zeros_like(model.noise), torch.zeros_like(model.noise)
    for element, part in parts:
        inverse = group.inverse(element)
        total += back(inverse, part).sum(0)
        seen += back(inverse, torch.ones_like(part)).sum(0)
    # A pixel that no image has is background to all of them.
    return total / seen.clamp_min(torch.finfo(seen.dtype).tiny)
