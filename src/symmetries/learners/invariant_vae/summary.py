"""What an invariant VAE has learned about images, and signs that it has not."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.sampling import some_of
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


LOOKED_AT = 64
LEAST_EXPLAINED = 0.2


@torch.no_grad()
def explained(model: "InvariantVAE", x: Tensor) -> float:
    """Return the share of the images' variance that is explained; the mean image has 0."""
    lost = model.reconstruction_error(x).mean()
    return float(1 - lost / x.var(0, correction=0).mean().clamp_min(1e-12))


def warn_if_collapsed(model: "InvariantVAE", images: Tensor) -> None:
    """Warn if reconstructions are hardly better than the mean image."""
    share = explained(model, some_of(images, LOOKED_AT).to(model.device))
    if share < LEAST_EXPLAINED:
        warnings.warn(
            f"reconstructions explain only {100 * max(share, 0.0):.0f} % of the images' variance: "
            "the codes or the transformations have collapsed; train longer, make noise smaller, "
            "or name fewer transformations (many affine ones at once may break this model down; "
            "learners.symmetry_model does not have the problem)",
            RuntimeWarning,
            stacklevel=6,  # who called fit
        )
