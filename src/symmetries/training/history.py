"""History of a run's metrics: in memory, as CSV, and for TensorBoard."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from symmetries._validation.checks import invalid
from symmetries.training.atomic_files import write_atomic, writing


@dataclass
class History:
    """Logged metrics of a run: plain lists, with one entry per log.

    Args:
        step: number of steps done.
        metrics: the loss terms by name, and "lr".
        times: seconds since the run began.
        seconds: duration of the whole run, including the part before a resumption.
        steps_per_second: speed of this process's part of the run.
        stages: the histories of the trainings that it joins, by name; see :meth:`joined`.

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
    stages: "dict[str, History]" = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[float]:
        return self.metrics[name]

    @property
    def last(self) -> dict[str, float]:
        """Return the latest metrics."""
        return {name: values[-1] for name, values in self.metrics.items()}

    @classmethod
    def joined(cls, stages: "Mapping[str, History]") -> "History":
        """Return the history of trainings one after the other, whose steps count on.

        A metric that a stage does not have is NaN there.

        Example:
            >>> parts = {"first": History([2], {"loss": [1.0]}, [0.5], 0.5)}
            >>> parts["second"] = History([3], {"nll": [4.0]}, [0.1], 0.1)
            >>> both = History.joined(parts)
            >>> both.step, both["loss"], both.stages["second"].step
            ([2, 5], [1.0, nan], [3])
        """
        names = dict.fromkeys(name for part in stages.values() for name in part.metrics)
        whole = cls(metrics={name: [] for name in names}, stages=dict(stages))
        done, steps = 0, 0.0
        for part in stages.values():
            whole.step += [done + step for step in part.step]
            whole.times += [whole.seconds + time for time in part.times]
            missing = [math.nan] * len(part.step)
            for name, values in whole.metrics.items():
                values += part.metrics.get(name, missing)
            done = whole.step[-1] if whole.step else 0
            whole.seconds += part.seconds
            steps += part.seconds * part.steps_per_second
        whole.steps_per_second = steps / whole.seconds if whole.seconds else 0.0
        return whole

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
        found = {"step": self.step, "metrics": metrics, "times": self.times, "names": [*metrics]}
        stages = {name: part.to_json() for name, part in self.stages.items()}
        return found | ({"stages": stages} if stages else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "History":
        """Return the history from the output of :meth:`to_json`."""
        names = data["names"]
        metrics = {name: [float(value) for value in data["metrics"][name]] for name in names}
        stages = {name: cls.from_json(part) for name, part in data.get("stages", {}).items()}
        step, times = list(data["step"]), list(data["times"])
        return cls(step=step, metrics=metrics, times=times, stages=stages)


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
