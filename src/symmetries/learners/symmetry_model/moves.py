"""Random changes and transformations of images, their features, and targets of the second stage."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group, map_element
from symmetries.learners.symmetry_model.config import SymmetryConfig
from symmetries.learners.symmetry_model.networks import LieInference
from symmetries.nn.features import ImageFeatures
from symmetries.training import Step


def undone_moves(group: Group[Any], bounds: Tensor, unit: Tensor) -> Any:  # noqa: ANN401
    """Return T_r^-1 with r = b (2 u - 1), after the identity.

    Args:
        group: the transformations.
        bounds: b, (dim,).
        unit: u (B, K, dim), uniform in [0, 1).

    Returns:
        Elements with leading shape (B, K + 1).

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> undone_moves(Affine2("shift_x"), torch.ones(1), torch.tensor([[[0.75]]]))[0, :, 0, 2]
        tensor([ 0.0000, -0.5000])
    """
    return group.exp(F.pad(torch.lerp(bounds, -bounds, unit.to(bounds.dtype)), (0, 0, 1, 0)))


def moved_units(
    features: ImageFeatures,
    act: ImageAction,
    undone: Any,  # noqa: ANN401 - elements differ by group
    images: Tensor,
    noise: Tensor | None = None,
) -> Tensor:
    """Return the features (N, features) of images moved by the inverses of elements.

    Args:
        features: of images.
        act: the transformations.
        undone: elements with leading shape (N, 1), without a gradient.
        images: (N, C, H, W).
        noise: (N, C, H, W), added to what is seen, in standard deviations of pixels.
    """
    if len(act.group.factors) > 1:  # colours of the background are undone before motions
        moved = act.undo(flat(undone), images)
    else:
        moved = act.orbit(undone, images, inverse=True).flatten(0, 1)
    return features.units(moved if noise is None else torch.addcmul(moved, noise, features.scale))


def positions_of_versions(
    inference: LieInference,
    act: ImageAction,
    undone: Any,  # noqa: ANN401
    images: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the positions of images and of K versions of each, (B, K + 1, dim), and the versions.

    Args:
        inference: f.
        act: the transformations.
        undone: T_r^-1 with leading shape (B, K + 1), as :func:`undone_moves` has them.
        images: (B, C, H, W).

    Returns:
        What :meth:`LieInference.positions` gives, and T_r x (B K, C, H, W).
    """
    seen = act.orbit(undone, images, inverse=True)
    found = inference.positions(seen.flatten(0, 1)).unflatten(0, (len(images), -1))
    return found, seen[:, 1:].flatten(0, 1)


def from_prototypes(inference: LieInference, undone: Any, found: Tensor) -> Any:  # noqa: ANN401
    """Return T_r^-1 T_f(T_r x), which leads from the prototype of T_r x to x itself.

    Args:
        inference: f.
        undone: T_r^-1, with leading shape (B, K).
        found: what f finds for T_r x, as :meth:`LieInference.positions`, (B, K, dim).

    Returns:
        Elements with leading shape (B, K).
    """
    return inference.group.compose(undone, inference.element_at(found))


def flat(element: Any) -> Any:  # noqa: ANN401 - elements differ by group
    """Return the elements with leading shape (B, K) as (B K,)."""
    return map_element(lambda part: part.flatten(0, 1), element)


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
