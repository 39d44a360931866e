"""Finite groups: rotations by steps, cyclic shifts, flips, and the dihedral groups.

Elements are indices 0, ..., order - 1 in int64 tensors of any shape. All of the algebra is integer
arithmetic, so it is exact, needs no table on the device, and never synchronises with it.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_whole
from symmetries._validation.placement import check_broadcast
from symmetries.groups.base import Device, Dtype, Group, Parameter
from symmetries.groups.special import check_eta, check_indices, matrix_from_rows

AXES = ("x", "y")
LARGEST = 10_000  # steps of a circle; all elements are listed


class FiniteGroup(Group[Tensor]):
    """Abstract base class of a group with finitely many elements; element 0 is the identity.

    The parameters eta are integer numbers of steps (floats are rounded); ``log`` returns int64.
    """

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of elements."""

    @abstractmethod
    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the index of the product "b first, then a"."""

    closed = True

    finite = True

    @property
    def table(self) -> Tensor:
        """Cayley table (order, order): entry (a, b) is the index of "b first, then a".

        Example:
            >>> Cyclic(3).table.tolist()
            [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
        """
        indices = self.elements()
        return self.product(indices[:, None], indices[None, :])

    def elements(self, device: torch.device | str | None = None) -> Tensor:
        """Return all elements (order,), the identity first."""
        return torch.arange(self.order, device=device)

    @property
    def coordinates(self) -> int | None:
        """Number of coordinates: 2 for groups that have matrices, which act on the plane."""
        return 2 if hasattr(self, "matrix") else None

    def compose(self, *elements: Tensor) -> Tensor:
        """Return the product of the elements; the rightmost element acts first."""
        check_indices(*elements)
        product = elements[0]
        for element in elements[1:]:
            product = self.product(product, element)
        return product

    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Tensor:
        """Return zeros of shape ``batch``, always int64 whatever ``dtype`` is."""
        return torch.zeros(batch, dtype=torch.int64, device=device)


class _Modular(FiniteGroup):
    """Integers modulo ``order``: the cyclic group of transformations with that period."""

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the sum of the steps modulo the order."""
        check_indices(a, name="a")
        check_indices(b, name="b")
        check_broadcast(a=a, b=b)
        return (a + b) % self.order

    def inverse(self, element: Tensor) -> Tensor:
        """Return the same number of steps in the opposite direction."""
        check_indices(element)
        return -element % self.order

    def exp(self, eta: Tensor) -> Tensor:
        """Return indices (...) of eta (..., 1), a number of steps."""
        check_eta(eta, 1)
        return _whole(eta[..., 0]) % self.order

    def log(self, element: Tensor) -> Tensor:
        """Return steps (..., 1) in [-order / 2, order / 2)."""
        check_indices(element)
        return principal_steps(element, self.order)[..., None]


@dataclass(frozen=True)
class Cyclic(_Modular):
    """Cyclic group C_n of rotations of the plane by multiples of 2 pi / n, counter-clockwise.

    Args:
        n: number of rotations.

    Example:
        >>> group = Cyclic(4)
        >>> group.matrix(torch.tensor(1)).tolist()
        [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        >>> group.log(torch.tensor(3)).tolist()  # three quarters left, one quarter right
        [-1]
    """

    n: int

    def __post_init__(self) -> None:
        check_whole(self.n, "n", most=LARGEST)

    @property
    def order(self) -> int:
        """Number of rotations."""
        return self.n

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """One parameter: the rotation, in steps of 2 pi / n."""
        return (Parameter("rotation", "step", self.n / 2, angle=True),)

    def angle(self, element: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the angle of rotation in [-pi, pi)."""
        check_indices(element)
        return _angle(principal_steps(element, self.n), self.n, dtype)

    def matrix(self, element: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return matrices (..., 3, 3), exact for multiples of a quarter turn."""
        check_indices(element)
        return _rotation_matrix(element, self.n, dtype)


@dataclass(frozen=True)
class CyclicShift(_Modular):
    """Periodic shifts along one axis by multiples of 1 / fold of the image.

    As everywhere in the library, a positive shift moves right along "x" and up along "y".

    Args:
        axis: "x" or "y".
        fold: number of shifts (three along x in Moskalev et al. 2023).

    Example:
        >>> CyclicShift("x", 3).compose(torch.tensor(2), torch.tensor(2)).item()
        1
    """

    axis: str
    fold: int

    def __post_init__(self) -> None:
        check_choice(self.axis, AXES, "axis")
        check_whole(self.fold, "fold", most=LARGEST)

    @property
    def order(self) -> int:
        """Number of shifts."""
        return self.fold

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """One parameter: the shift, in steps of 1 / fold of the image."""
        return (Parameter(f"shift_{self.axis}", "step", self.fold / 2, angle=True),)


@dataclass(frozen=True)
class Flip(_Modular):
    """Group of two elements: the identity and the reflection of one coordinate.

    Args:
        axis: the coordinate that changes sign: "x" swaps left and right, "y" up and down.

    Example:
        >>> Flip("x").matrix(torch.tensor(1)).tolist()
        [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    axis: str

    def __post_init__(self) -> None:
        check_choice(self.axis, AXES, "axis")

    order = 2

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """One parameter: whether to flip, 0 or 1."""
        return (Parameter(f"flip_{self.axis}", "step", 1.0, angle=True),)

    def log(self, element: Tensor) -> Tensor:
        """Return 0 or 1, of shape (..., 1)."""
        check_indices(element)
        return (element % 2)[..., None]

    def matrix(self, element: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return exact matrices (..., 3, 3)."""
        check_indices(element)
        sign = 1 - 2 * (element % 2).to(dtype or torch.get_default_dtype())
        one = torch.ones_like(sign)
        diagonal = (sign, one, one) if self.axis == "x" else (one, sign, one)
        return torch.diag_embed(torch.stack(diagonal, -1))


@dataclass(frozen=True)
class Dihedral(FiniteGroup):
    """Dihedral group D_n: the n rotations of C_n, and each of them after a left-right flip.

    Index r + n f is the flip (if f = 1) followed by r rotations by 2 pi / n. A flip reverses the
    direction of rotations, so (r, f)(r', f') = (r + (-1)^f r', f + f').

    Args:
        n: number of rotations; the group has 2 n elements.

    Example:
        >>> group = Dihedral(4)
        >>> group.order
        8
        >>> group.log(group.exp(torch.tensor([1, 1]))).tolist()
        [1, 1]
    """

    n: int

    def __post_init__(self) -> None:
        check_whole(self.n, "n", most=LARGEST)

    @property
    def order(self) -> int:
        """Number of rotations and flips, 2 n."""
        return 2 * self.n

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Two parameters: the rotation in steps of 2 pi / n, and the flip that precedes it."""
        rotation = Parameter("rotation", "step", self.n / 2, angle=True)
        return (rotation, Parameter("flip_x", "step", 1.0, angle=True))

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the index of the product "b first, then a"."""
        (ra, fa), (rb, fb) = self._parts(a), self._parts(b)
        return self._index(ra + (1 - 2 * fa) * rb, fa + fb)

    def inverse(self, element: Tensor) -> Tensor:
        """Return the inverse: a reflection is its own inverse, a rotation changes its sign."""
        r, f = self._parts(element)
        return self._index((2 * f - 1) * r, f)

    def exp(self, eta: Tensor) -> Tensor:
        """Return indices (...) of eta (..., 2): rotation steps and flips."""
        check_eta(eta, 2)
        return self._index(_whole(eta[..., 0]), _whole(eta[..., 1]))

    def log(self, element: Tensor) -> Tensor:
        """Return (..., 2): rotation steps in [-n / 2, n / 2), and 0 or 1 for the flip."""
        r, f = self._parts(element)
        return torch.stack((principal_steps(r, self.n), f), -1)

    def matrix(self, element: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return matrices (..., 3, 3), exact for multiples of a quarter turn."""
        r, f = self._parts(element)
        rotation = _rotation_matrix(r, self.n, dtype)
        return rotation * Flip("x").matrix(f, dtype).diagonal(dim1=-2, dim2=-1)[..., None, :] + 0.0

    def _parts(self, element: Tensor) -> tuple[Tensor, Tensor]:
        check_indices(element)
        return element % self.n, element // self.n % 2

    def _index(self, rotation: Tensor, flip: Tensor) -> Tensor:
        return rotation % self.n + self.n * (flip % 2)


def principal_steps(steps: Tensor, n: int) -> Tensor:
    """Return the same number of steps modulo n, in [-n / 2, n / 2).

    Example:
        >>> principal_steps(torch.arange(4), 4).tolist()
        [0, 1, -2, -1]
    """
    return (steps + n // 2) % n - n // 2


def _angle(steps: Tensor, n: int, dtype: torch.dtype | None) -> Tensor:
    return steps.to(dtype or torch.get_default_dtype()) * (2 * math.pi / n)


def _rotation_matrix(index: Tensor, n: int, dtype: torch.dtype | None) -> Tensor:
    # Quarter turns only swap and negate exact numbers; the remaining angle is in [0, pi / 2).
    quarter, rest = 4 * (index % n) // n, 4 * (index % n) % n
    angle = rest.to(dtype or torch.get_default_dtype()) * (math.pi / (2 * n))
    cos, sin = torch.cos(angle), torch.sin(angle)
    odd, sign = quarter % 2 == 1, 1 - 2 * (quarter // 2)
    cos, sin = sign * torch.where(odd, -sin, cos), sign * torch.where(odd, cos, sin)
    zero = torch.zeros_like(cos)
    return matrix_from_rows((cos, -sin, zero), (sin, cos, zero)) + 0.0  # turns -0.0 into 0.0


def _whole(steps: Tensor) -> Tensor:
    return steps.round().long() if steps.is_floating_point() else steps.long()
