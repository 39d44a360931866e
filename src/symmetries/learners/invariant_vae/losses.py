"""The joint ELBO (Allingham et al. 2022, equation 17)."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.nn.autoencoder import gaussian_log_prob
from symmetries.training import Step

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE


def joint_loss(model: "InvariantVAE", x: Tensor, step: Step) -> dict[str, Tensor]:
    r"""Minus the ELBO with one sample of z, x_hat and eta for each image, the mean over a batch.

    .. math:: -E\left[\log N(x; T_\eta \hat x, \sigma^2) + \log p(\eta | z)
              - \log q(\eta | x)\right] + \beta\, KL(q(z | x) || p(z))

    The KL of z is in closed form; beta falls from ``config.beta`` to 1 as a cosine. For a finite
    group the expectation over q(g | x) is summed. Where q(eta | x) has K turns (see
    :class:`~symmetries.learners.invariant_vae.networks.Posterior`), eta is tried at all of them,

    .. math:: \log \frac1K \sum_k N(x; T_{\eta_k} \hat x, \sigma^2)\, p(\eta_k | z) / q(\eta_k),

    a bound too, with q the mixture of equal weights; the weights w of q(eta | x) learn to predict
    the terms' shares.

    Args:
        model: all networks.
        x: (B, C, H, W).
        step: gives random numbers and the progress of training.

    Returns:
        "loss", "log_likelihood", "kl_eta" and "kl_z".
    """
    config = model.config
    mean, scale = model.encode(x, config.samples, step.generator)
    z = mean + scale * step.randn(*mean.shape)
    prototypes = model.decode(z)
    if config.sampled:
        prototypes = prototypes + model.prototype_noise * step.randn(*prototypes.shape)
    if model.finite:
        fit, kl_eta = finite_terms(model, x, z, prototypes)
        unlike = torch.zeros_like(fit)
    else:
        fit, kl_eta, unlike = turned_terms(model, x, z, prototypes, step)
    kl_z = model.prior.kl(mean, scale).mean()
    fit, kl_eta = fit.mean(), kl_eta.mean()
    loss = kl_eta + beta(step.progress, config.beta) * kl_z - fit + unlike.mean()
    return {"loss": loss, "log_likelihood": fit, "kl_eta": kl_eta, "kl_z": kl_z}


def turned_terms(
    model: "InvariantVAE", x: Tensor, z: Tensor, prototypes: Tensor, step: Step
) -> tuple[Tensor, Tensor, Tensor]:
    """Of eta at all turns, each (B,): log-likelihood, KL, and what predicted weights miss.

    The KL counts less at first, see ``eta_warmup``; and turns other than the first are behind by
    some nats, so that all images start alike, and only those turn that gain more by it. They fall
    behind again late, see ``settle``.
    """
    weight, lead = schedule(step.progress, model.config.eta_warmup, model.config.settle)
    branches = model.posterior.branches(x, step.generator)
    eta, log_q, *_ = branches
    moved = model.act.orbit(model.group.exp(eta), prototypes)
    fit = gaussian_log_prob(x[:, None], moved, model.noise).sum((2, 3, 4))
    log_p = model.prior_eta.distribution.log_prob(eta, model.prior_eta(z))
    terms = fit + weight * (log_p - log_q) - math.log(eta.shape[1])
    terms = terms - lead * model.posterior.behind
    shares = torch.softmax(terms, 1).detach()
    fit = (shares * fit).sum(1)
    return fit, fit - torch.logsumexp(terms, 1), model.posterior.unlike(branches, shares)


def schedule(progress: Tensor, warmup: float, settle: float) -> tuple[Tensor, Tensor]:
    """Weight of the KL of eta, and lead of the first turn, both within 0 and 1.

    The weight rises to 1 over ``warmup``; the lead falls to 0 with it, and rises again in the first
    half of what ``settle`` leaves of the steps.

    Example:
        >>> shares = torch.tensor([0.0, 0.25, 0.5, 0.7, 0.775, 1.0])
        >>> [[round(float(v), 2) for v in part] for part in schedule(shares, 0.5, 0.7)]
        [[0.0, 0.5, 1.0, 1.0, 1.0, 1.0], [1.0, 0.5, 0.0, 0.0, 0.5, 1.0]]
    """
    weight = (progress / warmup).clamp_max(1.0) if warmup else torch.ones_like(progress)
    late = (2 * (progress - settle) / max(1 - settle, 1e-6)).clamp(0.0, 1.0)
    return weight, torch.maximum(1 - weight, late)


def finite_terms(
    model: "InvariantVAE", x: Tensor, z: Tensor, prototypes: Tensor
) -> tuple[Tensor, Tensor]:
    """Expected log-likelihood and KL of the element, each (B,), summed over a finite group."""
    log_q = model.log_posterior(x)
    log_p = model.log_prior(z)
    moved = model.act.orbit(model.elements(x.device), prototypes)
    fit = gaussian_log_prob(x[:, None], moved, model.noise).sum((2, 3, 4))
    q = log_q.exp()
    return (q * fit).sum(1), (q * (log_q - log_p)).sum(1)


def beta(progress: Tensor, start: float) -> Tensor:
    """From ``start`` to 1 as a cosine.

    Example:
        >>> [round(beta(torch.tensor(p), 10.0).item(), 4) for p in (0.0, 0.5, 1.0)]
        [10.0, 5.5, 1.0]
    """
    return 1 + (start - 1) * 0.5 * (1 + torch.cos(torch.pi * progress))
