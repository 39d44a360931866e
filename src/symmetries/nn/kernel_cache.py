"""A kernel kept between calls, for as long as nothing that it was made of has changed."""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class Sampled(NamedTuple):
    """A kernel at its samples: a filter bank and a bias, or the phi of a position-dependent one."""

    weight: Tensor
    bias: Tensor | None


class _Entry(NamedTuple):
    """What is kept, where each thing stood that it was made of, and the versions of tensors."""

    kept: object
    made_for: object
    owner: Mapping[str, object]
    places: list[tuple[Mapping[str, object], str, object]]
    versions: list[tuple[Tensor, int]]


class KernelCache(Generic[T]):
    """Keeps one thing that was made of a module's tensors, with these and their versions.

    A tensor written in place has a new version; one that was put in another's place is another
    object. What goes round both (``tensor.data``, a move to another device) needs :meth:`clear`.
    Copies of a cache are empty. To ask costs a microsecond or two: it looks into the dictionaries
    in which modules keep their tensors.

    Example:
        >>> import torch
        >>> layer, cache = nn.Linear(1, 1), KernelCache()
        >>> cache.put(layer, layer.weight.detach() + 1)
        >>> cache.get(layer) is None
        False
        >>> with torch.no_grad():
        ...     _ = layer.weight.add_(1)
        >>> cache.get(layer) is None
        True
    """

    def __init__(self) -> None:
        self._entry: _Entry | None = None

    def get(self, module: nn.Module, made_for: object = None) -> T | None:
        """What is kept, or None if the module has changed, or it was made for something else."""
        entry = self._entry
        if entry is None or entry.made_for != made_for or entry.owner is not module._parameters:
            return None
        for holder, key, what in entry.places:
            if holder.get(key) is not what:
                return None
        for tensor, version in entry.versions:
            if tensor._version != version:
                return None
        return entry.kept  # type: ignore[return-value]

    def put(
        self,
        module: nn.Module,
        kept: T,
        made_for: object = None,
        *,
        without: Iterable[str] = (),
        written: Iterable[str] = (),
    ) -> None:
        """Keep something made of all tensors of a module and its parts.

        Args:
            module: the module.
            kept: what was made.
            made_for: what else it depends on.
            without: names of tensors that it does not depend on.
            written: names of tensors that may be written to, but not replaced.
        """
        left_out, may_change = set(without), set(written)
        places: list[tuple[Mapping[str, object], str, object]] = []
        for part in module.modules():
            for holder in (part._modules, part._parameters, part._buffers):
                places += [(holder, k, v) for k, v in holder.items() if k not in left_out]
        fixed = [t for _, k, t in places if isinstance(t, Tensor) and k not in may_change]
        versions = [(t, t._version) for t in fixed if not t.is_inference()]
        self._entry = _Entry(kept, made_for, module._parameters, places, versions)

    def clear(self) -> None:
        """Forget it."""
        self._entry = None

    def __reduce__(self) -> tuple[type["KernelCache[T]"], tuple[()]]:
        return type(self), ()
