"""Tables 1 and 3 in the paper's layout, and the rows that were not run, with their cost."""

import math
from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any

from relaxed_choices import rate_of

Row = dict[str, Any]
COLUMNS = {
    "CIFAR-10": ("cifar10", False),
    "CIFAR-10, augmented": ("cifar10", True),
    "CIFAR-100": ("cifar100", False),
    "CIFAR-100, augmented": ("cifar100", True),
}
MODELS = ("strict", "partial", "soft")
SEEDS, SHORT, EPOCHS = 3, 6, 30  # of the paper; epochs of earlier runs, and of the recipe


def recipe_rows(results: Row) -> list[Row]:
    """Rows of cifar.py that were measured on test images."""
    return [row for row in results.get("cifar", {}).get("rows", []) if not row["validation"]]


def matching(rows: Sequence[Row], line: Row, data: str, augment: bool) -> list[Row]:
    """The runs of one cell of the table, one for each seed: those with the most epochs."""
    mode = line["model"].split()[0]
    key = (line["rotations"], mode, line["penalty"], data, augment)
    names = ("rotations", "mode", "penalty", "data", "augment")
    found = [row for row in rows if tuple(row[name] for name in names) == key]
    most = max((row["epochs"] for row in found), default=0)
    return [row for row in found if row["epochs"] == most]


def short_rows(results: Row) -> list[Row]:
    """Earlier rows: a plain network of three layers, six epochs."""
    rows = [row for row in results["rows"] if row["experiment"] == "table3"]
    return [row for row in rows if not row["validation"] and row["epochs"] == SHORT]


def said(values: Sequence[float], note: str = "") -> str:
    """Mean, standard deviation, number of seeds."""
    if not values:
        return "not run"
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{deviation} ({len(values)}{note})"


def cell(results: Row, line: Row, data: str, augment: bool) -> str:
    """Accuracy by the recipe, or that of a short run, which is said."""
    rows = matching(recipe_rows(results), line, data, augment)
    if rows:
        longer = rows[0]["epochs"]
        note = "" if longer == EPOCHS else f"; {longer} epochs"
        return said([row["accuracy"] for row in rows], note)
    groups: dict[tuple[float, float], list[float]] = {}  # by start and rate of a learned omega'
    for row in matching(short_rows(results), line, data, augment):
        groups.setdefault((row["omega"], rate_of(row)), []).append(row["accuracy"])
    return said(max(groups.values(), key=len, default=[]), "; short")


def label(line: Row) -> str:
    """The name of a row as the paper has it."""
    penalty = "" if line["penalty"] is None else f", lambda = {line['penalty']:g}"
    return line["model"] + penalty


def where(line: Row) -> str:
    """The group of a row."""
    return "T(2)" if line["rotations"] == 1 else f"{line['rotations']} rotations"


