"""The usual augmentation, the same for all data: the control of AugVAE."""

from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries._utils.per_example_random import per_example_random
from symmetries._validation.checks import check_number, invalid, wrong_type
from symmetries.actions.images import ImageAction
from symmetries.learners.vae.model import Augment


def fixed_augmentation(act: ImageAction, half_width: tuple[float, ...]) -> Augment:
    """The usual augmentation: parameters uniform within +-half_width, the same for all data.

    Args:
        act: how the group moves images.
        half_width: one for each parameter of its group, in the group's own units.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> augment = fixed_augmentation(ImageAction(Affine2("rotation")), (0.26,))
        >>> augment(torch.rand(4, 1, 8, 8), torch.Generator()).shape
        torch.Size([4, 1, 8, 8])
    """
    if not isinstance(act, ImageAction):
        raise wrong_type("act", "an ImageAction", act, "try ImageAction(Affine2('rotation'))")
    if not isinstance(half_width, Sequence) or isinstance(half_width, str):
        raise wrong_type("half_width", "numbers", half_width, "one for each parameter")
    for width in half_width:
        check_number(width, "half_width", least=0)
    if len(half_width) != act.group.dim:
        expected = f"{act.group.dim} numbers for {', '.join(act.group.names)}"
        raise invalid("half_width", expected, f"{len(half_width)} numbers", "give one each")
    limits: dict[torch.device, Tensor] = {}  # made once: a copy to the device would make it wait

    def augment(batch: Tensor, generator: torch.Generator) -> Tensor:
        if batch.device not in limits:
            limits[batch.device] = torch.tensor(half_width, device=batch.device)
        shape = (len(batch), act.group.dim)
        unit = 2 * per_example_random(torch.rand, shape, 0, generator, device=batch.device) - 1
        return act(act.group.exp(unit * limits[batch.device]), batch)

    return augment
