"""Importance weights of a VAE with a symmetry model, over codes and transformations."""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from symmetries.groups.finite import FiniteGroup
from symmetries.nn.autoencoder import gaussian_log_prob

if TYPE_CHECKING:
    from symmetries.learners.vae.symmetric import InvVAE


def log_weights(
    model: "InvVAE", x: Tensor, k: int, generator: torch.Generator | None, moves: bool
) -> Tensor:
    r"""Logarithms (N, k) of N(x; T_eta mu(z), S_eta^2) p(eta | mu(z)) p(z) / (r(eta | x) q(z | x)).

    In a finite group the sum over all eta takes the place of a draw from r.

    Args:
        model: the VAE of prototypes and its symmetry model.
        x: (N, C, H, W).
        k: draws of z, and of eta with each.
        generator: source of randomness, on the device of x.
        moves: the noise S is that of the prototype's pixels, and moves with it.
    """
    z, log_ratio = model.vae.draw(model.prototype(x), k, generator)
    means = model.vae.decode(z.flatten(0, 1))
    if model.finite:
        return _over_elements(model, x, means, k, moves) + log_ratio
    return _over_draws(model, x, means, k, generator, moves) + log_ratio


def _over_draws(
    model: "InvVAE",
    x: Tensor,
    means: Tensor,
    k: int,
    generator: torch.Generator | None,
    moves: bool,
) -> Tensor:
    """One eta from r = N(f(x), spread^2) for each of the means (N k, C, H, W)."""
    symmetry = model.symmetry
    centre = symmetry.infer(x, model.refine)[:, None]
    shape = (len(x), k, symmetry.group.dim)
    eta = centre + model.spread * torch.randn(shape, generator=generator, device=x.device)
    log_r = gaussian_log_prob(eta, centre, model.spread).sum(-1)
    elements = symmetry.group.exp(eta.flatten(0, 1))
    moved = symmetry.act(elements, means)
    fit = gaussian_log_prob(x.repeat_interleave(k, 0), moved, model.scale(elements, moves))
    context = symmetry.generative(means)
    log_p = symmetry.generative.distribution.log_prob(eta.flatten(0, 1), context)
    weights: Tensor = (fit.sum((1, 2, 3)) + log_p).unflatten(0, (len(x), k)) - log_r
    return weights


def _over_elements(model: "InvVAE", x: Tensor, means: Tensor, k: int, moves: bool) -> Tensor:
    """Every element for each of the means (N k, C, H, W): nothing is drawn."""
    symmetry = model.symmetry
    every = cast(FiniteGroup, symmetry.group).elements(x.device)
    moved = symmetry.act.orbit(every, means).unflatten(0, (len(x), k))
    fit = gaussian_log_prob(x[:, None, None], moved, model.scale(every, moves)).sum((3, 4, 5))
    log_p = symmetry.generative.distribution.log_probs(symmetry.generative(means))
    return torch.logsumexp(fit + log_p.unflatten(0, (len(x), k)), -1)
