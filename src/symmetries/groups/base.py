"""Abstract base class of groups, and the description of one group parameter."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from symmetries._validation.checks import invalid

Element = TypeVar("Element")
Device = torch.device | str | None
Dtype = torch.dtype | None
Generator = torch.Generator | None


@dataclass(frozen=True)
class Parameter:
    """One parameter of a group: its name, unit and natural bound, and whether it is an angle.

    Args:
        name: name of the parameter, used throughout the library.
        unit: "rad", "half-image", "log-factor", "factor" or "step".
        bound: natural bound b; values are expected in [-b, b].
        angle: whether -bound and bound are the same transformation.

    Example:
        >>> Parameter("rotation", "rad", math.pi, angle=True).display(math.pi / 2, side=28)
        (90.0, 'degrees')
    """

    name: str
    unit: str
    bound: float
    angle: bool = False

    def display(self, value: float, side: int) -> tuple[float, str]:
        """Convert a value to a unit for display: degrees, pixels or a factor.

        Args:
            value: value in the parameter's own unit.
            side: the longer side of the images, in pixels.
        """
        if self.unit == "rad":
            return math.degrees(value), "degrees"
        if self.unit == "half-image":
            return value * side / 2, "pixels"
        if self.unit == "log-factor":
            return math.exp(value), "factor"
        return value, self.unit


class Group(ABC, Generic[Element]):
    """Abstract base class of a family of transformations with parameters eta and their algebra.

    If the family is ``closed``, ``compose`` is associative, ``identity`` is neutral,
    ``compose(a, inverse(a))`` is the identity, and ``log(exp(eta))`` is eta near zero.
    ``compose(a, b)`` means "b first, then a".
    """

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the group, in order."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the composition of two members of the family is always a member."""

    @abstractmethod
    def exp(self, eta: Tensor) -> Element:
        """Return the element with parameters eta (..., dim)."""

    @abstractmethod
    def log(self, element: Element) -> Tensor:
        """Return the parameters of an element, the inverse of ``exp`` near the identity."""

    @abstractmethod
    def compose(self, *elements: Element) -> Element:
        """Return the product of the elements; the rightmost element acts first."""

    @abstractmethod
    def inverse(self, element: Element) -> Element:
        """Return the inverse element."""

    @abstractmethod
    def identity(self, *batch: int, dtype: Dtype = None, device: Device = None) -> Element:
        """Return the identity, repeated over leading dimensions ``batch``."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(p.name for p in self.parameters)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        return tuple(p.unit for p in self.parameters)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Natural bounds b of the parameters; values are expected in [-b, b]."""
        return tuple(p.bound for p in self.parameters)

    @property
    def angles(self) -> tuple[bool, ...]:
        """For each parameter, whether it is an angle."""
        return tuple(p.angle for p in self.parameters)

    @property
    def finite(self) -> bool:
        """Whether there are finitely many elements, numbered from 0."""
        return False

    @property
    def order(self) -> int:
        """Number of elements of a finite group."""
        raise invalid("group", "a finite group", repr(self), "check group.finite first")

    def elements(self, device: torch.device | str | None = None) -> Tensor:
        """Return all elements (order,) of a finite group, the identity first."""
        raise invalid("group", "a finite group", repr(self), "check group.finite first")

    @property
    def planar(self) -> bool:
        """Whether elements are affine maps of the plane, as matrices (..., 3, 3)."""
        return False

    @property
    def coordinates(self) -> int | None:
        """Number of coordinates of the points that elements move; None if any number will do."""
        return 2 if self.planar else None

    def haar(self, *batch: int, generator: Generator = None, dtype: Dtype = None) -> Element | None:
        """Draw elements from the Haar measure of a compact group; return None for other groups."""
        return None

    @property
    def positional(self) -> bool:
        """Whether shift_x and shift_y come first, and :meth:`generator_shifts` knows them.

        Such a family can put a picture anywhere, and a network may predict where its centre ends
        instead of the generators' coordinates.
        """
        return False

    @property
    def zoom_columns(self) -> tuple[int, ...]:
        """Columns of eta that a zoom z adds to, exp(z I + A) = e^z exp(A); empty without scales."""
        names, both = self.names, ("scale_x", "scale_y")
        if "zoom" in names:
            return (names.index("zoom"),)
        return tuple(names.index(n) for n in both) if set(both) <= set(names) else ()

    @property
    def changes_values(self) -> bool:
        """Whether elements change values, such as colours, and not only where they are."""
        return False

    @property
    def negation_inverts(self) -> bool:
        """Whether exp(-eta) is the inverse of exp(eta), for every eta."""
        return False

    def exp_pair(self, eta: Tensor) -> tuple[Element, Element]:
        """Return the element with parameters eta (..., dim), and its inverse."""
        if not self.negation_inverts:
            element = self.exp(eta)
            return element, self.inverse(element)
        both = unbind_element(self.exp(torch.stack((eta, -eta))))
        return both[0], both[1]

    def generator_shifts(self, eta: Tensor) -> Tensor:
        """Parameters (..., dim) from eta with where the centre ends in the place of the shifts.

        For groups that are ``positional``; others have eta as it is.
        """
        return eta

    def named_log(self, element: Element) -> Tensor:
        """Return the logarithm (..., dim) in the group's parameters, also if it is not closed."""
        return torch.as_tensor(self.log(element))

    def distance_to_identity(self, element: Element) -> Tensor:
        """Distance (...) of elements from the identity: smooth, and without jumps for angles.

        The sum of (1 - cos) / 2 for angles and of squares for other parameters, unless a group
        has a better one.
        """
        parts = zip(self.named_log(element).unbind(-1), self.angles, strict=True)
        terms = [(1 - torch.cos(part)) / 2 if angle else part.square() for part, angle in parts]
        return torch.stack(terms).sum(0)

    @property
    def factors(self) -> "tuple[Group[Any], ...]":
        """The groups that this group is a product of; the group alone if it is no product."""
        return (self,)

    def parts(self, element: Element) -> tuple[Any, ...]:
        """Return the part of an element that belongs to each of the ``factors``."""
        return (element,)

    def whole(self, parts: tuple[Any, ...]) -> Element:
        """Return the element with these parts."""
        return parts[0]


def map_element(function: Callable[[Tensor], Tensor], element: Any) -> Any:  # noqa: ANN401
    """Apply a function of tensors to an element; in a product, to the element of each factor."""
    if isinstance(element, tuple):
        return tuple(map_element(function, part) for part in element)
    return function(element)


def unbind_element(elements: Any) -> list[Any]:  # noqa: ANN401 - elements differ by group
    """Yield the elements along the first axis, one by one."""
    if isinstance(elements, tuple):
        return list(zip(*(unbind_element(part) for part in elements), strict=True))
    return list(elements.unbind(0))
