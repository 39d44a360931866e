"""History of a run's metrics: in memory, as CSV, and for TensorBoard."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from symmetries._validation.checks import invalid
from symmetries.training.files import write_atomic, writing


@dataclass
class History:
    """Logged metrics of a run: plain lists, with one entry per log.

    Args:
        step: number of steps done.
        metrics: the loss terms by name, and "lr".
        times: seconds since the run began.
        seconds: duration of the whole run, including the part before a resumption.
        steps_per_second: speed of this process's part of the run.

    Example:
        >>> history = History()
        >>> history.append(10, {"loss": 0.5, "lr": 1e-3}, seconds=1.0)
        >>> history["loss"], history.last
        ([0.5], {'loss': 0.5, 'lr': 0.001})
    """

    step: list[int] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    steps_per_second: float = 0.0

    def __getitem__(self, name: str) -> list[float]:
        return self.metrics[name]

    @property
    def last(self) -> dict[str, float]:
        """Return the latest metrics."""
        return {name: values[-1] for name, values in self.metrics.items()}

    def append(self, step: int, numbers: Mapping[str, float], seconds: float) -> None:
        """Append the metrics after ``step`` steps."""
        if self.step and set(numbers) != set(self.metrics):
            remedy = "return the same terms at every step"
            raise invalid("loss terms", f"{sorted(self.metrics)}", sorted(numbers), remedy)
        self.step.append(step)
        self.times.append(seconds)
        for name, value in numbers.items():
            self.metrics.setdefault(name, []).append(value)

    def row(self, look: int) -> list[float]:
        """Return one log entry: step, seconds, and the metrics."""
        numbers = (values[look] for values in self.metrics.values())
        return [self.step[look], self.times[look], *numbers]

    def header(self) -> list[str]:
        """Return the column names of a :meth:`row`."""
        return ["step", "seconds", *self.metrics]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON; NaN and infinity, which JSON lacks, become strings."""
        metrics = {
            name: [value if math.isfinite(value) else str(value) for value in values]
            for name, values in self.metrics.items()
        }
        return {"step": self.step, "metrics": metrics, "times": self.times, "names": [*metrics]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "History":
        """Return the history from the output of :meth:`to_json`."""
        names = data["names"]
        metrics = {name: [float(value) for value in data["metrics"][name]] for name in names}
        return cls(step=list(data["step"]), metrics=metrics, times=list(data["times"]))


class Writer(Protocol):
    """Writes the newest entry of a history to a destination."""

    def write(self, history: History) -> None:
        """Write the newest entry."""

    def close(self) -> None:
        """Close the destination."""


class CsvWriter:
    """Writes metrics as CSV, one line per log, flushed at once.

    Args:
        path: the file; replaced by the entries of ``history``.
        history: history of the run so far.
    """

    def __init__(self, path: Path, history: History) -> None:
        self.path = path
        rows = [history.row(look) for look in range(len(history.step))]
        text = _csv_text([history.header(), *rows]) if rows else ""
        write_atomic(path, text.encode())

    def write(self, history: History) -> None:
        """Append the newest row, after the header if the file is new."""
        lines = [history.header()] if len(history.step) == 1 else []
        with writing(self.path), self.path.open("a", newline="") as file:
            file.write(_csv_text([*lines, history.row(-1)]))

    def close(self) -> None:
        """Do nothing: no output is buffered."""


class TensorBoardWriter:
    """Writes metrics as TensorBoard event files (an optional dependency).

    Args:
        folder: folder for the event files.
        first: the step at which the run starts or resumes; later steps in old files are hidden.
    """

    def __init__(self, folder: Path, first: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "tensorboard=True needs the package tensorboard, which is not installed; "
                'run: pip install "symmetries[tensorboard]"'
            ) from error
        self.writer: Any = SummaryWriter(str(folder), purge_step=first)

    def write(self, history: History) -> None:
        """Add the newest metrics as scalars."""
        for name, value in history.last.items():
            self.writer.add_scalar(name, value, history.step[-1])

    def close(self) -> None:
        """Flush buffered events."""
        self.writer.close()


def _csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
