"""Action of rotations and rigid motions on volumes, resampled once."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from symmetries._validation.checks import check_floats, invalid
from symmetries.actions.base import Action
from symmetries.groups.base import Group
from symmetries.groups.names import as_group


class VolumeAction(Action):
    """Moves volumes (N, C, D, H, W): x along W, y up against H, z along D.

    Half of the longest side is 1, as for images. Voxels are resampled once, with the background
    ``fill`` outside.

    Args:
        group: a group of space: ``SO3``, ``O3``, ``SE3`` or ``E3``, or its name.
        fill: value of the background.
        interpolation: "bilinear" (in three directions) or "nearest".

    Example:
        >>> from symmetries.groups import SO3
        >>> act, x = VolumeAction("so3"), torch.rand(1, 1, 4, 4, 4)
        >>> quarter = SO3().exp(torch.tensor([0.0, 0.0, torch.pi / 2]))
        >>> torch.allclose(act(quarter, x), x.rot90(1, (3, 4)), atol=1e-5)  # counter-clockwise
        True
    """

    def __init__(
        self,
        group: str | Group[Any],
        *,
        fill: float = 0.0,
        interpolation: Literal["bilinear", "nearest"] = "bilinear",
    ) -> None:
        self.group: Group[Any] = as_group(group)
        if self.group.coordinates != 3:
            got, remedy = repr(self.group), "use SO3, O3, SE3 or E3"
            raise invalid("group", "a group of space", got, remedy)
        self.fill = fill
        self.interpolation = interpolation

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the volumes moved by one shared element, or by one per volume.

        Args:
            element: matrices (3, 3) or (4, 4), one or one for each of N.
            data: (N, C, D, H, W).
        """
        check_floats(data, "volumes", "N", "C", "D", "H", "W")
        check_floats(element, "element", "...", "R", "R")
        n = len(data)
        if element.shape[:-2] not in ((), (n,)):
            got = f"shape {tuple(element.shape)}"
            raise invalid("element", f"one matrix, or {n}", got, "give one for each volume")
        inverse = self.group.inverse(element).to(data)
        linear = inverse[..., :3, :3].expand(n, 3, 3)
        shift = inverse[..., :3, 3] if inverse.shape[-1] == 4 else inverse.new_zeros(3)
        sides = torch.tensor(data.shape[:1:-1], dtype=data.dtype, device=data.device)  # W, H, D
        reach = sides / sides.max()
        # From coordinates of the sampler (y down, each side from -1 to 1) to ours, and back.
        own = reach * torch.tensor((1.0, -1.0, 1.0), dtype=data.dtype, device=data.device)
        theta = linear * own[None, None, :] / own[None, :, None]
        offset = (shift.expand(n, 3) / own)[..., None]
        grid = F.affine_grid(torch.cat((theta, offset), -1), list(data.shape), align_corners=False)
        moved = F.grid_sample(data - self.fill, grid, mode=self.interpolation, align_corners=False)
        return moved + self.fill
