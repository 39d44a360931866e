"""Abstract base class of groups, and the description of one group parameter."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

Element = TypeVar("Element")


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
    def identity(
        self,
        *batch: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Element:
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
