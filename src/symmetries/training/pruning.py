"""Hooks on the logged metrics of every run, which let a sweep prune a trial."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from symmetries._validation.checks import wrong_type

Hook = Callable[[int, Mapping[str, float]], None]
_hooks: ContextVar[tuple[Hook, ...]] = ContextVar("pruning_hooks", default=())


def pruning_hook(hook: Hook) -> AbstractContextManager[None]:
    """Call ``hook(done, numbers)`` whenever a run inside the block logs its metrics.

    An exception raised by it ends the run; the last checkpoint stays.

    Args:
        hook: takes the number of steps done and the metrics by name.

    Example:
        >>> seen = []
        >>> with pruning_hook(lambda done, numbers: seen.append(done)):
        ...     call_hooks(5, {"loss": 1.0})
        >>> seen
        [5]
    """
    if not callable(hook):
        raise wrong_type("hook", "a function of (done, numbers)", hook, "see the example")
    return _pruning_hook(hook)


@contextmanager
def _pruning_hook(hook: Hook) -> Iterator[None]:
    token = _hooks.set((*_hooks.get(), hook))
    try:
        yield
    finally:
        _hooks.reset(token)


def call_hooks(done: int, numbers: Mapping[str, float]) -> None:
    """Call all active hooks."""
    for hook in _hooks.get():
        hook(done, numbers)
