"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

Row = dict[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Verdict = Callable[[bool], str]
DIGITS = "0123456789"
FULL = 60_000  # steps of each stage in the paper


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    goal = expected["targets"]
    mnist = columns(results["runs"])
    first = [run for run in mnist if run["seed"] == 0 and not is_full(run)]
    head = ["parameter", "unit", *map(column_name, first)]
    studies = results["studies"]
    found = {"goals": goals(mnist, results.get("timed", ()), goal, table, verdict)}
    if "settling" in studies:
        found["settling"] = table(SETTLING_HEAD, settling_rows(studies["settling"]["rows"], goal))
    found |= {
        "family": family(mnist, table),
        "widths": table(head, widths_and_floors(first)),
        "modes": table(
            ["digit", *DIGITS],
            [
                [column_name(run)] + [f"{1 - run['modes'][d].get('1', 0.0):.0%}" for d in DIGITS]
                for run in first
            ],
        ),
        "planted": planted(results["runs"], goal, table, verdict),
        "shapes": shapes(results["runs"], table),
        "ablations": table(
            ABLATION_HEAD,
            [
                *ablation_rows(results["ablations"]),
                *ablation_rows(results.get("earlier", ()), " (earlier)"),
            ],
        ),
        "classifiers": table(*classifier_rows(results["classifiers"])),
    }
    if "moments" in studies:
        found["moments"] = table(MOMENTS_HEAD, moment_rows(studies["moments"]["rows"]))
    if "few-images" in studies:
        found["few"] = table(FEW_HEAD, few_rows(studies["few-images"]["rows"]))
    return found


def columns(runs: Sequence[Row]) -> list[Row]:
    """Runs on MNIST under affine transformations: short ones by angle and seed, then the long."""
    chosen = [run for run in runs if run["task"] == "mnist-affine"]
    return sorted(chosen, key=lambda run: (is_full(run), run["added"], run["seed"]))


def is_full(run: Row) -> bool:
    """Whether the first stage was as long as the paper's."""
    return bool(run["stages"]["inference"]["steps"] >= FULL)


def column_name(run: Row) -> str:
    """What a column is called."""
    steps = " + ".join(f"{stage['steps'] // 1000}k" for stage in run["stages"].values())
    return f"added {run['added']:g}" + (f", {steps}" if is_full(run) else "")


def span(values: Sequence[float], form: str) -> str:
    """Mean, and the range where there are several."""
    shown = format(mean(values), form)
    if len(values) == 1:
        return shown
    return f"{shown} ({format(min(values), form)} to {format(max(values), form)})"


def goals(
    runs: Sequence[Row], timed: Sequence[Row], goal: Row, table: Table, verdict: Verdict
) -> str:
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
        full = [value(run) for run in runs if is_full(run)]
        decides = full if full and "width90" not in what else every
        if not every:
            return [what, said, *cells, "not run"]
        where = " in the full run" if decides is full else ""
        return [what, said, *cells, f"{verdict(all(map(holds, decides)))}{where} ({counted})"]

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
            ".2%",
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
    for run in timed:
        limit, seconds = goal["full_run_seconds"], run["seconds"]
        cells = [*["-"] * (len(names) - 1), f"{seconds:.0f}"]
        said = "seconds, 60k + 60k, alone"
        body.append([said, f"below {limit}", *cells, verdict(seconds < limit)])
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
    "steps",
    "orbit variance",
    "refine=2",
    "next eta after 1",
    "after 5",
    "content kept",
    "angles of hearts' prototypes, moved hearts: 50 %, 90 % within",
]


def ablation_rows(rows: Sequence[Row], note: str = "") -> list[list[str]]:
    """First stage alone, one thing changed at a time."""
    body = []
    for row in rows:
        numbers = [f"{row['stages']['inference']['steps']:,}"]
        numbers += [f"{row[f'orbit_variance_refine_{n}']['ratio']:.3f}" for n in (0, 2)]
        numbers += [f"{row['iterated'][n]:.1%}" for n in (1, 5)]
        hearts = row.get("heart_prototypes", {})
        angles = [f"{hearts[f'moved_{k}']:.0f}" for k in ("median", "90_percent") if hearts]
        kept = f"{row['content_kept']:.0%}"
        variant = row["variant"] + note
        body.append([row["task"], variant, *numbers, kept, ", ".join(angles) or "-"])
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


