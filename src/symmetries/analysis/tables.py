"""Tables of vectors and trajectories, as functions and commands take them."""

import csv
import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._utils.text import printable
from symmetries._validation.checks import as_path, check_finite, check_positive, invalid, short
from symmetries.data.checked_files import check_memory
from symmetries.results.generators import VectorSummary

TableData = str | Path | NDArray[Any] | Tensor | Sequence[Any]
PIECES = 40  # that a single trajectory is cut into


@dataclass(frozen=True)
class VectorTable:
    """Rows of inputs and outputs.

    Args:
        x: inputs (n, d), float64.
        y: outputs (n, m), or None where a model gives them.
        units: number of the unit that each row belongs to: rows of a trajectory depend on each
            other, so that trajectories are split and resampled as a whole.
        names: of the coordinates.
        title: of the data.
        trajectories: number of them, or None for a table.
    """

    x: Tensor
    y: Tensor | None
    units: Tensor
    names: tuple[str, ...]
    title: str
    trajectories: int | None = None

    def summary(self, outputs: int) -> VectorSummary:
        """What a result records about the data."""
        digest = hashlib.sha256(str(tuple(self.x.shape)).encode())
        for part in (self.x, self.y):
            if part is not None:
                digest.update(part.contiguous().numpy().data)
        return VectorSummary(
            name=printable(self.title),
            count=len(self.x),
            inputs=self.names,
            outputs=outputs,
            trajectories=self.trajectories,
            units=len(self.units.unique()),
            sha256=digest.hexdigest(),
        )


def read_table(
    data: TableData,
    y: NDArray[Any] | Tensor | None = None,
    *,
    target: Sequence[str] = (),
    time_step: float | None = None,
    units: NDArray[Any] | Tensor | None = None,
) -> VectorTable:
    """A table from a file or from arrays.

    Args:
        data: an .npz file with x and perhaps y, or with trajectories (N, T, d); a .csv file with a
            header; an array x (n, d), or trajectories (N, T, d); or a pair (x, y).
        y: outputs (n,) or (n, m).
        target: columns of a .csv file that are outputs.
        time_step: between the states of a trajectory.
        units: number of the unit (n,) that each row belongs to; else rows with the same inputs are
            one unit, and every other row is its own.
    """
    names: tuple[str, ...] = ()
    title = "data"
    if isinstance(data, str | Path):
        path = as_path(data, "data").expanduser()
        title = path.name
        inputs, outputs, names = _read_file(path, target)
        y = outputs if y is None else y
    elif isinstance(data, tuple | list) and len(data) == 2 and y is None:
        inputs, y = (_array(part, name) for part, name in zip(data, "xy", strict=True))
    else:
        inputs = _array(data, "x")
    if inputs.ndim == 3:
        return _from_trajectories(inputs, time_step, names, title)
    if inputs.ndim != 2:
        got = f"shape {inputs.shape}"
        raise invalid("x", "a table (n, d), or trajectories (N, T, d)", got, "reshape it")
    x = torch.from_numpy(inputs)
    check_finite(x, "x")
    if units is None:  # copies of a row do not tell anything about others
        rows = x.unique(dim=0, return_inverse=True)[1]
    else:
        rows = torch.from_numpy(_array(units, "units"))
    if rows.shape != (len(x),):
        got = f"shape {tuple(rows.shape)}"
        raise invalid("units", f"{len(x)} numbers, one for each row", got, "check the table")
    return VectorTable(x, _outputs(y, len(x)), rows, _named(names, x.shape[1]), title)


def _outputs(y: NDArray[Any] | Tensor | None, count: int) -> Tensor | None:
    if y is None:
        return None
    values = torch.from_numpy(_array(y, "y"))
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count:
        got = f"shape {tuple(values.shape)}"
        raise invalid("y", f"{count} rows, as x has", got, "give one row of outputs for each input")
    check_finite(values, "y")
    return values


def _named(names: tuple[str, ...], dim: int) -> tuple[str, ...]:
    return tuple(printable(name) for name in names) or tuple(f"x{i + 1}" for i in range(dim))


