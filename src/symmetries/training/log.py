"""Logging of a run's metrics, and the check that they are finite."""

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from symmetries.training.config import TrainConfig
from symmetries.training.history import CsvWriter, History, TensorBoardWriter, Writer
from symmetries.training.progress_bar import ProgressBar
from symmetries.training.pruning import call_hooks
from symmetries.training.resume import Checkpoints, NonFiniteError
from symmetries.training.update import Metrics

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
            raise _too_many(done, skipped, self.allowed, self.history, checkpoints)
        if not math.isfinite(numbers["loss"]) and not self.allowed:
            raise _not_finite(done, numbers, self.history, checkpoints)
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
    done: int, numbers: dict[str, float], history: History, checkpoints: Checkpoints | None
) -> NonFiniteError:
    broken = [name for name, value in numbers.items() if not math.isfinite(value)]
    terms = ", ".join(f"{name} = {numbers[name]}" for name in broken)
    since = f" (it was finite after step {history.step[-1]})" if history.step else ""
    where = checkpoints.describe() if checkpoints else "No checkpoint: the run has no folder (out)"
    return NonFiniteError(f"step {done}: {terms}{since}; {advice(history)}. {where}")


def _too_many(
    done: int, skipped: float, allowed: int, history: History, checkpoints: Checkpoints | None
) -> NonFiniteError:
    where = checkpoints.describe() if checkpoints else "No checkpoint: the run has no folder (out)"
    counted = f"{skipped:.0f} batches with a NaN or infinite loss or gradient, {allowed} allowed"
    return NonFiniteError(f"step {done}: {counted} (skip_bad); {advice(history)}. {where}")


def advice(history: History) -> str:
    """Return the most likely cause of a loss that is not finite."""
    if not history.step:
        return (
            "likely cause: NaN or huge numbers in the data, NaN in the first weights, or a loss "
            "that divides by zero"
        )
    return "likely cause: a learning rate too high; lower lr, add warmup, or set clip=1.0"
