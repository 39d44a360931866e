"""Sizes and constants of a flow: what its kernels are compiled for."""

from typing import Any, NamedTuple


class Shape(NamedTuple):
    """Sizes and constants of a flow: what the kernels are compiled for."""

    dim: int
    hidden: int
    layers: int
    samples: int  # points that share a context
    bins: int
    half: float
    share: float  # smallest width and height of a bin
    min_slope: float
    unit_slope: float  # free parameter of slope 1
    min_scale: float
    unit_scale: float
    epsilon: float  # of the norms
    dropout: float

    @property
    def rows(self) -> int:
        """Free parameters of one spline."""
        return 3 * self.bins - 1

    @property
    def size(self) -> int:
        """Free parameters of all splines of a layer, at most."""
        return self.rows * self.bent(0)

    def bent(self, layer: int) -> int:
        """How many coordinates a layer bends."""
        return (self.dim + 1 - layer % 2) // 2

    def splines(self) -> tuple[Any, ...]:
        """Constants of the splines."""
        return (self.half, self.share, self.min_slope, self.unit_slope, self.bins)
