"""New versions of pictures and the middle of their poses, by all fits of an orbit posterior."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._validation.checks import check_whole

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior


def new_versions(
    model: "OrbitPosterior",
    images: Tensor,
    copies: int = 1,
    generator: torch.Generator | None = None,
    folds: Tensor | None = None,
) -> Tensor:
    """New versions (N, copies, C, H, W) of pictures, by the fits of all folds in turn.

    A mixture over the fits: version c of picture i is drawn by fit (i + c) modulo their number.

    Args:
        model: fitted.
        images: (N, C, H, W).
        copies: of each.
        generator: source of randomness, on the CPU.
        folds: (N,) the fit to ask for each picture, such as the one that has not seen it.
    """
    check_whole(copies, "copies")
    every = images.repeat_interleave(copies, 0)
    if folds is None:
        place = torch.arange(len(images))[:, None] + torch.arange(copies)
        folds = place % model.fold_count
    else:
        folds = folds.cpu()[:, None].expand(-1, copies)
    rows = folds.flatten()
    found = torch.empty_like(every)
    for fold in range(model.fold_count):
        chosen = (rows == fold).nonzero()[:, 0].to(images.device)
        if len(chosen):
            found[chosen] = model.sample(every[chosen], 1, generator, fold)[:, 0]
    versions: Tensor = found.unflatten(0, (len(images), copies))
    return versions
