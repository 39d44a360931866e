"""Metrics of a run on the screen and in files: progress bar, logs, pruning of trials."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from symmetries._validation.checks import wrong_type
from symmetries.training.config import TrainConfig
from symmetries.training.history import CsvWriter, History, TensorBoardWriter, Writer
from symmetries.training.resume import Checkpoints, NonFiniteError
from symmetries.training.update import Metrics

Hook = Callable[[int, Mapping[str, float]], None]
_hooks: ContextVar[tuple[Hook, ...]] = ContextVar("pruning_hooks", default=())


@contextmanager
def pruning_hook(hook: Hook) -> Iterator[None]:
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
    token = _hooks.set((*_hooks.get(), hook))
    try:
        yield
    finally:
        _hooks.reset(token)


def call_hooks(done: int, numbers: Mapping[str, float]) -> None:
    """Call all active hooks."""
    for hook in _hooks.get():
        hook(done, numbers)


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
        """Show these metrics beside the bar."""
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


if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Log:
    """Records metrics in the history, in files (in the first process) and on the progress bar.

    Args:
        fabric: identifies this process.
        config: configuration of the run.
        history: history before a resumption.
        first: the step at which the run starts or resumes.
        stack: exit stack that closes the files and the bar.
    """

    def __init__(
        self, fabric: "Fabric", config: TrainConfig, history: History, first: int, stack: ExitStack
    ) -> None:
        self.fabric = fabric
        self.history = history
        self.allowed = config.optimiser.skip_bad
        self.writers: list[Writer] = []
        if config.out is not None and fabric.is_global_zero:
            if config.logging.tensorboard:
                self.writers.append(TensorBoardWriter(config.out / "tensorboard", first))
            self.writers.append(CsvWriter(config.out / "metrics.csv", history))
        for writer in self.writers:
            stack.callback(writer.close)
        shown = config.progress and fabric.is_global_zero
        self.bar = stack.enter_context(
            ProgressBar(config.steps, first, shown, title=config.logging.title)
        )
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds of the run so far, including the part before a resumption."""
        return self.history.seconds + time.perf_counter() - self._start

    def look(self, done: int, metrics: Metrics, lr: float, checkpoints: Checkpoints | None) -> None:
        """Read the metrics (this synchronises), log them, and stop if the loss is not finite."""
        numbers = read_numbers(self.fabric, metrics)
        skipped = numbers.get("skipped", 0.0)
        if skipped > self.allowed:
            what = f"{skipped:.0f} batches with a NaN or infinite loss or gradient, "
            what += f"{self.allowed} allowed (skip_bad)"
            raise _not_finite(done, what, self.history, checkpoints)
        if not math.isfinite(numbers["loss"]) and not self.allowed:
            what = ", ".join(f"{k} = {v}" for k, v in numbers.items() if not math.isfinite(v))
            steps = self.history.step
            what += f" (it was finite after step {steps[-1]})" if steps else ""
            raise _not_finite(done, what, self.history, checkpoints)
        self.history.append(done, {**numbers, "lr": lr}, self.seconds())
        self.bar.numbers(numbers)
        for writer in self.writers:
            writer.write(self.history)
        call_hooks(done, numbers)


def read_numbers(fabric: "Fabric", metrics: Metrics) -> dict[str, float]:
    """Return the metrics as numbers, averaged over the processes, with one transfer for all."""
    dtype = torch.float32 if fabric.device.type == "mps" else torch.float64
    values = torch.stack([value.to(dtype) for value in metrics.values()])
    if fabric.world_size > 1:
        values = fabric.all_reduce(values, reduce_op="mean")  # type: ignore[assignment]
    return dict(zip(metrics, values.tolist(), strict=True))


def _not_finite(
    done: int, what: str, history: History, checkpoints: Checkpoints | None
) -> NonFiniteError:
    where = checkpoints.describe() if checkpoints else "No checkpoint: the run has no folder (out)"
    return NonFiniteError(f"step {done}: {what}; {advice(history)}. {where}")


def advice(history: History) -> str:
    """Return the most likely cause of a loss that is not finite."""
    if not history.step:
        return (
            "likely cause: NaN or huge numbers in the data, NaN in the first weights, or a loss "
            "that divides by zero"
        )
    return "likely cause: a learning rate too high; lower lr, add warmup, or set clip=1.0"
