"""Numbers where the paper has pictures."""

import math

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_vae import InvariantVAE
from symmetries.learners.symmetry_model.summary import highest_density_width

ROTATION = Affine2("rotation")
TURN = 2 * math.pi
COPIES = 8


def on(data: ImageSet, device: torch.device | str) -> ImageSet:
    """The same set on a device."""
    labels = None if data.labels is None else data.labels.to(device)
    return ImageSet(data.images.to(device), labels, data.name, data.class_names)


def turned(images: Tensor, angles: Tensor, interpolation: str = "bilinear") -> Tensor:
    """Images turned by angles (N,) in radians."""
    return ImageAction(ROTATION, interpolation=interpolation)(ROTATION.exp(angles[:, None]), images)


def rotation_samples(model: InvariantVAE, data: ImageSet, n: int = 64) -> dict[int, Tensor]:
    """Angles of q(eta | x), pooled over the images of each class, in radians."""
    column = model.group.names.index("rotation")
    generator = torch.Generator(data.images.device).manual_seed(0)
    eta = model.sample_eta(data.images, n, generator)[..., column]
    labels = data.labels
    return {int(c): eta[labels == c].flatten() for c in labels.unique()}


def widths(samples: dict[int, Tensor]) -> dict[str, float]:
    """width90 in degrees: of each class, their mean, and of all images pooled."""
    each = {str(c): degrees(highest_density_width(part, TURN)) for c, part in samples.items()}
    pooled = degrees(highest_density_width(torch.cat(list(samples.values())), TURN))
    return {"mean": sum(each.values()) / len(each), "pooled": pooled, **each}


def expected_widths(base: dict[int, Tensor], added: float) -> dict[str, float]:
    """The spreads found without added rotation, convolved with the planted U(-added, added)."""
    generator = torch.Generator().manual_seed(1)

    def planted(part: Tensor) -> Tensor:
        unit = 2 * torch.rand(part.shape, generator=generator) - 1
        return part + math.radians(added) * unit.to(part.device)

    return widths({c: planted(part) for c, part in base.items()})


def degrees(value: Tensor) -> float:
    """Radians as a number of degrees."""
    return math.degrees(float(value))


def agreement(model: InvariantVAE, images: Tensor, most: float) -> dict[str, float]:
    """How well prototypes of turned copies of an image agree, in degrees.

    Eight copies of each image, turned within +-most degrees; their prototypes are registered to the
    first one's by the rotation, in whole degrees, that makes them most alike.
    """
    angles = torch.deg2rad(torch.linspace(-most, most, COPIES, device=images.device))
    copies = ImageAction(ROTATION, interpolation="bspline").orbit(
        ROTATION.exp(angles[:, None]), images
    )
    prototypes = model.prototype(copies.flatten(0, 1)).unflatten(0, copies.shape[:2])
    grid = torch.arange(-180, 180, device=images.device)
    errors = []
    for row in prototypes:
        versions = ImageAction(ROTATION).orbit(
            ROTATION.exp(torch.deg2rad(grid.float())[:, None]), row[:1]
        )[0]
        scores = row[1:].flatten(1) @ torch.nn.functional.normalize(versions.flatten(1)).T
        errors.append(grid[scores.argmax(1)].abs().float())
    found = torch.cat(errors)
    within = float(prototypes.var(1, correction=0).mean() / images.var(0, correction=0).mean())
    return {
        "mean": float(found.mean()),
        "median": float(found.median()),
        "share_within_10": float((found <= 10).float().mean()),
        "quantile_95": float(found.quantile(0.95)),
        "variance_ratio": within,
    }


def share_outside(samples: Tensor, reference: Tensor, bins: int = 72) -> float:
    """Share of angles where the reference has next to none: outside its 99 % of mass, in 5 degrees.

    Args:
        samples: angles of the model's p(eta | z).
        reference: angles of q(eta | x) over the data.
        bins: of the circle.
    """

    def histogram(angles: Tensor) -> Tensor:
        place = torch.remainder(angles / TURN * bins, bins).long().clamp(0, bins - 1)
        counts = torch.bincount(place.flatten(), minlength=bins).float()
        return counts / counts.sum()

    p, q = histogram(samples), histogram(reference)
    order = q.argsort(descending=True)
    kept = q[order].cumsum(0) - q[order] < 0.99
    inside = torch.zeros(bins, dtype=torch.bool, device=q.device)
    inside[order[kept]] = True
    return float(p[~inside].sum())
