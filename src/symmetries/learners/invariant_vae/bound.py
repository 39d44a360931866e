"""The importance weights of the joint model's bound on log p(x)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.nn.diagonal_gaussian import gaussian_log_prob

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE


def log_weights(
    model: "InvariantVAE", x: Tensor, k: int, generator: torch.Generator | None
) -> Tensor:
    """Logarithms (N, k) of the importance weights, see :meth:`InvariantVAE.bound`.

    Args:
        model: all networks.
        x: (N, C, H, W).
        k: joint samples of z, the prototype and eta for each image.
        generator: source of randomness.
    """
    n = len(x)
    mean, scale = (part[:, None] for part in model.encode(x))
    shape = (n, k, model.config.network.latent)
    z = mean + scale * torch.randn(shape, generator=generator, device=x.device)
    log_ratio = model.prior.log_prob(z) - gaussian_log_prob(z, mean, scale).sum(-1)
    flat = z.flatten(0, 1)
    prototypes = model.decode(flat)
    if model.config.objective.sampled:
        noise = torch.randn(prototypes.shape, generator=generator, device=x.device)
        prototypes = prototypes + model.prototype_noise * noise
    if model.finite:
        moved = model.act.orbit(model.group.elements(x.device), prototypes).unflatten(0, (n, k))
        fit = gaussian_log_prob(x[:, None, None], moved, model.noise).sum((3, 4, 5))
        log_p = model.log_prior(flat).unflatten(0, (n, k))
        return torch.logsumexp(fit + log_p, -1) + log_ratio
    eta, log_q = model.posterior.sample(x, k, generator)
    moved = model.act(model.group.exp(eta.flatten(0, 1)), prototypes).unflatten(0, (n, k))
    fit = gaussian_log_prob(x[:, None], moved, model.noise).sum((2, 3, 4))
    log_p = model.prior_eta.log_prob(eta.flatten(0, 1)[:, None], flat)[:, 0]
    weights: Tensor = fit + log_p.unflatten(0, (n, k)) - log_q + log_ratio
    return weights
