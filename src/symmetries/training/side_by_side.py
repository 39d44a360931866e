"""Independent trainings side by side on cores or a GPU, each with its own random numbers.

On a GPU their threads take turns: one of them runs at a time, and hands over after each step.
"""

import ctypes
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from symmetries.training.interrupt import shared_stop

T = TypeVar("T")
_current: ContextVar["Turns | None"] = ContextVar("turns", default=None)
_BLOCKING_SYNC = 4  # of the CUDA driver's flags
FITS = 4  # that are expected side by side: on more cores each of them gets several threads


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


def available_cores() -> int:
    """Cores that this process may use: its affinity, or fewer if ``OMP_NUM_THREADS`` says so.

    The number never depends on how busy the machine is.

    Example:
        >>> available_cores() >= 1
        True
    """
    known = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(found, int(asked)) if asked.isdigit() and int(asked) else found


def threads_of_a_fit() -> int:
    """Return threads with which each of several fits computes on a CPU: one on up to seven cores.

    Sums are rounded by this number, so that the same one gives the same bits.
    """
    return max(1, available_cores() // FITS)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch compute with a number of threads inside the block."""
    before = torch.get_num_threads()
    if number == before:
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(
    tasks: Sequence[Callable[[], T]],
    at_a_time: int | None = None,
    threads: int | None = None,
    device: torch.device | None = None,
) -> list[T]:
    """Call functions that do not depend on each other, several at a time, each in a thread.

    Every task computes with as many threads, whether it runs beside others or not, so results do
    not depend on how many run at a time. Tasks must draw random numbers from their
    own generators only. Ctrl-C, or an error in one of them, lets trainings that run end after
    their step with a checkpoint; no other task is begun.

    Args:
        tasks: functions without arguments.
        at_a_time: as many as the cores allow by default; 1 calls them one after the other in this
            thread.
        threads: of each task; :func:`threads_of_a_fit` by default.
        device: where they compute. On a GPU each has a stream of its own, as kernels of small
            networks leave most of it idle, and their trainings take turns after every step, so that
            no code runs while a CUDA graph is captured; with one core they run one after the other.

    Returns:
        Their results, in order.

    Example:
        >>> side_by_side([lambda: 1, lambda: 2])
        [1, 2]
    """
    threads = threads or threads_of_a_fit()
    if device is not None and device.type == "cuda":
        at_a_time = (len(tasks) if available_cores() > 1 else 1) if at_a_time is None else at_a_time
        if at_a_time > 1:
            turns, ready = Turns(), torch.cuda.current_stream(device)
            own = [torch.cuda.Stream(device) for _ in tasks]
            tasks = [
                partial(turns.call, partial(_on_stream, task, stream, ready))
                for task, stream in zip(tasks, own, strict=True)
            ]
    number = max(1, available_cores() // threads) if at_a_time is None else at_a_time
    number = min(number, len(tasks))
    if number <= 1:
        with torch_threads(threads):
            return [task() for task in tasks]
    stop = threading.Event()
    with _global_generators_kept(), torch_threads(threads), shared_stop(stop):
        with ThreadPoolExecutor(number, "fit") as pool:
            calls = [partial(copy_context().run, _call, task, threads, stop) for task in tasks]
            futures = [pool.submit(call) for call in calls]
            interrupted: BaseException | None = None
            try:
                wait(futures)
            except KeyboardInterrupt as signalled:
                interrupted = signalled
                stop.set()
                wait(futures)
        error = _first_error(futures) or interrupted
        if error is not None:
            raise error
        return [future.result() for future in futures]


def sleep_while_waiting() -> bool:
    """Let threads that wait for a GPU sleep, where they would keep a core busy each.

    It must be called before the process first uses the GPU; later it changes nothing.

    Returns:
        Whether the driver did as asked.

    Example:
        >>> isinstance(sleep_while_waiting(), bool)
        True
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return False
    set_flags = driver.cuDevicePrimaryCtxSetFlags_v2
    return not any(set_flags(number, _BLOCKING_SYNC) for number in range(count.value))


def _on_stream(task: Callable[[], T], own: torch.cuda.Stream, ready: torch.cuda.Stream) -> T:
    """Call a function whose kernels run beside those of others, and wait for them."""
    own.wait_stream(ready)
    with torch.cuda.stream(own):
        try:
            return task()
        finally:
            own.synchronize()


def _call(task: Callable[[], T], threads: int, stop: threading.Event) -> T:
    torch.set_num_threads(threads)  # torch keeps the number for each thread that calls it
    try:
        if stop.is_set():
            raise KeyboardInterrupt("not begun")
        return task()
    except BaseException:
        stop.set()
        raise


def _first_error(futures: Sequence["Future[T]"]) -> BaseException | None:
    """The error that ended the tasks; a real error is preferred to an interruption by another."""
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    own = [error for error in errors if not isinstance(error, KeyboardInterrupt)]
    return next(iter(own or errors), None)


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Restore the global generators, which trainings side by side seed in no particular order."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
