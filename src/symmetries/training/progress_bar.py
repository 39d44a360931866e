"""Progress bar: steps done, speed, remaining time, and the main metrics."""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

INTERVAL = 0.2  # seconds between two redraws
SHOWN = 2  # number of metrics beside the bar
ROOM = 20  # characters for them, so that a line fits into 80 columns
BAR = (10, 40)  # characters of the bar itself, at 80 columns and at many


class ProgressBar:
    """Progress bar on the error stream; with ``shown=False`` it does nothing.

    The loop redraws it every ``INTERVAL`` seconds, because a drawing thread would compete with the
    steps for the interpreter's lock.

    Args:
        total: number of steps of the run.
        done: number of steps done before a resumption.
        shown: whether to draw at all.
        console: console to draw on.
        title: title of the bar.
    """

    def __init__(
        self,
        total: int,
        done: int,
        shown: bool = True,
        console: Console | None = None,
        title: str = "training",
    ) -> None:
        console = console or Console(stderr=True)
        least, most = BAR
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(min(max(least, console.width - 80 + least), most)),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            auto_refresh=False,
            disable=not shown,
        )
        self._task = self._progress.add_task(
            title, total=total, completed=done, rate="", numbers=""
        )
        self._first = done
        self._done = done
        self._start = time.perf_counter()
        self._next = self._start if shown else float("inf")

    def __enter__(self) -> "ProgressBar":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._draw(time.perf_counter())
        self._progress.stop()

    def step(self, done: int) -> None:
        """Set the number of steps done; cheap enough to call at every step."""
        self._done = done
        now = time.perf_counter()
        if now >= self._next:
            self._draw(now)

    def numbers(self, metrics: Mapping[str, float]) -> None:
        """Show these metrics from now on."""
        self._progress.update(self._task, numbers=describe(metrics))

    def _draw(self, now: float) -> None:
        rate = (self._done - self._first) / max(now - self._start, 1e-9)
        text = f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2f} steps/s"
        self._progress.update(self._task, completed=self._done, rate=text, refresh=True)
        self._next = time.perf_counter() + INTERVAL


def describe(metrics: Mapping[str, float]) -> str:
    """Format the first few metrics, the loss before all, as many as there is room for.

    Example:
        >>> describe({"kl": 2.0, "loss": 0.123456, "lr": 1e-3})
        'loss 0.1235  kl 2'
        >>> describe({"loss": -12345.6, "agreement": 0.5})
        'loss -1.235e+04'
    """
    names = sorted((name for name in metrics if name != "lr"), key=lambda name: name != "loss")
    texts = [f"{name} {metrics[name]:.4g}" for name in names[:SHOWN]]
    while len(texts) > 1 and len("  ".join(texts)) > ROOM:
        texts.pop()
    return "  ".join(texts)
