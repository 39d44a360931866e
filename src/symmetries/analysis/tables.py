"""Tables of vectors and trajectories, as functions and commands take them."""

import csv
import hashlib
from array import array
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
from symmetries.data.arrays import npz_members, read_npz, refuse_objects
from symmetries.data.checked_files import check_memory, unreadable
from symmetries.lie.charts import FLAT
from symmetries.results.generators import VectorSummary

TableData = str | Path | NDArray[Any] | Tensor | Sequence[Any]
LARGEST = 1e100  # numbers whose squares and products can be computed with
NEARLY = 0.01  # standard deviations of directions that nearly vanish
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
        """Return what a result records about the data."""
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


def nearly_dependent(x: Tensor, names: Sequence[str]) -> str:
    """Return a warning about columns that nearly depend on each other, or an empty string.

    Args:
        x: (n, d).
        names: of the columns.
    """
    spread = x.std(0)
    varies = spread > 0
    scaled = (x - x.mean(0))[:, varies] / spread[varies] / max(1, len(x) - 1) ** 0.5
    _, size, axes = torch.linalg.svd(torch.linalg.qr(scaled, mode="r").R)
    near = ((size > FLAT * size[0]) & (size < NEARLY)).nonzero()[:, 0]
    if len(near) == 0:
        return ""
    loads = axes[near[0]].abs()
    kept = [name for name, there in zip(names, varies.tolist(), strict=True) if there]
    some = ", ".join(name for name, load in zip(kept, loads.tolist(), strict=True) if load > 0.2)
    return (
        f"Columns {some} nearly depend on each other: the direction in which they differ has "
        f"{float(size[near[0]]):.1g} standard deviations. Speeds along it count in its own units, "
        "so that fields along it can pass for symmetries. Leave one of these columns out."
    )


def far_away(x: Tensor, names: Sequence[str]) -> str:
    """A warning about a row that carries most of the variance of a column, or an empty string.

    Args:
        x: (n, d).
        names: of the columns.
    """
    squares = (x - x.median(0).values).square()
    largest, row = squares.max(0)
    carried = (largest > 0.5 * squares.sum(0)).nonzero()[:, 0].tolist()
    if not carried:
        return ""
    name, where = names[carried[0]], int(row[carried[0]]) + 1
    return (
        f"Row {where} carries more than half of the variance of {name}. Speeds count in standard "
        "deviations, so that answers are about this row more than about all others. Check it."
    )


def is_table(data: str | Path) -> bool:
    """Whether a path is a file of vectors or trajectories, and not one of pictures.

    Args:
        data: a .csv file; an .npz file with arrays x or trajectories, or one that is not there.
    """
    path = as_path(data, "data").expanduser()
    if path.suffix != ".npz" or not path.is_file():
        return path.suffix in (".csv", ".npz")
    return bool({"x", "trajectories"} & set(npz_members(path))) or "images" not in npz_members(path)


