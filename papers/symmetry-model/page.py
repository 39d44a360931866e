"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from math import exp
from statistics import mean
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]
DIGITS = "0123456789"


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    goal = expected["targets"]
    mnist = columns(results["runs"])
    # The long run's second stage was cut short: it says something about f only.
    first = [run for run in mnist if run["seed"] == 0 and run["variant"] == "ours"]
    head = ["parameter", "unit", *map(column_name, first)]
    trials = results["trials"]["rows"]
    return {
        "goals": goals(mnist, goal, table, verdict),
        "widths": table(head, widths_and_floors(first)),
        "modes": table(
            ["digit", *DIGITS],
            [
                [column_name(run)] + [f"{1 - run['modes'][d].get('1', 0.0):.0%}" for d in DIGITS]
                for run in first
            ],
        ),
        "planted": planted(results["runs"], goal, table, verdict),
        "ablations": table(ABLATION_HEAD, ablation_rows(results["ablations"])),
        "classifiers": table(*classifier_rows(results["classifiers"])),
        "quick": quick(results["quick"], table),
        "variants": table(VARIANT_HEAD, variant_rows(trials)),
    }


def columns(runs: Sequence[Row]) -> list[Row]:
    """Runs on MNIST under affine transformations: short ones by angle and seed, then the long."""
    chosen = [run for run in runs if run["task"] == "mnist-affine"]
    order = ("ours", "full")
    return sorted(chosen, key=lambda r: (order.index(r["variant"]), r["added"], r["seed"]))


def column_name(run: Row) -> str:
    """What a column is called."""
    steps = " + ".join(f"{stage['steps'] // 1000}k" for stage in run["stages"].values())
    return f"added {run['added']:g}" + (f", {steps}" if run["variant"] == "full" else "")


def span(values: Sequence[float], form: str) -> str:
    """Mean, and the range where there are several."""
    shown = format(mean(values), form)
    if len(values) == 1:
        return shown
    return f"{shown} ({format(min(values), form)} to {format(max(values), form)})"


def goals(runs: Sequence[Row], goal: Row, table: Table, verdict: Verdict) -> str:
    """A column for each added rotation: the mean over seeds, and the range."""
    names = list(dict.fromkeys(map(column_name, runs)))
    low, high = goal["rotation_width_ratio"]

    def line(what: str, said: str, form: str, value: Callable, holds: Callable) -> list[str]:
        cells, every = [], []
        for name in names:
            mine = [run for run in runs if column_name(run) == name]
            if "width90" in what and mine[0]["added"] == 0:
                cells.append("-")
                continue
            found = [value(run) for run in mine]
            every += found
            cells.append(span(found, form))
        met = sum(map(holds, every))
        counted = f"{met} of {len(every)}"
        # What is asked "after the full run" is judged by that.
        full = [value(run) for run in runs if run["variant"] == "full"]
        decides = full if full and "width90" not in what else every
        return [what, said, *cells, f"{verdict(all(map(holds, decides)))} ({counted})"]

    limit = goal["orbit_variance"]
    body = [
        line(
            f"orbit variance ratio{text}",
            f"{limit} or lower",
            ".3f",
            lambda run, n=n: run[f"orbit_variance_refine_{n}"]["ratio"],
            lambda v: v <= limit,
        )
        for n, text in ((0, ""), (2, ", refine=2"))
    ]
    body += [
        line(
            f"next eta after {n}, over the first",
            f"{goal['iterated']:.0%} or lower",
            ".1%",
            lambda run, n=n: run["iterated"][n],
            lambda v: v <= goal["iterated"],
        )
        for n in (1, 2, 5)
    ]
    said = f"{low} to {high}"
    body.append(
        line(
            "rotation, width90 over expected",
            said,
            ".3f",
            lambda run: run["rotation"]["ratio"],
            lambda v: bool(low <= v <= high),
        )
    )
    enough = goal["full_run_steps"]
    full = [
        run
        for run in runs
        if run["variant"] == "full"
        and all(stage["steps"] >= enough for stage in run["stages"].values())
    ]
    if full:
        limit = goal["full_run_seconds"]
        cells = ["-"] * len(names)
        for run in full:
            cells[names.index(column_name(run))] = f"{run['seconds']:.0f}"
        quick = verdict(all(run["seconds"] < limit for run in full))
        body.append(["seconds for both stages, alone", f"below {limit}", *cells, quick])
    counts = [sum(column_name(run) == name for run in runs) for name in names]
    short = [c for c, name in zip(counts, names, strict=True) if "," not in name]
    body.append(["seeds", "3", *map(str, counts), verdict(min(short, default=0) >= 3)])
    return table(["what", "goal", *names, ""], body)


def widths_and_floors(runs: Sequence[Row]) -> list[list[str]]:
    """A line for each parameter, a cell for each run."""
    lines = []
    for i, parameter in enumerate(runs[0]["summary"]):
        cells = []
        for run in runs:
            part = run["summary"][i]
            numbers = f"{part['width90']:.3g}, floor {part['noise_floor']:.3g}"
            cells.append(f"{numbers}: {part['verdict']}")
        lines.append([parameter["name"], parameter["unit"], *cells])
    return lines


