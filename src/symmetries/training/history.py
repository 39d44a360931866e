"""The numbers of a run: in memory, as CSV, and for TensorBoard."""

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
    """What was logged: plain lists, one entry for each look at the metrics.

    Args:
        step: how many steps had been done.
        metrics: the loss terms by name, and "lr".
        times: seconds since the run began.
        seconds: of the whole run, with what went before a resumption.
        steps_per_second: of this process's part of the run.

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
        """The newest numbers."""
        return {name: values[-1] for name, values in self.metrics.items()}

    def append(self, step: int, numbers: Mapping[str, float], seconds: float) -> None:
        """Add what was seen after ``step`` steps."""
        if self.step and set(numbers) != set(self.metrics):
            remedy = "return the same terms at every step"
            raise invalid("loss terms", f"{sorted(self.metrics)}", sorted(numbers), remedy)
        self.step.append(step)
        self.times.append(seconds)
        for name, value in numbers.items():
            self.metrics.setdefault(name, []).append(value)

    def row(self, look: int) -> list[float]:
        """One look: step, seconds, and the numbers."""
        numbers = (values[look] for values in self.metrics.values())
        return [self.step[look], self.times[look], *numbers]

    def header(self) -> list[str]:
        """Names of the columns of a :meth:`row`."""
        return ["step", "seconds", *self.metrics]

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, which has no NaN: such numbers become strings."""
        metrics = {
            name: [value if math.isfinite(value) else str(value) for value in values]
            for name, values in self.metrics.items()
        }
        return {"step": self.step, "metrics": metrics, "times": self.times, "names": [*metrics]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "History":
        """What :meth:`to_json` gave."""
        names = data["names"]
        metrics = {name: [float(value) for value in data["metrics"][name]] for name in names}
        return cls(step=list(data["step"]), metrics=metrics, times=list(data["times"]))


class Writer(Protocol):
    """Takes the newest entry of a history to somewhere."""

    def write(self, history: History) -> None:
        """Write the newest entry."""

    def close(self) -> None:
        """No more will come."""


class CsvWriter:
    """Metrics as CSV: a line for each look, on disk at once.

    Args:
        path: the file; replaced by what ``history`` holds already.
        history: of the run so far.
    """

    def __init__(self, path: Path, history: History) -> None:
        self.path = path
        rows = [history.row(look) for look in range(len(history.step))]
        text = _csv_text([history.header(), *rows]) if rows else ""
        write_atomic(path, text.encode())

    def write(self, history: History) -> None:
        """Append the newest row, and first the header if there is none."""
        lines = [history.header()] if len(history.step) == 1 else []
        with writing(self.path), self.path.open("a", newline="") as file:
            file.write(_csv_text([*lines, history.row(-1)]))

    def close(self) -> None:
        """Nothing is held back."""


class TensorBoardWriter:
    """Metrics as TensorBoard event files, an extra.

    Args:
        folder: for the event files.
        first: the step the run starts or resumes with; later ones in old files are hidden.
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
        """Add the newest numbers as scalars."""
        for name, value in history.last.items():
            self.writer.add_scalar(name, value, history.step[-1])

    def close(self) -> None:
        """Write out what the library holds back."""
        self.writer.close()


def _csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
