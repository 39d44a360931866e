"""Cache of a value computed from a module's tensors, valid while their versions are unchanged."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class Sampled(NamedTuple):
    """Sampled kernel function: a filter bank and a bias, or phi if it depends on the position."""

    weight: Tensor
    bias: Tensor | None


class _Entry(NamedTuple):
    """A cached value, and the objects and tensor versions from which it was computed."""

    kept: object
    made_for: object
    owner: Mapping[str, object]
    places: list[tuple[Mapping[str, object], str, object]]
    tensors: list[tuple[Mapping[str, object], str, Tensor, int]]


class VersionCache(Generic[T]):
    """Caches one value computed from a module's tensors, with these tensors and their versions.

    A tensor changed in place has a new version, and a replaced tensor is another object. Changes
    that bypass both (``tensor.data``, a move to another device) need :meth:`clear`. Copies of a
    cache are empty. A look-up takes a microsecond or two, because it reads the dictionaries in
    which modules keep their tensors.

    Args:
        constants: names of buffers that do not change or are not used; they are not compared.

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
        """Return the cached value, or None if the module or ``made_for`` has changed."""
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
        except KeyError:  # a tensor was removed
            return None
        return kept  # type: ignore[return-value]

    def put(
        self, module: nn.Module, kept: T, made_for: object = None, parameters: str = "fixed"
    ) -> None:
        """Cache a value computed from the tensors of a module and its parts, if they have versions.

        Args:
            module: the module.
            kept: the value.
            made_for: what else it depends on.
            parameters: "fixed": the value depends on the parameters. "written": it refers to them;
                they may change in place but not be replaced. "free": it does not depend on them.
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
                        if what.is_inference():  # inference tensors have no version
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
