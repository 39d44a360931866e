"""Random transformations with their inverses, and what leads from a prototype to its image."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group
from symmetries.groups.se2 import SE2
from symmetries.kernels.available import usable
from symmetries.learners.symmetry_model.networks import LieInference, unbind
from symmetries.nn.features import ImageFeatures, is_rounded


def random_moves(group: Group[Any], bounds: Tensor, unit: Tensor) -> tuple[Any, Any]:
    """T_r and T_r^-1 with r = b (2 u - 1); the identity goes first.

    Args:
        group: the transformations.
        bounds: b, (dim,).
        unit: u (B, K, dim), uniform in [0, 1).

    Returns:
        Two elements with leading shape (B, K + 1).

    Example:
        >>> group = Affine2("rotation", "zoom")
        >>> moves, back = random_moves(group, torch.ones(2), torch.rand(4, 3, 2))
        >>> bool(torch.allclose(moves @ back, torch.eye(3).expand(4, 4, 3, 3), atol=1e-5))
        True
    """
    if isinstance(group, Affine2) and usable(unit, bounds):
        from symmetries.kernels import moves

        return moves.random_moves(unit, bounds, group.columns)
    eta = F.pad(torch.lerp(-bounds, bounds, unit), (0, 0, 1, 0))
    there, back = unbind(group.exp(torch.stack((eta, -eta))))
    return there, back


def moved_units(features: ImageFeatures, act: ImageAction, undone: Any, images: Tensor) -> Tensor:  # noqa: ANN401
    """Features, as they were computed, of images moved by the inverses of elements.

    Args:
        features: of images.
        act: the transformations.
        undone: elements with leading shape (B, S), without a gradient.
        images: (B, C, H, W).

    Returns:
        (B S, features).
    """
    plain = act.padding == "constant" and act.fill == 0 and not act.blur
    takes = usable(images, features.mean) and is_rounded(images) and images.is_contiguous()
    if plain and takes and isinstance(act.group, Affine2 | SE2) and undone.dtype == images.dtype:
        from symmetries.kernels.warp import maps_of
        from symmetries.kernels.warp_cuda import standardised

        maps, mode = maps_of(undone[..., :2, :]), act.interpolation
        x = standardised(images, maps, mode, features.mean, features.scale)
        if x is not None:
            return features.hidden(x.flatten(0, 1), rounded=True)
    return features.units(act.orbit(undone, images, inverse=True).flatten(0, 1))


def from_prototypes(inference: LieInference, undone: Any, found: Tensor) -> Any:  # noqa: ANN401
    """T_r^-1 T_f(T_r x), which leads from the prototype that T_r x has to x itself.

    Args:
        inference: f.
        undone: T_r^-1, with leading shape (B, K).
        found: what f finds for T_r x, as :meth:`LieInference.positions`, (B, K, dim).

    Returns:
        Elements with leading shape (B, K).
    """
    group = inference.group
    if isinstance(group, Affine2) and not inference.positional and usable(found, undone):
        from symmetries.kernels import moves

        return moves.composed(undone, found, group.columns)
    return group.compose(undone, inference.element_at(found))
