"""What turning does to the images themselves, without any model: two tables of numbers."""

import math
from typing import Any

import sets
import shapes
import torch
from torch import Tensor

from symmetries.actions.images import ImageAction

COMPONENTS = (20, 50, 100)
ANGLES = 72
LEAST = 0.01  # smallest standard deviation of a pixel, as that of the VAEs


def roughness_rows(folder: str | None, source: str, count: int) -> list[dict[str, Any]]:
    """How smooth images are: as they are, turned once, and turned twice."""
    planted = {f"turned twice, ±{added:g}": (added, source) for added in (0.0, 45.0, 180.0)}
    if source == "mnist":
        planted["as they are"] = (0.0, "mnist-once")
        planted["turned once, ±180"] = (180.0, "mnist-once")
        for added in (0.0, 45.0, 180.0):
            planted[f"turned twice and shifted, ±{added:g}"] = (added, "mnist-alike")
    return [
        {"images": name, "roughness": sets.roughness(sets.load("train", *where, count).images)}
        for name, where in ((n, (a, folder, s)) for n, (a, s) in sorted(planted.items()))
    ]


def residual_rows(folder: str | None, source: str, count: int) -> list[dict[str, Any]]:
    """What one noise for each pixel costs, if images turn: nats of what components leave.

    The squares that k principal components leave of upright digits are described by a Gaussian of
    one variance for each pixel; and so are the same squares, turned to all angles.
    """
    images = sets.load("train", 0.0, folder, source, count).images
    flat = images.flatten(1) - images.flatten(1).mean(0)
    basis = torch.linalg.eigh(flat.T @ flat)[1].flip(1)
    angles = torch.arange(ANGLES) * (2 * math.pi / ANGLES)
    act = ImageAction(sets.ROTATION, padding="border")
    rows = []
    for k in COMPONENTS:
        left = (flat - flat @ basis[:, :k] @ basis[:, :k].T).square().mean(0)
        squares = left.view(1, *images.shape[1:])
        turned = act.orbit(sets.ROTATION.exp(angles[:, None]), squares)[0].mean(0).flatten()
        rows.append({"components": k, "upright": nats(left), "turned": nats(turned)})
    return rows


def known_rows(folder: str | None, count: int) -> list[dict[str, Any]]:
    """How likely prototypes would be if their angles were known: what smoothing alone changes.

    Images are turned back by the angles that were planted, and all by 40 degrees, so that upright
    ones are resampled as often as others.
    """
    rows = []
    for source in ("mnist", "mnist-alike"):
        for added in (0.0, 45.0, 180.0):
            prototypes = turned_back(added, folder, source, count)
            row: dict[str, Any] = {"known": added, "source": source}
            row["roughness"] = sets.roughness(prototypes)
            flat = prototypes.flatten(1) - prototypes.flatten(1).mean(0)
            basis = torch.linalg.eigh(flat.T @ flat)[1].flip(1)
            for k in COMPONENTS:
                left = (flat - flat @ basis[:, :k] @ basis[:, :k].T).square().mean(0)
                row[f"nats_{k}"] = nats(left)
            rows.append(row)
    return rows


def turned_back(added: float, folder: str | None, source: str, count: int) -> Tensor:
    """Images moved back by what was planted, and all by 40 degrees, in one resampling."""
    data = sets.load("train", added, folder, source, count)
    generator = torch.Generator().manual_seed(0)  # as the set has it
    angles = torch.deg2rad(shapes.uniform(added)(data.labels, generator))
    back = sets.ROTATION.exp(math.radians(40) - angles[:, None])
    shifts = torch.zeros(len(data), 2)
    if source == "mnist-alike":
        torch.rand(len(data), generator=generator)  # the first turns
        shifts = -(back[:, :2, :2] @ sets.between_pixels(data.images, generator)[..., None])[..., 0]
    return sets.turned(data.images, math.radians(40) - angles, shifts)


def shape_rows(folder: str | None, count: int) -> list[dict[str, Any]]:
    """How likely the same digits are, if all are zoomed, stretched or turned alike."""
    images = sets.load("train", 0.0, folder, "mnist-alike", count).images
    rows = []
    for zoom, stretch in ((0.0, 0.0), (0.05, 0.0), (-0.05, 0.0), (0.0, 0.2), (0.0, -0.2)):
        scales = torch.tensor([math.exp(zoom + stretch), math.exp(zoom - stretch), 1.0])
        turn = sets.ROTATION.exp(torch.tensor([math.radians(40)]))
        act = ImageAction(sets.ROTATION, interpolation="bspline")
        moved = act((torch.diag(scales) @ turn).expand(len(images), 3, 3), images).clamp(0, 1)
        flat = moved.flatten(1) - moved.flatten(1).mean(0)
        basis = torch.linalg.eigh(flat.T @ flat)[1].flip(1)[:, : COMPONENTS[-1]]
        left = (flat - flat @ basis @ basis.T).square().mean(0)
        rows.append({"zoom": zoom, "stretch": stretch, "nats": nats(left)})
    return rows


def nats(variance: Tensor) -> float:
    """The expected log-density of images with these variances (pixels,) of residuals."""
    fitted = variance.clamp_min(LEAST**2)
    terms = torch.log(2 * math.pi * fitted) + variance / fitted
    return float(-0.5 * terms.sum())
