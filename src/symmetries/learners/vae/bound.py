"""Importance weights of a VAE with a symmetry model, over codes and transformations."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.vae.proposal import pairs_of, propose
from symmetries.nn.diagonal_gaussian import gaussian_log_prob

if TYPE_CHECKING:
    from symmetries.learners.vae.inv_vae import InvVAE


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
    """One eta from r for each of the means (N k, C, H, W)."""
    pairs = pairs_of(model, x.repeat_interleave(k, 0), means, moves)
    eta, log_r = propose(pairs, start.repeat_interleave(k, 0), generator)
    weights: Tensor = (pairs.log_prob(eta) - log_r).unflatten(0, (len(x), k))
    return weights


def _over_elements(model: "InvVAE", x: Tensor, means: Tensor, k: int, moves: bool) -> Tensor:
    """Every element for each of the means (N k, C, H, W): nothing is drawn."""
    symmetry = model.symmetry
    every = symmetry.group.elements(x.device)
    moved = symmetry.act.orbit(every, means).unflatten(0, (len(x), k))
    fit = gaussian_log_prob(x[:, None, None], moved, model.scale(every, moves)).sum((3, 4, 5))
    log_p = symmetry.generative.distribution.log_probs(symmetry.generative(means))
    return torch.logsumexp(fit + log_p.unflatten(0, (len(x), k)), -1)
