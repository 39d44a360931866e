"""The pixel noise of images, and of prototypes, under a VAE of prototypes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.learners.vae.model import CHUNK
from symmetries.learners.vae.proposal import pairs_of, posterior, settled

if TYPE_CHECKING:
    from symmetries.learners.vae.inv_vae import InvVAE

ROUNDS = 8  # to find the noise that moves


def squares(model: "InvVAE", images: Tensor, settle: bool) -> Iterator[tuple[Any, Tensor]]:
    """Yield elements of images, and squared residuals (N, C, H, W) of their reconstructions.

    Args:
        model: the VAE of prototypes and its symmetry model.
        images: (N, C, H, W).
        settle: elements are drawn as for bounds; else they are those that are inferred.
    """
    generator = torch.Generator(model.vae.device).manual_seed(0)
    symmetry, moves = model.symmetry, model.moves_pixels
    for x in images.split(CHUNK):
        x = x.to(model.vae.device)
        z, _ = model.vae.draw(model.prototype(x), 1, generator)
        means = model.vae.decode(z[:, 0])
        if settle:
            pairs = pairs_of(model, x, means, moves)
            eta = posterior(pairs, settled(model, x, moves)).draw(generator)
            element = symmetry.group.exp(eta)
        else:
            element = symmetry.element(x, model.refine)
        yield element, (x - symmetry.act(element, means)).square()


def set_noise(model: "InvVAE", left: Sequence[tuple[Any, Tensor]]) -> None:
    """Set both noises of a model, from elements and the squared residuals of their images."""
    least = model.vae.config.least_noise
    total = torch.stack([part.sum(0) for _, part in left]).sum(0)
    count = sum(len(part) for _, part in left)
    model.noise.copy_((total / count).sqrt().clamp_min(least))
    if not model.moves_pixels:
        return
    model.prototype_noise.copy_(model.noise.mean().expand_as(model.noise))
    for _ in range(ROUNDS):
        parts = [(at, part / model.scale(at, True).square()) for at, part in left]
        model.prototype_noise.mul_(mean_back(model, parts).sqrt()).clamp_min_(least)


def mean_back(model: "InvVAE", parts: Sequence[tuple[Any, Tensor]]) -> Tensor:
    """The mean (C, H, W) of pictures that are moved back by their elements, within frames."""
    group = model.symmetry.group
    back = ImageAction(group)
    total, seen = torch.zeros_like(model.noise), torch.zeros_like(model.noise)
    for element, part in parts:
        inverse = group.inverse(element)
        total += back(inverse, part).sum(0)
        seen += back(inverse, torch.ones_like(part)).sum(0)
    # A pixel that no image has is background to all of them.
    return total / seen.clamp_min(torch.finfo(seen.dtype).tiny)
