"""Cache of a value computed from a module's tensors, valid until one of them changes."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class _Entry(NamedTuple):
    """The cached value, with the objects it was computed from and the versions of the tensors."""

    kept: object
    made_for: object
    owner: Mapping[str, object]
    places: list[tuple[Mapping[str, object], str, object]]
    tensors: list[tuple[Mapping[str, object], str, Tensor, int]]


class VersionCache(Generic[T]):
    """Keeps one value computed from a module's tensors, together with their versions.

    A tensor written in place has a new version; one that was put in another's place is another
    object. What goes round both (``tensor.data``, a move to another device) needs :meth:`clear`.
    Copies of a cache are empty. To ask costs a microsecond or two: it looks into the dictionaries
    in which modules keep their tensors.

    Args:
        constants: names of buffers that never change or do not matter: they are not compared.

    Example:
        >>> import torch
        >>> layer, cache = nn.Linear(1, 1), VersionCache()
        >>> cache.put(layer, layer.weight.detach() + 1)
        >>> cache.get(layer) is None
        False
        >>> with torch.no_grad():
        ...     _ = layer.weight.add_(1)
        >>> cache.get(layer) is None
        True
    """

    def __init__(self, constants: tuple[str, ...] = ()) -> None:
        self.constants = constants
        self._entry: _Entry | None = None

    def get(self, module: nn.Module, made_for: object = None) -> T | None:
        """Return the cached value, or None if the module has changed or the key differs."""
        if self._entry is None:
            return None
        kept, kept_for, owner, places, tensors = self._entry
        if kept_for != made_for or owner is not module._parameters:
            return None
        try:
            for holder, key, tensor, version in tensors:
                if holder[key] is not tensor or tensor._version != version:
                    return None
            for holder, key, what in places:
                if holder[key] is not what:
                    return None
        except KeyError:  # taken away
            return None
        return kept  # type: ignore[return-value]

    def put(
        self, module: nn.Module, kept: T, made_for: object = None, parameters: str = "fixed"
    ) -> None:
        """Store a value computed from a module's tensors; inference tensors are not cached.

        Args:
            module: the module.
            kept: what was made.
            made_for: what else it depends on.
            parameters: "fixed": it was made of them too. "written": it refers to them, they may be
                written to but not replaced. "free": it has nothing to do with them.
        """
        places: list[tuple[Mapping[str, object], str, object]] = []
        tensors: list[tuple[Mapping[str, object], str, Tensor, int]] = []
        for part in module.modules():
            kinds: list[Mapping[str, object]] = [part._modules, part._buffers]
            kinds += [] if parameters == "free" else [part._parameters]
            for holder in kinds:
                written = holder is part._parameters and parameters == "written"
                for key, what in holder.items():
                    if holder is part._buffers and key in self.constants:
                        continue
                    if isinstance(what, Tensor) and not written:
                        if what.is_inference():  # it has no version
                            self._entry = None
                            return
                        tensors.append((holder, key, what, what._version))
                    else:
                        places.append((holder, key, what))
        self._entry = _Entry(kept, made_for, module._parameters, places, tensors)

    def clear(self) -> None:
        """Remove the cached value."""
        self._entry = None

    def __reduce__(self) -> tuple[type["VersionCache[T]"], tuple[tuple[str, ...]]]:
        return type(self), (self.constants,)
