"""Abstract base class of actions of a group on data."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from symmetries.groups.base import Group


class Action(ABC):
    """Abstract base class of a group action: ``act(compose(a, b), x) == act(a, act(b, x))``.

    The law holds up to interpolation and, if data is clipped or leaves its frame, only for the
    part that remains. ``act(identity, x)`` equals x.
    """

    group: Group[Any]

    @abstractmethod
    def __call__(self, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401 - elements differ by group
        """Return the data moved by the element."""