def _array(values: object, name: str) -> NDArray[np.float64]:
    """Numbers as a float64 array."""
    plain = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    try:
        array = np.asarray(plain)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"values of type {array.dtype}")
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        got = f"{short(values)} ({error})"
        raise invalid(name, "numbers", got, "give an array of real numbers") from error


def _read_file(
    path: Path, target: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, tuple[str, ...]]:
    if not path.is_file():
        raise invalid("data", "an existing .npz or .csv file", repr(str(path)), "check the path")
    check_memory("data", 4 * path.stat().st_size)
    if path.suffix == ".csv":
        return _read_csv(path, target)
    if path.suffix != ".npz":
        raise invalid(
            "data", "an .npz or .csv file", repr(path.name), "save arrays x and y as .npz"
        )
    remedy = "save it again with numpy.savez, without objects"
    unreadable = invalid("data", "an .npz file of arrays", f"{path.name}, which is none", remedy)
    try:
        with zipfile.ZipFile(path) as archive:
            needed = [one for one in archive.infolist() if Path(one.filename).stem in _MEMBERS]
    except (OSError, zipfile.BadZipFile) as error:
        raise unreadable from error
    check_memory("data", 2 * sum(one.file_size for one in needed))
    try:
        with np.load(path, allow_pickle=False) as members:
            known = {name: members[name] for name in members.files if name in _MEMBERS}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise unreadable from error
    if "trajectories" in known:
        return _array(known["trajectories"], "trajectories"), None, ()
    if "x" not in known:
        raise invalid(
            "data", "an array named x or trajectories", path.name, "np.savez(path, x=x, y=y)"
        )
    outputs = _array(known["y"], "y") if "y" in known else None
    return _array(known["x"], "x"), outputs, ()


_MEMBERS = ("x", "y", "trajectories")


def _read_csv(
    path: Path, target: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, tuple[str, ...]]:
    with path.open(newline="", encoding="utf-8", errors="replace") as stream:
        rows = list(csv.reader(stream))
    if len(rows) < 2:
        raise invalid("data", "a header and rows of numbers", path.name, "write a header line")
    header, *body = rows
    header = [name.strip() for name in header]
    missing = sorted(set(target) - set(header))
    if missing:
        got = ", ".join(missing)
        raise invalid("target", f"columns among {', '.join(header)}", got, "check the spelling")
    try:
        table = np.array([[float(cell) for cell in row] for row in body if row], dtype=np.float64)
    except ValueError as error:
        raise invalid(
            "data", "numbers in every cell", f"{path.name}: {error}", "clean it"
        ) from error
    if table.ndim != 2 or table.shape[1] != len(header):
        got = f"{path.name}: rows of other lengths"
        raise invalid("data", f"{len(header)} cells in every row", got, "clean it")
    outputs = [header.index(name) for name in target]
    inputs = [i for i in range(len(header)) if i not in outputs]
    if not inputs:
        raise invalid("target", "columns that leave inputs", "all columns", "name fewer")
    y = table[:, outputs] if outputs else None
    return table[:, inputs], y, tuple(header[i] for i in inputs)


def _from_trajectories(
    states: NDArray[np.float64], time_step: float | None, names: tuple[str, ...], title: str
) -> VectorTable:
    """States and velocities, by central differences of fourth order."""
    step = 1.0 if time_step is None else time_step
    check_positive(step, "time_step")
    if states.shape[1] < 5:
        got = f"{states.shape[1]}"
        raise invalid("trajectories", "at least 5 states of each", got, "give longer trajectories")
    values = torch.from_numpy(states)
    check_finite(values, "trajectories")
    velocity = 8 * (values[:, 3:-1] - values[:, 1:-3]) - (values[:, 4:] - values[:, :-4])
    velocity = velocity / (12 * step)
    inner = values[:, 2:-2]
    number, length = inner.shape[:2]
    units = torch.arange(number)[:, None].expand(number, length)
    if number == 1:
        units = (torch.arange(length) * PIECES // length)[None]
    x, y = inner.flatten(0, 1).contiguous(), velocity.flatten(0, 1).contiguous()
    return VectorTable(x, y, units.flatten(), _named(names, x.shape[1]), title, number)
