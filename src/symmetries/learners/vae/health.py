"""Warnings about a VAE that failed to learn, with the remedy."""

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from symmetries.learners.vae.model import VAE

LOOKED_AT = 256
LEAST_KL = 0.1  # nats


@torch.no_grad()
def code_kl(model: "VAE", x: Tensor) -> Tensor:
    """How much q(z | x) says about images: mean KL to the prior in nats, no axes."""
    return model.prior.kl(*model.encode(x)).mean()


def warn_if_collapsed(model: "VAE", images: Tensor) -> None:
    """Warn if codes say nothing about images: then every reconstruction is the mean image."""
    kl = float(code_kl(model, images[:LOOKED_AT].to(model.device)))
    if kl < LEAST_KL:
        warnings.warn(
            f"the codes say nothing about the images (KL {kl:.2g} nats): the posterior has "
            "collapsed; train longer, lower the learning rate, or check that images differ",
            RuntimeWarning,
            stacklevel=6,  # who called fit
        )
