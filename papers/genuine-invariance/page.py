"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

HERE = Path(__file__).parent
SEEN = " †"  # of rows with a setting that was chosen with test accuracy in view
ROUNDED = 1e-9  # what is left of zero in double precision
GENUINE = 0.95  # the paper's SI of IR, which a weight of the penalty must reach on held-out images
Row = dict[str, Any]
Rows = dict[str, Row]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    own = results["plain"]["table"]
    return {
        "screen": screen(own, expected["table"], table),
        "grid": grid(own, table),
        "table1": methods(results["table"], expected, table, verdict),
        "cpu": on_cpu(results, table, verdict),
        "drift": drift(results["drift"], table),
    }


def weights(rows: Rows) -> list[str]:
    """Names of the rows with a fixed weight of the penalty, in the order of the weights."""
    return sorted((n for n in rows if n.startswith("IR-nu-")), key=lambda n: rows[n]["nu"][0])


def chosen(rows: Rows) -> str | None:
    """The weight of best validation accuracy among those that are genuine on held-out images."""
    good = [name for name in weights(rows) if mean(rows[name]["validation_si"]) >= GENUINE]
    return max(good, key=lambda name: mean(rows[name]["validation"]), default=None)


def accuracies_at(rows: Rows, similarity: float) -> list[float]:
    """Test accuracy at a similarity for each seed, on the line between two weights beside it."""
    found = []
    for seed in range(min((len(rows[n]["si"]["seeds"]) for n in weights(rows)), default=0)):
        points = sorted(
            (rows[n]["si"]["seeds"][seed], rows[n]["accuracy"]["seeds"][seed])
            for n in weights(rows)
        )
        found += [
            first + (second - first) * (similarity - low) / (high - low)
            for (low, first), (high, second) in pairwise(points)
            if low <= similarity < high
        ][:1]
    return found


def screen(found: dict[str, Rows], expected: dict[str, Rows], table: Table) -> str:
    """Table 1 in the paper's layout, trained as the paper says."""
    body = []
    for group, rows in expected.items():
        own = found.get(group, {})
        names = {"WT": "WT-plain", "DA": "DA-plain", "IR": chosen(own) or ""}
        for name, paper in rows.items():
            row = own.get(names[name])
            if row is None:
                said = "not run"
                if name == "IR" and weights(own):
                    said = f"no weight reaches SI {paper['si']:g} on held-out images"
                cells = [f"{paper[key]:g} \\| -" for key in ("accuracy", "li", "di", "si")]
                body.append([group.upper(), name, *cells, said])
                continue
            numbers = row["accuracy"]
            seeds = len(numbers["seeds"])
            cells = [
                f"{paper['accuracy']:g} \\| {numbers['mean']:.1f} ± {numbers['std']:.1f} ({seeds})"
            ]
            for key, form in (("li", ".2g"), ("di", ".2g"), ("si", ".3f")):
                value = row[key]["mean"]
                shown = "0" if abs(value) < ROUNDED else f"{value:{form}}"
                cells.append(f"{paper[key]:g} \\| {shown}")
            if name == "IR":
                said = penalty_verdict(own, row, paper)
            else:
                said = plain_verdict(name, row, paper)
            body.append([group.upper(), name + SEEN * (name == "WT"), *cells, said])
    return table(["group", "method", "accuracy", "LI", "DI", "SI", "verdict"], body)


def plain_verdict(name: str, row: Row, paper: Row) -> str:
    """Whether saliency is as claimed, and accuracy that of the paper within its spread."""
    similar = row["si"]["mean"]
    if not (similar > 0.99 if name == "WT" else similar < 0.6):
        return "does not hold"
    gap = paper["accuracy"] - row["accuracy"]["mean"]
    near = gap <= row["accuracy"]["std"]
    return "holds" if near else f"SI as claimed, accuracy {gap:.1f} points below"


def penalty_verdict(rows: Rows, row: Row, paper: Row) -> str:
    """Whether the chosen weight reaches the paper, and whether the curve of all weights does."""
    gap = paper["accuracy"] - row["accuracy"]["mean"]
    if gap <= 0 and row["si"]["mean"] >= paper["si"]:
        return f"holds (nu = {row['nu'][0]:g})"
    at = accuracies_at(rows, paper["si"])
    beside = "no weights on either side"
    if len(at) > 1:
        beside = f"{mean(at):.1f} ± {stdev(at):.1f} between two weights{SEEN}"
    return f"{gap:.1f} points below with nu = {row['nu'][0]:g}; at SI {paper['si']:g} {beside}"


