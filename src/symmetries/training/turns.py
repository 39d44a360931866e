"""Threads that take turns: one of them runs at a time, and hands over after each training step."""

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
_current: ContextVar["Turns | None"] = ContextVar("turns", default=None)


class Turns:
    """A queue of threads, the first of which runs.

    Example:
        >>> Turns().call(lambda: next_turn() or "done")
        'done'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    def call(self, task: Callable[[], T]) -> T:
        """Call a function when it is this thread's turn; trainings inside hand over."""
        token = _current.set(self)
        self._wait()
        try:
            return task()
        finally:
            self._leave()
            _current.reset(token)

    def hand_over(self) -> None:
        """Let all threads that wait run first."""
        if len(self._queue) > 1:
            self._leave()
            self._wait()

    def _wait(self) -> None:
        own = threading.Event()
        with self._lock:
            self._queue.append(own)
            if self._queue[0] is own:
                own.set()
        own.wait()

    def _leave(self) -> None:
        with self._lock:
            self._queue.popleft()
            if self._queue:
                self._queue[0].set()


def next_turn() -> None:
    """Hand over to other threads, where several take turns."""
    turns = _current.get()
    if turns is not None:
        turns.hand_over()
