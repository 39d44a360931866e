"""Prototypes of one mean place, size and shape, whatever symmetry model they come from.

If f(x) explains images by prototypes x_hat, then f(x) S^-1 explains them by T_S x_hat, just as
well, for any matrix S. A density of pixels is not indifferent: five per cent of zoom are worth a
hundred nats, a stretch of a fifth seventy (``images.py``). So S is chosen here: the mean centre of
prototypes is the middle of the frame, and their mean second moments are those of a circle, as large
as those of images.
"""

from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.ops.affine_product import affine_product

CHUNK = 2048


def moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean centre (2,) and mean central second moments (2, 2) of pictures, in half-image units."""
    centres, second = moments_of_each(images)
    return centres.mean(0), second.mean(0)


def moments_of_each(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centres (N, 2) and central second moments (N, 2, 2) of pictures (N, C, H, W)."""
    height, width = images.shape[-2:]
    device = images.device
    x = (2 * torch.arange(width, device=device) + 1 - width) / max(height, width)
    y = (height - 1 - 2 * torch.arange(height, device=device)) / max(height, width)
    places = torch.stack((x.expand(height, width), y[:, None].expand(height, width)), -1)
    weights = images.sum(1).flatten(1)
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1e-6)
    flat = places.flatten(0, 1)
    centres = weights @ flat
    offsets = flat - centres[:, None]
    return centres, torch.einsum("np,npi,npj->nij", weights, offsets, offsets)


class FramedGroup(Affine2):
    """A family whose elements are exp(eta) S^-1."""

    def __init__(self, names: tuple[str, ...], back: Tensor) -> None:
        super().__init__(*names)
        self.back = back

    def exp(self, eta: Tensor) -> Tensor:
        """Matrices (..., 3, 3)."""
        return affine_product(super().exp(eta), self.back.to(eta))


class Framed(nn.Module):
    """A symmetry model whose prototypes are T_S x_hat, for :class:`InvVAE`.

    Args:
        symmetry: of a family of affine transformations.
        images: those it was fitted to.
    """

    def __init__(self, symmetry: SymmetryModel, images: Tensor) -> None:
        super().__init__()
        self.symmetry = symmetry
        self.shape, self.bounds = symmetry.shape, symmetry.bounds
        self.frame = frame_of(symmetry, images)
        self.group = FramedGroup(symmetry.group.names, torch.linalg.inv(self.frame))
        options: dict[str, Any] = {"interpolation": symmetry.act.interpolation}
        self.act = ImageAction(self.group, fill=symmetry.act.fill, **options)
        self.generative = Unframed(symmetry, self.act, self.group.back)

    def infer(self, x: Tensor, refine: int = 0) -> Tensor:
        """Parameters eta (N, dim): those of the symmetry model."""
        return self.symmetry.infer(x, refine)

    def element(self, x: Tensor, refine: int = 0) -> Tensor:
        """Matrices (N, 3, 3) from prototypes to images."""
        return affine_product(self.symmetry.element(x, refine), self.group.back.to(x))

    def prototype(self, x: Tensor, refine: int = 0) -> Tensor:
        """Prototypes (N, C, H, W), one resampling of images."""
        return self.act(self.group.inverse(self.element(x, refine)), x)


class Unframed:
    """p(eta | x_hat), asked with prototypes that are moved back to where it was learned."""

    def __init__(self, symmetry: SymmetryModel, act: ImageAction, back: Tensor) -> None:
        self.generative, self.act, self.back = symmetry.generative, act, back
        self.distribution = symmetry.generative.distribution

    def __call__(self, prototypes: Tensor) -> Tensor:
        """The context of prototypes (N, C, H, W)."""
        back = self.back.to(prototypes).expand(len(prototypes), 3, 3)
        context: Tensor = self.generative(self.act(back, prototypes))
        return context


@torch.no_grad()
def frame_of(symmetry: SymmetryModel, images: Tensor) -> Tensor:
    """S (3, 3): to the mean place, size and shape."""
    device = symmetry.device
    parts = [symmetry.prototype(part.to(device)) for part in images.split(CHUNK)]
    centre, second = moments(torch.cat(parts).clamp(0, 1))
    _, target = moments(images.to(device))
    values, vectors = torch.linalg.eigh(second)
    size = (target.trace() / 2).sqrt()
    linear = size * vectors @ torch.diag(values.rsqrt()) @ vectors.T
    frame = torch.eye(3, device=device)
    frame[:2, :2], frame[:2, 2] = linear, -linear @ centre
    return frame
