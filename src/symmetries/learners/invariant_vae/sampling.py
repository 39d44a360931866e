"""Views of images for the encoder, samples of transformations, and reconstructions by them."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.per_example_random import per_example_random

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE

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
    """Return the root mean square (C, H, W) of what reconstructions from q(z | x) leave over."""
    generator = torch.Generator(model.device).manual_seed(0)
    total = torch.zeros_like(model.free_noise)
    for part in images.split(CHUNK):
        x = part.to(model.device)
        mean, scale = model.encode(x)
        z = mean + scale * torch.randn(mean.shape, generator=generator, device=model.device)
        total += (moved_back(model, x, model.decode(z)) - x).square().sum(0)
    return (total / len(images)).sqrt()
