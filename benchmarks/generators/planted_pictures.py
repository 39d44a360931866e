"""Pictures and functions of pictures whose planar symmetries are known."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from symmetries.lie.pictures import plane_points

SIDE = 32


def blobs(centres: Tensor, width: float = 0.12) -> Tensor:
    """Pictures (n, 1, 32, 32) of round blobs at centres (n, k, 2)."""
    apart = (plane_points(SIDE, SIDE) - centres[:, :, None]).square().sum(-1)
    pictures = torch.exp(-apart / 2 / width**2).sum(1).reshape(-1, 1, SIDE, SIDE)
    return (pictures / 4).float()


def scattered(n: int, seed: int = 0) -> Tensor:
    """Three blobs in a ring about the middle, so that centre and border are empty."""
    generator = torch.Generator().manual_seed(seed)
    radius = 0.35 + 0.25 * torch.rand(n, 3, generator=generator).double()
    angle = 2 * math.pi * torch.rand(n, 3, generator=generator).double()
    return blobs(torch.stack((radius * angle.cos(), radius * angle.sin()), -1))


def turned(n: int, seed: int, angles: float) -> Tensor:
    """One shape of three blobs, turned by random angles."""
    generator = torch.Generator().manual_seed(seed)
    radius = torch.tensor([0.3, 0.5, 0.65]).double()
    angle = torch.tensor([0.0, 1.0, 2.5]).double() + angles * torch.rand(n, 1, generator=generator)
    return blobs(torch.stack((radius * angle.cos(), radius * angle.sin()), -1))


def integrals(*weights: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Integrals of pictures with weights, functions of points, radius and angle."""
    points = plane_points(SIDE, SIDE)
    radius, angle = points.norm(dim=1), torch.atan2(points[:, 1], points[:, 0])
    table = torch.stack([w(points, radius, angle) for w in weights]).reshape(-1, SIDE, SIDE)
    return lambda x: torch.einsum("nchw,mhw->nm", x, table.to(x))


RINGS = integrals(
    *[lambda p, r, a, k=k: torch.exp(-((r - k) ** 2) / 0.05) for k in (0.2, 0.5, 0.8)]
)
RAYS = integrals(
    *[
        lambda p, r, a, k=k, h=h: (r + 0.01) ** -2 * torch.tanh((r / 0.1) ** 4) * (k * a + h).cos()
        for k in (1, 2, 3)
        for h in (0.0, math.pi / 2)
    ]
)
HEIGHTS = integrals(*[lambda p, r, a, k=k: (k * p[:, 1]).cos() for k in (1, 2, 3)])


def swirled(x: Tensor) -> Tensor:
    """Two rings with angular frequencies in the ratio of their swirls, not of rotations."""

    def ring(at: float, n: int) -> Tensor:
        real = integrals(lambda p, r, a: torch.exp(-((r - at) ** 2) / 0.006) * (n * a).cos())
        imaginary = integrals(lambda p, r, a: torch.exp(-((r - at) ** 2) / 0.006) * (n * a).sin())
        return torch.complex(real(x)[:, 0], imaginary(x)[:, 0])

    both = ring(0.33, 4) * ring(0.66, 1).conj()
    return torch.stack((both.real, both.imag), 1)


def uneven(x: Tensor) -> Tensor:
    """Sums of random weights: nothing leaves them alone."""
    weights = torch.randn(6, 8, 8, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    whole = weights.repeat_interleave(4, 1).repeat_interleave(4, 2)
    return torch.einsum("nchw,mhw->nm", x, whole)
