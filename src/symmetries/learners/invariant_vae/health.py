"""Warnings about an invariant VAE that failed to learn, with the remedy."""

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from symmetries.learners.invariant_vae.model import InvariantVAE

LOOKED_AT = 64
LEAST_EXPLAINED = 0.2


@torch.no_grad()
def explained(model: "InvariantVAE", x: Tensor) -> float:
    """Return the share of the images' variance that is explained; the mean image has 0."""
    lost = model.reconstruction_error(x).mean()
    return float(1 - lost / x.var(0, correction=0).mean().clamp_min(1e-12))


def warn_if_collapsed(model: "InvariantVAE", images: Tensor) -> None:
    """Warn if reconstructions are hardly better than the mean image."""
    share = explained(model, images[:LOOKED_AT].to(model.device))
    if share < LEAST_EXPLAINED:
        warnings.warn(
            f"reconstructions explain only {100 * max(share, 0.0):.0f} % of the images' variance: "
            "the codes or the transformations have collapsed; train longer, make noise smaller, "
            "or name fewer transformations (many affine ones at once may break this model down; "
            "learners.symmetry_model does not have the problem)",
            RuntimeWarning,
            stacklevel=6,  # who called fit
        )
