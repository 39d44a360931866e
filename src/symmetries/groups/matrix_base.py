"""Abstract base classes of groups whose elements are matrices: of any size, and of the plane."""

from typing import ClassVar

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats
from symmetries.groups.base import Device, Dtype, Group
from symmetries.groups.special import check_matrices, distance_of_matrices
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.affine_product import affine_product


class MatrixElements(Group[Tensor]):
    """Abstract base class of groups whose elements are square matrices.

    A subclass sets ``side``, the number of rows, and has ``parameters``, ``exp``, ``log`` and
    ``inverse``.
    """

    side: ClassVar[int]

    negation_inverts = True  # elements are exponentials of sums of generators

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the matrix product; the rightmost element acts first."""
        self.check(*elements)
        product = elements[-1]
        for element in elements[-2::-1]:
            product = self.product(element, product)
        return product

    def product(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of two elements whose shapes are right."""
        return first @ second

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return unit matrices of shape ``(*batch, side, side)``."""
        return torch.eye(self.side, dtype=dtype, device=device).expand(*batch, self.side, self.side)

    def distance_to_identity(self, element: Tensor) -> Tensor:
        """|T - I|^2 / 8, (...): (1 - cos) / 2 for a rotation, so 1 for a half turn."""
        self.check(element)
        return distance_of_matrices(element)

    def check(self, *elements: Tensor) -> None:
        """Raise an error unless all elements are floating-point matrices of this side."""
        for element in elements:
            check_floats(element, "element", "...", self.side, self.side)


class ClosedMatrixGroup(MatrixElements):
    """Abstract base class of closed groups of matrices that have no options."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    closed = True


class PlaneGroup(MatrixElements):
    """Abstract base class of affine maps of the plane, as matrices (..., 3, 3)."""

    side = 3

    planar = True

    def product(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the product of two elements whose shapes are right."""
        return affine_product(first, second)

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse matrices, in closed form."""
        check_matrices(element)
        return affine_inverse(element)

    def check(self, *elements: Tensor) -> None:
        """Raise an error unless all elements are floating-point matrices (..., 3, 3)."""
        check_matrices(*elements)
