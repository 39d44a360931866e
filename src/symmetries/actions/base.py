"""How a group element moves data."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from symmetries.groups.base import Group


class Action(ABC):
    """A group acting on data: ``act(compose(a, b), x)`` equals ``act(a, act(b, x))``.

    The law holds up to interpolation and, where the data is clipped or leaves its frame, only
    for what remains; ``act(identity, x)`` is x.
    """

    group: Group[Any]

    @abstractmethod
    def __call__(self, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401 - elements differ by group
        """The data moved by the element."""
