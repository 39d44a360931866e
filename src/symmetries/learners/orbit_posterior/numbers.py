"""Where views and dropout get their random numbers from."""

from typing import Protocol

from torch import Tensor


class Numbers(Protocol):
    """Source of random numbers, one row for each picture; a training step is one."""

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1)."""

    def randn(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