def planted(runs: Sequence[Row], goal: Row, table: Table, verdict: Verdict) -> str:
    """Colours and sprites, on new versions of test images; seeds beside each other."""
    lines: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for run in runs:
        for name, part in run.get("colours", {}).items():
            ends = [f"{a:.2f} to {b:.2f}" for a, b in (part["planted"], part["new"])]
            said = f"{ends[0]}, ends within {goal['colour_ends']:.0%} of the range"
            found = f"{ends[1]} (off {part['off']:.1%})"
            holds = verdict(part["off"] <= goal["colour_ends"])
            lines.setdefault((run["task"], name, said), []).append((found, holds))
        for name, part in run.get("sprites", {}).items():
            for said, found, holds in sprite_lines(name, part, goal, verdict):
                lines.setdefault((run["task"], f"{name}s", said), []).append((found, holds))
    body = []
    for key, found in lines.items():
        holds = verdict(all(said == verdict(True) for _, said in found))
        body.append([*key, " / ".join(text for text, _ in found), holds])
    return table(["task", "what", "planted, goal", "ours (seeds)", ""], body)


def sprite_lines(name: str, part: Row, goal: Row, verdict: Verdict) -> list[list[str]]:
    """Goal, number and verdict for one shape."""
    worst = max(part["w1_x"], part["w1_y"])
    said = f"W1 of places below {goal['sprites_w1']} widths"
    lines = [[said, f"{worst:.4f}", verdict(worst < goal["sprites_w1"])]]
    if name == "heart":
        between, limit = part["share_between"], goal["heart_angle_degrees"]
        shown = f"{part['share_upper']:.0%} above, {between:.1%} in the gap"
        holds = 0.35 <= part["share_upper"] <= 0.65 and between < 0.05
        lines.append(["both modes of the height", shown, verdict(holds)])
        shown = f"median {part['angle_median']:.0f}, 90 % within {part['angle_90_percent']:.0f}"
        holds = part["angle_90_percent"] <= limit
        lines.append([f"upright within {limit:g} degrees", shown, verdict(holds)])
    if name == "ellipse":
        share, before = part["share_within_quarter"], part["share_within_quarter_planted"]
        shown = f"{share:.0%} within +-5 degrees of it (planted {before:.0%})"
        lines.append(["axis within a quarter turn", shown, verdict(share >= 0.9)])
    if name == "square":
        shown = f"{part['largest_share_of_9']:.0%} (planted {part['of_planted']:.0%})"
        holds = part["largest_share_of_9"] < 1 / 3
        lines.append(["turn freely: largest share of nine", shown, verdict(holds)])
    return lines


ABLATION_HEAD = [
    "task",
    "variant",
    "orbit variance",
    "refine=2",
    "next eta after 1",
    "after 5",
    "content kept",
    "angles of hearts' prototypes, moved hearts: 50 %, 90 % within",
]


def ablation_rows(rows: Sequence[Row]) -> list[list[str]]:
    """First stage alone, one thing changed at a time."""
    body = []
    for row in rows:
        numbers = [f"{row[f'orbit_variance_refine_{n}']['ratio']:.3f}" for n in (0, 2)]
        numbers += [f"{row['iterated'][n]:.1%}" for n in (1, 5)]
        hearts = row.get("heart_prototypes", {})
        angles = [f"{hearts[f'moved_{k}']:.0f}" for k in ("median", "90_percent") if hearts]
        kept = f"{row['content_kept']:.0%}"
        body.append([row["task"], row["variant"], *numbers, kept, ", ".join(angles) or "-"])
    return body


def classifier_rows(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """A line for each way, a column for each number of labels."""
    counts = sorted({row["labels"] for row in rows})
    body = []
    for way in dict.fromkeys(row["way"] for row in rows):
        cells = []
        for count in counts:
            found = [r["accuracy"] for r in rows if (r["way"], r["labels"]) == (way, count)]
            cells.append(span(found, ".2f") if found else "not run")
        body.append([way, *cells])
    return ["augmentation", *(f"{count:,} labels" for count in counts)], body


def quick(rows: Sequence[Row], table: Table) -> str:
    """Widths, floors and verdicts of the quick preset, a column for each parameter."""
    body = []
    for row in rows:
        cells = [f"{w:.3g}, floor {f:.2g}: {said}" for w, f, said in row["parts"].values()]
        body.append([str(row["seed"]), *cells])
    return table(["seed", *rows[0]["parts"]], body)


VARIANT_HEAD = [
    "variant",
    "orbit variance",
    "refine=2",
    "next eta after 1",
    "after 5",
    "floor of scale_x, a factor",
]


def variant_rows(rows: Sequence[Row]) -> list[list[str]]:
    """Trials of the first stage."""
    body = []
    for row in rows:
        if row["task"] == "mnist-affine":
            numbers = [f"{row[f'orbit_variance_refine_{n}']:.3f}" for n in (0, 2)]
            numbers += [f"{row['iterated'][n]:.1%}" for n in (1, 5)]
            numbers.append(f"{exp(row['noise_floor_log_scale_x']):.2f}")
            body.append([row["variant"], *numbers])
    return body