def read_table(
    data: TableData,
    y: NDArray[Any] | Tensor | None = None,
    *,
    target: Sequence[str] = (),
    time_step: float | None = None,
    units: NDArray[Any] | Tensor | None = None,
) -> VectorTable:
    """Return a table from a file or from arrays.

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
    if inputs.shape[-1:] == (0,):
        raise invalid("x", "vectors with coordinates", f"shape {inputs.shape}", "check the data")
    if inputs.ndim == 3:
        return _from_trajectories(inputs, time_step, names, title)
    if inputs.ndim != 2:
        got = f"shape {inputs.shape}"
        raise invalid("x", "a table (n, d), or trajectories (N, T, d)", got, "reshape it")
    if time_step is not None:
        remedy = "leave it out: a table has no time"
        raise invalid("time_step", "trajectories", f"a table {inputs.shape}", remedy)
    x = torch.from_numpy(inputs)
    _check_size(x, "x")
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
    if values.ndim != 2 or len(values) != count or not values.shape[1]:
        got = f"shape {tuple(values.shape)}"
        raise invalid("y", f"{count} rows, as x has", got, "give one row of outputs for each input")
    _check_size(values, "y")
    return values


def _check_size(values: Tensor, name: str) -> None:
    """Raise an error unless all numbers and their squares are finite."""
    check_finite(values, name)
    size = float(values.abs().max()) if values.numel() else 0.0
    if size > LARGEST or 0 < size < 1 / LARGEST:
        expected = f"numbers of a size between {1 / LARGEST:g} and {LARGEST:g}"
        raise invalid(name, expected, f"up to {size:g}", "choose other units")


def _named(names: tuple[str, ...], dim: int) -> tuple[str, ...]:
    return tuple(printable(name) for name in names) or tuple(f"x{i + 1}" for i in range(dim))


def _array(values: object, name: str) -> NDArray[np.float64]:
    """Return numbers as a float64 array."""
    plain = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    try:
        given = np.asarray(plain)
        if given.dtype.kind not in "biuf":
            raise TypeError(f"values of type {given.dtype}")
        return np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        got = f"{short(values)} ({error})"
        raise invalid(name, "numbers", got, "give an array of real numbers") from error


def _read_file(
    path: Path, target: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, tuple[str, ...]]:
    if not path.is_file():
        raise invalid("data", "an existing .npz or .csv file", repr(str(path)), "check the path")
    if path.suffix == ".csv":
        return _read_csv(path, target)
    if path.suffix != ".npz":
        remedy = "save arrays x and y as .npz"
        raise invalid("data", "an .npz or .csv file", repr(path.name), remedy)
    if target:
        got = f"{', '.join(target)} and {path.name}"
        remedy = "name the outputs y in the .npz file"
        raise invalid("target", "columns of a .csv file", got, remedy)
    return _read_npz(path)


_MEMBERS = ("x", "y", "trajectories")
_CHUNK = 2**20  # numbers of a .csv file, after which free memory is looked at


def _read_npz(
    path: Path,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, tuple[str, ...]]:
    there = npz_members(path)
    refuse_objects(path, there, set(_MEMBERS))
    wanted = [name for name in _MEMBERS if name in there]
    if "trajectories" in wanted:
        wanted = ["trajectories"]
    elif "x" not in wanted:
        got = f"{path.name} with arrays of numbers named {sorted(there)}"
        raise invalid("data", "an array named x or trajectories", got, "np.savez(path, x=x, y=y)")
    # Each array as it is stored, and as float64.
    sizes = [there[name].items * (there[name].dtype.itemsize + 8) for name in wanted]
    check_memory("data", sum(sizes))
    arrays = read_npz(path, wanted)
    outputs = _array(arrays["y"], "y") if "y" in arrays else None
    return _array(arrays[wanted[0]], wanted[0]), outputs, ()


def _read_csv(
    path: Path, target: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, tuple[str, ...]]:
    header, table = _csv_numbers(path)
    missing = sorted(set(target) - set(header))
    if missing:
        got = ", ".join(missing)
        raise invalid("target", f"columns among {', '.join(header)}", got, "check the spelling")
    outputs = [header.index(name) for name in target]
    inputs = [i for i in range(len(header)) if i not in outputs]
    if not inputs:
        raise invalid("target", "columns that leave inputs", "all columns", "name fewer")
    y = np.take(table, outputs, axis=1) if outputs else None
    return np.take(table, inputs, axis=1), y, tuple(header[i] for i in inputs)


def _csv_numbers(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Return the header, and the numbers of all rows; only numbers are held, not their text."""
    numbers: array[float] = array("d")
    checked = _CHUNK
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
            rows = (row for row in csv.reader(stream) if row)
            header = [name.strip() for name in next(rows, [])]
            for row in rows:
                if len(row) != len(header):
                    got = f"{path.name}: {len(row)} in row {len(numbers) // len(header) + 2}"
                    raise invalid("data", f"{len(header)} cells in every row", got, "clean it")
                numbers.extend(_number(cell) for cell in row)
                if len(numbers) > checked:  # it is copied as it grows, and at the end
                    checked = 2 * len(numbers)
                    check_memory(path, 2 * numbers.itemsize * checked)
    except csv.Error as error:  # a quote that never ends, cells of 100,000 letters
        raise invalid("data", "a .csv file", f"{path.name}: {error}", "clean it") from error
    except OSError as error:
        raise unreadable(path, error) from error
    if not numbers:
        raise invalid("data", "a header and rows of numbers", path.name, "write a header line")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise invalid("data", "columns of different names", f"{twice!r} twice", "rename one")
    return header, np.frombuffer(numbers, np.float64).reshape(-1, len(header))


def _number(cell: str) -> float:
    """Parse a number; unlike Python, refuse underscores such as 1_0."""
    try:
        if "_" not in cell:
            return float(cell)
    except ValueError:
        pass
    raise invalid("data", "numbers in every cell", short(cell), "clean it")


def _from_trajectories(
    states: NDArray[np.float64], time_step: float | None, names: tuple[str, ...], title: str
) -> VectorTable:
    """Return states and velocities, by central differences of fourth order."""
    step = 1.0 if time_step is None else time_step
    check_positive(step, "time_step")
    if states.shape[1] < 5:
        got = f"{states.shape[1]}"
        raise invalid("trajectories", "at least 5 states of each", got, "give longer trajectories")
    values = torch.from_numpy(states)
    _check_size(values, "trajectories")
    velocity = 8 * (values[:, 3:-1] - values[:, 1:-3]) - (values[:, 4:] - values[:, :-4])
    velocity = velocity / (12 * step)
    inner = values[:, 2:-2]
    number, length = inner.shape[:2]
    units = torch.arange(number)[:, None].expand(number, length)
    if number == 1:
        units = (torch.arange(length) * PIECES // length)[None]
    x, y = inner.flatten(0, 1).contiguous(), velocity.flatten(0, 1).contiguous()
    return VectorTable(x, y, units.flatten(), _named(names, x.shape[1]), title, number)