def grid(found: dict[str, Rows], table: Table) -> str:
    """Accuracy and SI by the weight of the penalty: on held-out images, then on test images."""
    body = []
    for group, rows in found.items():
        for name in weights(rows):
            row = rows[name]
            held = [f"{100 * mean(row['validation']):.1f}", f"{mean(row['validation_si']):.3f}"]
            accuracy = f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['std']:.1f}"
            numbers = [f"{row['si']['mean']:.3f}", f"{row['li']['mean']:.2g}"]
            mark = "chosen" if name == chosen(rows) else ""
            spread = f"{row['sigma_max']['mean']:.1f}"
            line = [group.upper(), f"{row['nu'][0]:g}", *held, accuracy, *numbers, spread, mark]
            body.append(line)
    head = ["", "nu", "held out: accuracy", "SI", "test: accuracy", "SI", "LI", "sigma", ""]
    return table(head, body)


def methods(found: dict[str, Rows], expected: Row, table: Table, verdict: Verdict) -> str:
    """Table 1 with all methods, the paper's and further ones."""
    keys = ("accuracy", "li", "di", "si")
    body = []
    for group, rows in found.items():
        for name, row in rows.items():
            paper = expected["table"][group].get(name.removesuffix("-random"))
            if name in ("NLI-random", "NLI-centred", "DI-random"):
                paper = None
            target = expected["targets"][group].get(name)
            signs = {"min": 1, "max": -1}
            holds = target and all(
                signs[bound[-3:]] * (row[bound[:-4]]["mean"] - value) >= 0
                for bound, value in target.items()
            )
            accuracy = f"{row['accuracy']['mean']:.2f} ± {row['accuracy']['std']:.2f}"
            numbers = [f"{row[key]['mean']:.2g}" for key in ("li", "di")]
            last = [f"{row['si']['mean']:.3f}", f"{row['sigma_max']['mean']:.1f}"]
            said = ", ".join(f"{paper[key]:g}" for key in keys) if paper else "-"
            judged = verdict(bool(holds)) if target else "no goal"
            body.append([group.upper(), name + SEEN, accuracy, *numbers, *last, said, judged])
    head = ["", "method", "accuracy", "LI", "DI", "SI", "sigma", "paper: acc., LI, DI, SI", "goal"]
    return table(head, body)


def drift(found: dict[str, Rows], table: Table) -> str:
    """DI and accuracy on the way from one set to the other."""
    body = [
        [group.upper(), name, *(f"{abs(curve['di'][i]):.2g}" for i in (0, 5, 10))]
        + [f"{curve['accuracy_ratio'][i]:.2f}" for i in (2, 5, 10)]
        for group, curves in found.items()
        for name, curve in curves.items()
    ]
    head = ["", "method", *(f"DI at {b}" for b in (0, 0.5, 1))]
    return table([*head, *(f"accuracy ratio at {b}" for b in (0.2, 0.5, 1))], body)


def on_cpu(results: Row, table: Table, verdict: Verdict) -> str:
    """Table 1 on two cores beside that of the GPU; results-cpu.json is run.py's own."""
    path = HERE / "results-cpu.json"
    if not path.exists():
        estimate = results["cpu_estimate"]["rows"]
        minutes = sum(5860 * row["step"] + 58 * row["look"] for row in estimate) / 60
        said = "Not run in full; by 13 steps of each method training takes"
        return f"{said} {minutes:.0f} minutes on one thread (`cpu_estimate`).\n"
    found = json.loads(path.read_text())
    rows = [
        [group.upper(), name]
        + [
            f"{part[name]['accuracy']['mean']:.2f} ± {part[name]['accuracy']['std']:.2f}"
            for part in both
        ]
        + [f"{part[name]['si']['mean']:.3f}" for part in both]
        + [f"{both[0][name]['seconds'] / 60:.1f}"]
        for group, own in found["table"].items()
        for both in ((own, results["table"][group]),)
        for name in own
    ]
    head = ["", "method", "accuracy: CPU", "H200", "SI: CPU", "H200", "minutes of training: CPU"]
    minutes, threads = found["seconds"] / 60, found["environment"]["threads"]
    goal = verdict(minutes <= 60)
    said = f"The whole run took {minutes:.0f} minutes on {threads} threads (goal: an hour; {goal})."
    return table(head, rows) + "\n" + said + "\n"
