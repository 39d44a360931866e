"""What turning does to the images themselves, without any model: two tables of numbers."""

import math
from typing import Any

import sets
import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import mnist

COMPONENTS = (20, 50, 100)
ANGLES = 72
LEAST = 0.01  # smallest standard deviation of a pixel, as that of the VAEs


def roughness_rows(folder: str | None, count: int = 3000) -> list[dict[str, Any]]:
    """How smooth digits are: as they are, turned once, and turned twice."""
    plain = mnist("train", folder).images[:count]
    images = {"as they are": plain}
    images["turned once, ±180"] = sets.load("train", 180.0, folder, "mnist-once", count).images
    for added in (0.0, 45.0, 180.0):
        images[f"turned twice, ±{added:g}"] = sets.load(
            "train", added, folder, "mnist", count
        ).images
    return [{"images": name, "roughness": sets.roughness(part)} for name, part in images.items()]


def residual_rows(folder: str | None, count: int = 8000) -> list[dict[str, Any]]:
    """What one noise for each pixel costs, if images turn: nats of what components leave.

    The squares that k principal components leave of upright digits are described by a Gaussian of
    one variance for each pixel; and so are the same squares, turned to all angles.
    """
    flat = sets.load("train", 0.0, folder, "mnist", count).images.flatten(1)
    flat = flat - flat.mean(0)
    basis = torch.linalg.eigh(flat.T @ flat)[1].flip(1)
    rows = []
    for k in COMPONENTS:
        left = (flat - flat @ basis[:, :k] @ basis[:, :k].T).square().mean(0)
        square = left.view(1, 1, 28, 28)
        angles = torch.arange(ANGLES) * (2 * math.pi / ANGLES)
        act = ImageAction(sets.ROTATION, padding="border")
        turned = act.orbit(sets.ROTATION.exp(angles[:, None]), square)[0].mean(0)
        rows.append({"components": k, "upright": nats(left), "turned": nats(turned.flatten())})
    return rows


def nats(variance: Tensor) -> float:
    """The expected log-density of images with these variances (pixels,) of residuals."""
    fitted = variance.clamp_min(LEAST**2)
    terms = torch.log(2 * math.pi * fitted) + variance / fitted
    return float(-0.5 * terms.sum())
