"""New versions of pictures, moved by random elements of a group of learned generators."""

import torch
from torch import Tensor, nn

from symmetries.actions import ImageAction
from symmetries.data.background import background
from symmetries.groups.matrix import MatrixGroup

REACH = 0.25  # of parameters that are no angles: half-images, or logarithms of factors


class LearnedMotions(nn.Module):
    """Pictures moved by exp(sum eta_i G_i): angles of any size, other parameters up to 0.25.

    Generators are certified near the identity. Rotations return to it, so that any angle is as
    good; other motions are kept small.

    Args:
        group: of the plane, as :func:`symmetries.analysis.lie_generators.load_group` reads it.
    """

    def __init__(self, group: MatrixGroup) -> None:
        super().__init__()
        self.group = group
        self.generators = nn.Parameter(group.generators.float(), requires_grad=False)

    def sample(
        self, x: Tensor, n: int = 1, generator: torch.Generator | None = None, refine: int = 0
    ) -> Tensor:
        """New versions (N, n, C, H, W) of pictures; ``refine`` is for models with prototypes.

        Args:
            x: (N, C, H, W).
            n: versions of each.
            generator: of random numbers.
            refine: not used.
        """
        parameters = self.group.parameters
        limits = [p.bound if p.angle else REACH for p in parameters]
        draw = torch.rand(len(x) * n, len(parameters), generator=generator, device=x.device)
        eta = (2 * draw - 1) * torch.tensor(limits, device=x.device)
        action = ImageAction(self.group, fill=background(x))
        moved = action(self.group.exp(eta), x.repeat_interleave(n, 0))
        return moved.reshape(len(x), n, *x.shape[1:])
