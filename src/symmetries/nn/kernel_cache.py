"""A kernel kept between calls, for as long as nothing that it was made of has changed."""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor


class Sampled(NamedTuple):
    """A kernel at its samples: a filter bank and a bias, or the phi of a position-dependent one."""

    weight: Tensor
    bias: Tensor | None


class KernelCache:
    """Keeps one kernel with the tensors it was made of and their versions.

    A tensor written in place has a new version; one that was put in another's place is another
    object. What goes round both (``tensor.data``, a move to another device) needs :meth:`clear`.

    Example:
        >>> import torch
        >>> weight, cache = torch.ones(2), KernelCache()
        >>> cache.put([weight], None, Sampled(2 * weight, None))
        >>> cache.get([weight], None).weight
        tensor([2., 2.])
        >>> _ = weight.add_(1)
        >>> cache.get([weight], None) is None
        True
    """

    def __init__(self) -> None:
        self._made_of: list[Tensor] = []
        self._versions: list[int] = []
        self._made_for: object = None
        self._kernel: Sampled | None = None

    def get(self, tensors: Iterable[Tensor], made_for: object) -> Sampled | None:
        """The kernel, or None if it was made of other tensors or for something else."""
        if self._kernel is None or self._made_for != made_for:
            return None
        tensors = list(tensors)
        same = len(tensors) == len(self._made_of) and all(
            a is b for a, b in zip(tensors, self._made_of, strict=True)
        )
        return self._kernel if same and _versions(tensors) == self._versions else None

    def put(self, tensors: Iterable[Tensor], made_for: object, kernel: Sampled) -> None:
        """Keep a kernel."""
        self._made_of = list(tensors)
        self._versions = _versions(self._made_of)
        self._made_for = made_for
        self._kernel = kernel

    def clear(self) -> None:
        """Forget it."""
        self._made_of, self._kernel = [], None


def _versions(tensors: list[Tensor]) -> list[int]:
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]
