"""The joint ELBO (Allingham et al. 2022, equation 17), tighter bounds, and samples."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.per_example_random import per_example_random
from symmetries.nn.diagonal_gaussian import gaussian_log_prob
from symmetries.training import Step

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE


def joint_loss(model: "InvariantVAE", x: Tensor, step: Step) -> dict[str, Tensor]:
    r"""Return minus the mean ELBO of a batch, with one sample of z, x_hat and eta for each image.

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
    """Return the log-likelihood and KL of eta, each (B,), at one sample of q(eta | x)."""
    eta, log_q = model.posterior.sample(x, 1, step.generator)
    moved = model.act(model.group.exp(eta[:, 0]), prototypes)
    fit = gaussian_log_prob(x, moved, model.noise).sum((1, 2, 3))
    return fit, (log_q - model.prior_eta.log_prob(eta, z))[:, 0]


def finite_terms(
    model: "InvariantVAE", x: Tensor, z: Tensor, prototypes: Tensor
) -> tuple[Tensor, Tensor]:
    """Return expected log-likelihood and KL of the element, each (B,), over a finite group."""
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


def log_weights(
    model: "InvariantVAE", x: Tensor, k: int, generator: torch.Generator | None
) -> Tensor:
    """Return the logarithms (N, k) of the importance weights, see :meth:`InvariantVAE.bound`.

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
    return fit + log_p.unflatten(0, (n, k)) - log_q + log_ratio


TRIES = 16  # samples of q(eta | x) of which the likeliest moves a prototype back
CHUNK = 512


def views_of(
    model: "InvariantVAE", x: Tensor, views: int, generator: torch.Generator | None
) -> Tensor:
    """Return the transformed copies (N, views, C, H, W) of images that the encoder averages over.

    Uniform within the bounds, or all elements of a finite group; in eval mode the copies of a
    single parameter are spaced evenly from a random start.
    """
    group = model.group
    if group.finite:
        return model.act.orbit(group.elements(x.device), x)
    if model.config.objective.invariance == 0:
        return x[:, None]
    if generator is None and not model.training:
        generator = torch.Generator(x.device).manual_seed(0)
    shape = (len(x), views, group.dim)
    unit = per_example_random(torch.rand, shape, 0, generator, device=x.device)
    if not model.training:  # evenly, from a random start: less noise
        steps = torch.arange(views, device=x.device)[:, None] / views
        unit = torch.remainder(unit if group.dim > 1 else unit[:, :1] + steps, 1.0)
    with torch.no_grad():
        return model.act.orbit(group.exp(model.limit * (2 * unit - 1)), x)


def posterior_samples(
    model: "InvariantVAE", x: Tensor, n: int, generator: torch.Generator | None
) -> Tensor:
    """Return parameters (N, n, dim) drawn from q(eta | x)."""
    if model.finite:
        p = model.log_posterior(x).exp()
        drawn = torch.multinomial(p, n, replacement=True, generator=generator)
        return torch.as_tensor(model.group.log(drawn))
    return model.posterior.sample(x, n, generator)[0]


def prior_samples(
    model: "InvariantVAE", z: Tensor, n: int, generator: torch.Generator | None
) -> Tensor:
    """Return parameters (N, n, dim) drawn from p(eta | z)."""
    drawn = model.prior_eta.distribution.sample(model.prior_eta(z), n, generator)
    return torch.as_tensor(model.group.log(drawn)) if model.finite else drawn


def moved_back(model: "InvariantVAE", x: Tensor, prototypes: Tensor) -> Tensor:
    """Return prototypes moved by the likeliest of some samples of q(eta | x), (N, C, H, W)."""
    generator = torch.Generator(x.device).manual_seed(0)
    eta = posterior_samples(model, x, TRIES, generator)
    moved = model.act.orbit(model.group.exp(eta), prototypes)
    best = (moved - x[:, None]).square().mean((2, 3, 4)).argmin(1)
    return moved[torch.arange(len(x), device=x.device), best]


def left_over(model: "InvariantVAE", images: Tensor) -> Tensor:
    """Return the root mean square residual (C, H, W) of reconstructions from q(z | x)."""
    generator = torch.Generator(model.device).manual_seed(0)
    total = torch.zeros_like(model.free_noise)
    for part in images.split(CHUNK):
        x = part.to(model.device)
        mean, scale = model.encode(x)
        z = mean + scale * torch.randn(mean.shape, generator=generator, device=model.device)
        total += (moved_back(model, x, model.decode(z)) - x).square().sum(0)
    return (total / len(images)).sqrt()
