"""The joint ELBO (Allingham et al. 2022, equation 17)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.nn.diagonal_gaussian import gaussian_log_prob
from symmetries.training import Step

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE


def joint_loss(model: "InvariantVAE", x: Tensor, step: Step) -> dict[str, Tensor]:
    r"""Minus the ELBO with one sample of z, x_hat and eta for each image, the mean over a batch.

    .. math:: -E\left[\log N(x; T_\eta \hat x, \sigma^2) + \log p(\eta | z)
              - \log q(\eta | x)\right] + \beta\, KL(q(z | x) || p(z))

    The KL of z is in closed form; beta falls from ``beta`` to 1 as a cosine. For a finite
    group the expectation over q(g | x) is summed.

    Args:
        model: all networks.
        x: (B, C, H, W).
        step: gives random numbers and the progress of training.

    Returns:
        "loss", "log_likelihood", "kl_eta" and "kl_z".
    """
    config = model.config.objective
    mean, scale = model.encode(x, config.samples, step.generator)
    z = mean + scale * step.randn(*mean.shape)
    prototypes = model.decode(z)
    if config.sampled:
        prototypes = prototypes + model.prototype_noise * step.randn(*prototypes.shape)
    if model.finite:
        fit, kl_eta = finite_terms(model, x, z, prototypes)
    else:
        fit, kl_eta = sampled_terms(model, x, z, prototypes, step)
    kl_z = model.prior.kl(mean, scale).mean()
    fit, kl_eta = fit.mean(), kl_eta.mean()
    loss = kl_eta + beta(step.progress, config.beta) * kl_z - fit
    return {"loss": loss, "log_likelihood": fit, "kl_eta": kl_eta, "kl_z": kl_z}


def sampled_terms(
    model: "InvariantVAE", x: Tensor, z: Tensor, prototypes: Tensor, step: Step
) -> tuple[Tensor, Tensor]:
    """Log-likelihood and KL of eta, each (B,), at one sample of q(eta | x)."""
    eta, log_q = model.posterior.sample(x, 1, step.generator)
    moved = model.act(model.group.exp(eta[:, 0]), prototypes)
    fit = gaussian_log_prob(x, moved, model.noise).sum((1, 2, 3))
    return fit, (log_q - model.prior_eta.log_prob(eta, z))[:, 0]


def finite_terms(
    model: "InvariantVAE", x: Tensor, z: Tensor, prototypes: Tensor
) -> tuple[Tensor, Tensor]:
    """Expected log-likelihood and KL of the element, each (B,), summed over a finite group."""
    log_q = model.log_posterior(x)
    log_p = model.log_prior(z)
    moved = model.act.orbit(model.group.elements(x.device), prototypes)
    fit = gaussian_log_prob(x[:, None], moved, model.noise).sum((2, 3, 4))
    q = log_q.exp()
    return (q * fit).sum(1), (q * (log_q - log_p)).sum(1)


def beta(progress: Tensor, start: float) -> Tensor:
    """Return the weight of the KL of z, which falls from ``start`` to 1 as a cosine.

    Example:
        >>> [round(beta(torch.tensor(p), 10.0).item(), 4) for p in (0.0, 0.5, 1.0)]
        [10.0, 5.5, 1.0]
    """
    return 1 + (start - 1) * 0.5 * (1 + torch.cos(torch.pi * progress))
