"""Handling of Ctrl-C between steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@contextmanager
def shared_stop(event: threading.Event) -> Iterator[None]:
    """Stop trainings in other threads, which receive no signals, when an event is set.

    It holds in threads that run in a copy of this context (:func:`contextvars.copy_context`).
    """
    token = _stop.set(event)
    try:
        yield
    finally:
        _stop.reset(token)


class Interrupt:
    """While active, the first Ctrl-C only sets ``requested``; a second one interrupts at once.

    The loop can then stop after a whole step. Outside the main thread, or if another handler is
    installed for the signal, nothing is changed, and only a :func:`shared_stop` is seen.

    Example:
        >>> with Interrupt() as interrupt:
        ...     signal.raise_signal(signal.SIGINT)
        ...     interrupt.requested
        True
    """

    def __init__(self) -> None:
        self._asked = False
        self._shared = _stop.get()
        self._installed = False

    @property
    def requested(self) -> bool:
        """Whether to stop after this step."""
        return self._asked or (self._shared is not None and self._shared.is_set())

    def request(self) -> None:
        """Stop after this step."""
        self._asked = True

    def __enter__(self) -> "Interrupt":
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, *exception: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
