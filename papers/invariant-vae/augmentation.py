"""The usual augmentation, the same for all data: the control of AugVAE."""

from collections.abc import Callable

import torch
from torch import Tensor

from symmetries._utils.per_example_random import per_example_random
from symmetries.actions.images import ImageAction


def fixed_augmentation(
    act: ImageAction, half_width: tuple[float, ...]
) -> Callable[[Tensor, torch.Generator], Tensor]:
    """The usual augmentation: parameters uniform within +-half_width, the same for all data.

    Args:
        act: how the group moves images.
        half_width: one for each parameter of its group, in the group's own units.
    """
    limits: dict[torch.device, Tensor] = {}  # made once: a copy to the device would make it wait

    def augment(batch: Tensor, generator: torch.Generator) -> Tensor:
        if batch.device not in limits:
            limits[batch.device] = torch.tensor(half_width, device=batch.device)
        shape = (len(batch), act.group.dim)
        unit = 2 * per_example_random(torch.rand, shape, 0, generator, device=batch.device) - 1
        return act(act.group.exp(unit * limits[batch.device]), batch)

    return augment
