"""Affine jitter and initial blur of the images in the first stage."""

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.training import Step

BLUR_RADIUS = 2


def jittered(images: Tensor, step: Step, act: ImageAction, config: SymmetryConfig) -> Tensor:
    """Return images each changed by a random linear map near the identity, into a nearby orbit."""
    if not config.objective.affine_jitter:
        return images
    with torch.no_grad():
        change = config.objective.affine_jitter * (2 * step.rand(len(images), 2, 2) - 1)
        element = torch.eye(3, device=images.device) + F.pad(change, (0, 1, 0, 1))
        plane = ImageAction(Affine2(), interpolation=act.interpolation, fill=act.fill)
        return plane(element.to(images.dtype), images)


def blurred(images: Tensor, step: Step, config: SymmetryConfig) -> Tensor:
    """Return images blurred by a 5 x 5 Gaussian whose width falls to 0 early in training."""
    if not config.objective.blur:
        return images
    sigma = config.objective.blur * (1 - step.progress / config.objective.blur_share).clamp_min(0)
    offsets = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, device=images.device)
    taps = torch.exp(-0.5 * (offsets / sigma.clamp_min(0.05)) ** 2)
    taps = (taps / taps.sum()).to(images.dtype)
    flat = images.flatten(0, 1)[:, None]
    flat = F.pad(flat, (BLUR_RADIUS,) * 4, mode="replicate")
    flat = F.conv2d(F.conv2d(flat, taps.reshape(1, 1, -1, 1)), taps.reshape(1, 1, 1, -1))
    return flat.reshape(images.shape)
