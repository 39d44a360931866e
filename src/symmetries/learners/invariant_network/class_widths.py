"""Half-widths of single classes: their logits are averaged over other boxes than the rest."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ClassWidths(nn.Module):
    r"""Averages f_k(x) = mean over s of g_k(T(eps_s w_k) x), with half-widths w_k by class.

    Classes without half-widths of their own share one box, so that the network looks at one set of
    views for them, and at one for each other class.

    Args:
        outputs: number K of classes.
        own: half-widths (dim,) of the classes that have their own.

    Example:
        >>> widths = ClassWidths(3, {2: [0.5]})
        >>> widths.spread(torch.tensor([[-1.0], [1.0]]), torch.tensor([2.0])).flatten().tolist()
        [-2.0, 2.0, -0.5, 0.5]
        >>> widths.shares(4).tolist()
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.5]]
    """

    def __init__(self, outputs: int, own: Mapping[int, Tensor | Sequence[float]]) -> None:
        super().__init__()
        self.own = tuple(own)
        boxes = torch.zeros(outputs, dtype=torch.int64)
        boxes[list(self.own)] = torch.arange(1, 1 + len(self.own))
        widths = torch.stack([torch.as_tensor(width).detach().clone() for width in own.values()])
        members = F.one_hot(boxes, 1 + len(self.own)).T.to(widths)
        self.register_buffer("members", members, persistent=False)  # (1 + classes, K)
        self.register_buffer("width", widths, persistent=False)
        self.members: Tensor
        self.width: Tensor

    def pairs(self) -> list[tuple[int, list[float]]]:
        """Return classes with their half-widths, which build this again."""
        return list(zip(self.own, self.width.tolist(), strict=True))

    def spread(self, noise: Tensor, shared: Tensor) -> Tensor:
        """Return transformations (S (1 + classes), dim) of all boxes from noise (S, dim)."""
        widths = torch.cat([shared[None], self.width.to(shared)])
        return (noise * widths[:, None]).flatten(0, 1)

    def shares(self, count: int) -> Tensor:
        """Weights (S (1 + classes), K) of the transformations in the average of each output."""
        each = count // len(self.members)
        return self.members.repeat_interleave(each, 0) / each