def family(runs: Sequence[Row], table: Table) -> str:
    """The variance over an orbit: found, with the best parameters, with exact elements."""
    runs = [run for run in runs if "family_orbit" in run]
    names = list(dict.fromkeys(map(column_name, runs)))

    def line(what: str, value: Callable[[Row], float]) -> list[str]:
        cells = [
            span([value(run) for run in runs if column_name(run) == name], ".3f") for name in names
        ]
        return [what, *cells]

    body = [
        line("f, on test images", lambda run: run["orbit_variance_refine_0"]["ratio"]),
        line("f, on images it learned from", lambda run: run["orbit_variance_learned"]["ratio"]),
        line("the best five parameters", lambda run: run["family_orbit"]["best"]),
        line("exact elements", lambda run: run["family_orbit"]["exact"]),
    ]
    return table(["prototypes from", *names], body)


def shapes(runs: Sequence[Row], table: Table) -> str:
    """Width, floor and verdict of the rotation for each shape, seeds beside each other."""
    mine = [run for run in runs if run["task"] == "sprites-affine" and "by_shape" in run]
    parts = [
        ("all", [rotation_of(run["summary"]) for run in mine]),
        *(
            (f"{name}s", [rotation_of(run["by_shape"][name]) for run in mine])
            for name in mine[0]["by_shape"]
        ),
    ]
    body = [
        [
            name,
            " / ".join(f"{part['width90']:.0f}" for part in found),
            " / ".join(f"{part['noise_floor']:.0f}" for part in found),
            " / ".join(part["verdict"] for part in found),
        ]
        for name, found in parts
    ]
    return table(["sprites", "width90 of the rotation", "floor", "verdict"], body)


def rotation_of(parts: Sequence[Row]) -> Row:
    """The part of a summary that is about rotation."""
    return next(part for part in parts if part["name"] == "rotation")


def reading(part: Sequence[Any]) -> str:
    """A width, its floor and the verdict in a cell."""
    return f"{part[0]:.3g}, floor {part[1]:.2g}: {part[2]}"


MOMENTS_HEAD = ["data", "moments", "turns", "shift_x", "shift_y", "rotation", "agreement"]


def moment_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The quick preset, by what f is given."""
    body = []
    for row in rows:
        given = [row["data"], row["moments"], "forgiven" if row["turns"] else "-"]
        cells = [reading(row["found"][name]) for name in ("shift_x", "shift_y", "rotation")]
        body.append([*given, *cells, f"{row['agreement']:.4f}"])
    return body


FEW_HEAD = ["images", "eta", "steps, dropout", "width90", "on test images", "floor", "warned"]


def few_rows(rows: Sequence[Row]) -> list[list[str]]:
    """What p learns from few images."""
    body = []
    for row in rows:
        steps = f"{row['generative_steps']}, {row['feature_dropout']}"
        widths = [f"{row[name][0]:.0f}" for name in ("learned", "test")]
        floor, warned = f"{row['learned'][1]:.0f}", "yes" if row["warned"] else "-"
        body.append([f"{row['images']:,}", row["eta"], steps, *widths, floor, warned])
    return body


SETTLING_HEAD = ["settling", "steps", "orbit variance", "next eta after 1", "larger over its goal"]


def settling_rows(rows: Sequence[Row], goal: Row) -> list[list[str]]:
    """Candidates on held-out images, and what they were chosen by."""
    body = []
    for row in rows:
        orbit, after = row["orbit_0"]["ratio"], row["iterated"][1]
        score = max(orbit / goal["orbit_variance"], after / goal["iterated"])
        body.append(
            [row["variant"], f"{row['steps']:,}", f"{orbit:.4f}", f"{after:.2%}", f"{score:.2f}"]
        )
    return body
