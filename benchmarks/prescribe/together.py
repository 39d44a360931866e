"""Calls of ``prescribe`` side by side whose networks train as one.

Each call trains few networks at a time, which leave a GPU idle. So every call has a thread, and as
soon as all threads wait for networks, those of all of them are trained together.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

import torch

from symmetries.analysis import quick_networks
from symmetries.analysis.network_trials import Trial

Networks = list[torch.nn.Module]


class Together:
    """A function that trains networks, in place of :func:`quick_networks.train`.

    Args:
        train: that trains those of all threads.
        threads: that call this function until they leave.
    """

    def __init__(self, train: Callable[[list[Trial]], Networks], threads: int) -> None:
        self.train, self.threads = train, threads
        self.waiting: list[tuple[list[Trial], Future[Networks]]] = []
        self.changed = threading.Condition()

    def __call__(self, trials: list[Trial]) -> Networks:
        """Networks of one thread, as soon as those of all are trained."""
        networks: Future[Networks] = Future()
        with self.changed:
            self.waiting.append((trials, networks))
            self.changed.notify_all()
        return networks.result()

    def leave(self) -> None:
        """Say that this thread calls no more."""
        with self.changed:
            self.threads -= 1
            self.changed.notify_all()

    def serve(self) -> None:
        """Train networks until all threads have left."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: len(self.waiting) == self.threads)
                calls, self.waiting = self.waiting, []
            if not calls:
                return
            self.answer(calls)

    def answer(self, calls: list[tuple[list[Trial], Future[Networks]]]) -> None:
        """Train networks; by halves where they do not fit into memory."""
        try:
            networks = self.train([trial for trials, _ in calls for trial in trials])
        except torch.OutOfMemoryError as error:
            half = len(calls) // 2
            if half:
                self.answer(calls[:half])
                self.answer(calls[half:])
            else:
                calls[0][1].set_exception(error)
        except Exception as error:  # every thread says so itself
            for _, found in calls:
                found.set_exception(error)
        else:
            for trials, found in calls:
                found.set_result(networks[: len(trials)])
                networks = networks[len(trials) :]


def side_by_side(task: Callable[[], None], threads: int) -> None:
    """Run a task in so many threads; networks that they ask for at a time are trained together."""
    own = quick_networks.train
    together = Together(own, threads)

    def run() -> None:
        try:
            task()
        finally:
            together.leave()

    quick_networks.train = together
    try:
        workers = [threading.Thread(target=run) for _ in range(threads)]
        for worker in workers:
            worker.start()
        together.serve()
        for worker in workers:
            worker.join()
    finally:
        quick_networks.train = own
