"""Somebody who looks over the shoulder of every training: searches that stop bad runs early."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from symmetries._validation.checks import wrong_type

Watcher = Callable[[int, Mapping[str, float]], None]
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


def watching(watcher: Watcher) -> AbstractContextManager[None]:
    """Call ``watcher(done, numbers)`` at every look at the metrics of a run inside the block.

    What it raises ends the run; its last checkpoint stays.

    Args:
        watcher: takes the number of steps done and the metrics by name.

    Example:
        >>> seen = []
        >>> with watching(lambda done, numbers: seen.append(done)):
        ...     tell(5, {"loss": 1.0})
        >>> seen
        [5]
    """
    if not callable(watcher):
        raise wrong_type("watcher", "a function of (done, numbers)", watcher, "see the example")
    return _watching(watcher)


@contextmanager
def _watching(watcher: Watcher) -> Iterator[None]:
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def tell(done: int, numbers: Mapping[str, float]) -> None:
    """Tell everybody who watches."""
    for watcher in _watchers.get():
        watcher(done, numbers)
