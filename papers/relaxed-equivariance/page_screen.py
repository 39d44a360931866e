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


def pace(results: Row) -> dict[str, float]:
    """Seconds of a GPU that a run of the recipe takes with 4 rotations, and on T(2), by mode."""
    times: dict[str, list[float]] = {}
    for row in recipe_rows(results):
        if row["rotations"] in (1, 4):
            name = ("t2-" if row["rotations"] == 1 else "") + row["mode"]
            shared = row.get("lanes", 1)  # runs on the GPU at a time
            times.setdefault(name, []).append(row["seconds"] * EPOCHS / row["epochs"] / shared)
    return {name: mean(values) for name, values in times.items()}


def not_run(results: Row, expected: Row) -> tuple[list[str], list[list[str]]]:
    """By group: runs that are missing, and the GPU minutes they would take with the recipe.

    Operations grow with the square of the number of rotations; so does the estimate.
    """
    seconds = pace(results)
    totals: dict[str, list[float]] = {}
    for line, _, _, left in missing(results, expected):
        n, mode = line["rotations"], line["model"].split()[0]
        known = seconds.get("t2-" + mode if n == 1 else mode)
        cost = (known or 0.0) * (1 if n == 1 else (n / 4) ** 2)
        fixed = "learned omega'" if line["penalty"] is not None else "strict, partial, fixed omega'"
        if n == 1 and line["penalty"] is None:
            fixed = line["model"]
        entry = totals.setdefault(f"{where(line)}, {fixed}", [0, 0.0, 1.0])
        entry[0] += left
        entry[1] += left * cost
        entry[2] *= known is not None
    body = [
        [name, f"{count:.0f}", f"{cost / 60:.0f}" if known else "not known"]
        for name, (count, cost, known) in totals.items()
    ]
    return ["rows", "runs to go", "GPU minutes, estimated"], body


def above(ours: Sequence[float], other: Sequence[float]) -> str:
    """Whether a model is above another one, by two standard errors over the seeds."""
    gap = mean(ours) - mean(other)
    error = math.hypot(*(stdev(v) / math.sqrt(len(v)) for v in (ours, other) if len(v) > 1))
    word = "cannot be told" if abs(gap) < 2 * error else "holds" if gap > 0 else "does not hold"
    return f"{word} ({gap:+.1f} ± {error:.1f})"


def verdicts(results: Row, expected: Row) -> tuple[list[str], list[list[str]]]:
    """What the paper claims of its tables, without augmentation."""
    rows, body = recipe_rows(results), []
    for data, name in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        for n in (4, 8):
            lines = [t for t in expected["table3"] if t["rotations"] == n and t["penalty"] is None]
            ours = [[r["accuracy"] for r in matching(rows, t, data, False)] for t in lines]
            note = ""
            if not all(ours):
                short = short_rows(results)
                ours = [[r["accuracy"] for r in matching(short, t, data, False)] for t in lines]
                note = "; short"
            if not all(ours):
                body.append([f"{name}, {n} rotations", *3 * ["not run"]])
                continue
            means = [mean(values) for values in ours]
            reach = [m >= t[data][0] for m, t in zip(means, lines, strict=True)]
            gaps = [f"{m - t[data][0]:+.1f}" for m, t in zip(means, lines, strict=True)]
            body.append(
                [
                    f"{name}, {n} rotations{note}",
                    above(ours[1], ours[0]),
                    above(ours[2], ours[1]),
                    f"{sum(reach)} of 3 ({', '.join(gaps)})",
                ]
            )
    head = ["set", "partial above strict", "soft above partial", "at or above the paper"]
    return head, body


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
