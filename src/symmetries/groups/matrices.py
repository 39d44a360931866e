"""What groups of matrices share: products, units, and a distance to doing nothing."""

from typing import ClassVar

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Group


class MatrixGroup(Group[Tensor]):
    """Abstract base class of closed groups without options, whose elements are matrices.

    A subclass sets ``side``, the number of rows, and has ``parameters``, ``exp``, ``log`` and
    ``inverse``.
    """

    side: ClassVar[int]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def closed(self) -> bool:
        """True."""
        return True

    @property
    def negation_inverts(self) -> bool:
        """True, unless a subclass says otherwise."""
        return True

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the matrix product; the rightmost element acts first."""
        self.check(*elements)
        product = elements[-1]
        for element in elements[-2::-1]:
            product = element @ product
        return product

    def identity(
        self,
        *batch: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return unit matrices of shape ``(*batch, side, side)``."""
        return torch.eye(self.side, dtype=dtype, device=device).expand(*batch, self.side, self.side)

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """|T - I|^2 / 8, (...): (1 - cos) / 2 for a rotation, so 1 for a half turn."""
        self.check(element)
        one = torch.eye(self.side, dtype=element.dtype, device=element.device)
        distance: Tensor = (element - one).square().sum((-2, -1)) / 8
        return distance

    def check(self, *elements: Tensor) -> None:
        """Raise an error unless all elements are floating-point matrices of this side."""
        for element in elements:
            check_floats(element, "element", "...", self.side, self.side)
