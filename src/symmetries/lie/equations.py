"""What certificates ask of the equations of symmetries, of vectors as of pictures."""

from typing import Protocol

from torch import Tensor

from symmetries.lie.polarisation import Moments, Spectrum


class Family(Protocol):
    """Fields that are searched."""

    @property
    def size(self) -> int:
        """Number of them."""


class Equations(Protocol):
    """The linear equations of symmetries: of vectors (:class:`Problem`) or of pictures."""

    @property
    def family(self) -> Family:
        """Fields that are searched."""

    @property
    def outputs(self) -> int:
        """Equations for each point."""

    @property
    def unknowns(self) -> int:
        """Number of unknown numbers."""

    def empty(self) -> Moments:
        """The moments of no points."""

    def measure(self, points: Tensor) -> Moments:
        """The moments of points."""

    def spectrum(self, moments: Moments) -> Spectrum:
        """Defects by these moments."""

    def denominator(self, moments: Moments) -> Tensor:
        """A factor of the denominator's quadratic form."""

    def violations(self, points: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Squares of violation and of its denominator at each point."""


class Searched(Protocol):
    """Equations and the points that they are for."""

    @property
    def problem(self) -> Equations:
        """The equations."""

    @property
    def coordinates(self) -> Tensor:
        """The points (n, ...)."""
