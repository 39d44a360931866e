"""What an invariant VAE has learned about images and their transformations."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.base import GenerativeSummary

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE


@dataclass(frozen=True)
class InvariantVAESummary(GenerativeSummary):
    """How well the model describes images, and how far their transformations spread.

    Args:
        spread: standard deviation of p(eta | z) by parameter, averaged over images, in the units
            of the group; for an angle that of the circle, (-2 log R)^1/2 with the mean resultant
            length R. For a finite group the perplexity of p(g | z): the number of elements that it
            is spread over.
    """

    spread: dict[str, float]


@torch.no_grad()
def prior_spread(model: "InvariantVAE", x: Tensor, samples: int, seed: int) -> dict[str, float]:
    """Return the spread of p(eta | z) at the mean codes of images; see the summary."""
    group = model.group
    if group.finite:
        log_p = model.log_prior(model.encode(x)[0])
        entropy = -(log_p.exp() * log_p).sum(-1)
        return {",".join(group.names): float(entropy.exp().mean())}
    generator = torch.Generator(x.device).manual_seed(seed)
    eta = model.sample_prior_eta(x, max(samples, 2), generator)
    found = {}
    for parameter, values in zip(group.parameters, eta.unbind(-1), strict=True):
        spread = values.std(1)
        if parameter.angle:
            mean = torch.stack((values.cos().mean(1), values.sin().mean(1)))
            spread = (-2 * mean.norm(dim=0).clamp(1e-12, 1.0).log()).sqrt()
        found[parameter.name] = float(spread.mean())
    return found