def main_rows(
    results: Row, expected: Row, learned: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Strict, partial and soft with a fixed omega', or learned ones: paper and ours by group."""
    body = []
    for line in expected["table3"]:
        if (line["penalty"] is not None) != learned:
            continue
        cells = [where(line), label(line)]
        for data, augment in COLUMNS.values():
            paper = line[data + "_augmented" * augment]
            cells.append(f"{paper[0]:.1f} \\| {cell(results, line, data, augment)}")
        body.append(cells)
    return ["group", "model", *COLUMNS], body


def missing(results: Row, expected: Row) -> Iterator[tuple[Row, str, bool, int]]:
    """Cells of the table without all of their seeds: row, set, augmentation, seeds to go."""
    rows = recipe_rows(results)
    for line in expected["table3"]:
        for data, augment in COLUMNS.values():
            found = [r for r in matching(rows, line, data, augment) if r["epochs"] >= EPOCHS]
            left = SEEDS - len(found)
            if left > 0:
                yield line, data, augment, left


def pace(results: Row) -> dict[tuple[int, str], float]:
    """Seconds of a GPU that a run of the recipe took on average, by rotations and mode."""
    times: dict[tuple[int, str], list[float]] = {}
    for row in recipe_rows(results):
        shared = row.get("lanes", 1)  # runs on the GPU at a time
        seconds = row["seconds"] * EPOCHS / row["epochs"] / shared
        times.setdefault((row["rotations"], row["mode"]), []).append(seconds)
    return {key: mean(values) for key, values in times.items()}


def run_seconds(times: dict[tuple[int, str], float], line: Row) -> float | None:
    """Seconds of a GPU that a run of a row takes: measured, or estimated from other rows.

    A mode that was not run costs what the others do. Operations grow with the square of the number
    of rotations, and so does the estimate, from the largest number that was run.

    Args:
        times: of ``pace``.
        line: a row of Table 3.
    """
    n, mode = line["rotations"], line["model"].split()[0]
    if n == 1 or (n, mode) in times:
        return times.get((n, mode))
    most = max(k for k, _ in times if k <= n)
    return mean(t for (k, _), t in times.items() if k == most) * (n / most) ** 2


def not_run(results: Row, expected: Row) -> tuple[list[str], list[list[str]]]:
    """By group: runs that are missing, and the GPU minutes they would take with the recipe."""
    times = pace(results)
    totals: dict[str, list[float]] = {}
    for line, _, _, left in missing(results, expected):
        n, known = line["rotations"], run_seconds(times, line)
        fixed = "learned omega'" if line["penalty"] is not None else "strict, partial, fixed omega'"
        if n == 1 and line["penalty"] is None:
            fixed = line["model"]
        entry = totals.setdefault(f"{where(line)}, {fixed}", [0, 0.0, 1.0])
        entry[0] += left
        entry[1] += left * (known or 0.0)
        entry[2] *= known is not None
    body = [
        [name, f"{count:.0f}", f"{cost / 60:.0f}" if known else "not known"]
        for name, (count, cost, known) in totals.items()
    ]
    return ["rows", "runs to go", "GPU minutes, estimated"], body


def above(ours: Sequence[float], other: Sequence[float], note: str = "") -> str:
    """Whether a model is above another one, by two standard errors over the seeds.

    Where one of them has a single seed there is no standard error, and no verdict.
    """
    gap = mean(ours) - mean(other)
    if min(len(ours), len(other)) < 2:
        return f"one seed ({gap:+.1f}{note})"
    error = math.hypot(*(stdev(v) / math.sqrt(len(v)) for v in (ours, other)))
    word = "cannot be told" if abs(gap) < 2 * error else "holds" if gap > 0 else "does not hold"
    return f"{word} ({gap:+.1f} ± {error:.1f}{note})"


def compared(long: Sequence[list[float]], short: Sequence[list[float]], i: int, j: int) -> str:
    """Model i above model j, both by the recipe, or else both of short runs."""
    for rows, note in ((long, ""), (short, "; short")):
        if rows[i] and rows[j]:
            return above(rows[i], rows[j], note)
    return "not run"


def reached(
    long: Sequence[list[float]], short: Sequence[list[float]], paper: Sequence[float]
) -> str:
    """How many models are at or above the paper, by the recipe or else in short runs."""
    ours, note = (long, "") if any(long) else (short, "; short")
    gaps = [mean(v) - p for v, p in zip(ours, paper, strict=True) if v]
    if not gaps:
        return "not run"
    note += "; one seed" if min(len(v) for v in ours if v) < 2 else ""
    said = ", ".join(f"{gap:+.1f}" for gap in gaps)
    left = [name for name, v in zip(MODELS, ours, strict=True) if not v]
    rest = f", {' and '.join(left)} not run by the recipe" if left else ""
    return f"{sum(gap >= 0 for gap in gaps)} of {len(gaps)} ({said}{note}){rest}"


def verdicts(results: Row, expected: Row) -> tuple[list[str], list[list[str]]]:
    """What the paper claims of its tables, without augmentation."""
    body = []
    for data, name in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        for n in (4, 8):
            lines = [t for t in expected["table3"] if t["rotations"] == n and t["penalty"] is None]
            long, short = (
                [[r["accuracy"] for r in matching(rows, t, data, False)] for t in lines]
                for rows in (recipe_rows(results), short_rows(results))
            )
            pairs = [compared(long, short, i, j) for i, j in ((1, 0), (2, 1), (2, 0))]
            reach = reached(long, short, [t[data][0] for t in lines])
            body.append([f"{name}, {n} rotations", *pairs, reach])
    head = ["set", "partial above strict", "soft above partial", "soft above strict"]
    return [*head, "at or above the paper"], body


def choices(results: Row) -> tuple[list[str], list[list[str]]]:
    """The recipes that were compared on held-out training images."""
    rows = [row for row in results.get("cifar", {}).get("rows", []) if row["validation"]]
    body = []
    for row in rows:
        s = row["settings"]
        first = "half size" if s["pool_first"] else "full size"
        name = f"{s['kernel_size']} x {s['kernel_size']}, {s['width']} fields, {first}"
        rest = f"{s['dropout']:g}, {s['smoothing']:g}, {s['weight_decay']:g}"
        line = [row["recipe"], name, rest, str(row["epochs"]), f"{row['accuracy']:.2f}"]
        body.append([*line, f"{row['training_accuracy']:.1f}", f"{row['seconds']:.0f}"])
    head = ["recipe", "kernels", "dropout, smoothing, weight decay", "epochs"]
    head += ["held-out accuracy", "training accuracy", "seconds"]
    return head, body
