"""The tables of this page, from results.json; ``papers/tables.py`` writes them into the README."""

from collections.abc import Callable, Sequence
from statistics import mean

from page_studies import ABLATION_HEAD, Row, Table, ablation_rows, span, study_tables

Verdict = Callable[[bool], str]
DIGITS = "0123456789"
LONG = 10_000  # steps of the first stage, from which a run has a column of its own


def tables(results: Row, expected: Row, table: Table, verdict: Verdict) -> dict[str, str]:
    """All tables of the page by name."""
    goal = expected["targets"]
    mnist = columns(results["runs"])
    names = list(dict.fromkeys(map(column_name, mnist)))
    studied = study_tables(results["studies"], goal, table)
    found = {"goals": goals(mnist, goal, table, verdict), "settling": studied.pop("settling")}
    found |= {
        "family": family(mnist, table),
        "widths": table(["parameter", "unit", *names], widths_and_floors(mnist)),
        "modes": table(
            ["digit", *DIGITS],
            [[name, *mode_cells(part)] for name, part in by_column(mnist).items()],
        ),
        **zeros(mnist, table),
        "planted": planted(results["runs"], goal, table, verdict),
        "shapes": shapes(results["runs"], table),
        "ablations": table(
            ABLATION_HEAD,
            [
                *ablation_rows(results.get("published", ())),
                *ablation_rows(results["ablations"]),
                *ablation_rows(results.get("earlier", ()), " (earlier)"),
            ],
        ),
        "collapse": studied.pop("collapse"),
        "classifiers": table(*classifier_rows(results["classifiers"])),
    }
    return found | studied


def columns(runs: Sequence[Row]) -> list[Row]:
    """Runs on MNIST under affine transformations: short ones by angle and seed, then the long."""

    def place(run: Row) -> tuple[float, ...]:
        steps = run["stages"]["inference"]["steps"]
        return steps if is_long(run) else 0, run["added"], run["seed"]

    return sorted((run for run in runs if run["task"] == "mnist-affine"), key=place)


def is_long(run: Row) -> bool:
    """Whether the run is judged by what is asked of the full one."""
    return bool(run["stages"]["inference"]["steps"] >= LONG)


def column_name(run: Row) -> str:
    """What a column is called."""
    steps = " + ".join(f"{stage['steps'] // 1000}k" for stage in run["stages"].values())
    return f"added {run['added']:g}" + (f", {steps}" if is_long(run) else "")


def by_column(runs: Sequence[Row]) -> dict[str, list[Row]]:
    """The runs of each column, its seeds."""
    found: dict[str, list[Row]] = {}
    for run in runs:
        found.setdefault(column_name(run), []).append(run)
    return found


def goals(runs: Sequence[Row], goal: Row, table: Table, verdict: Verdict) -> str:
    """A column for each added rotation: the mean over seeds, and the range."""
    parts = by_column(runs)
    low, high = goal["rotation_width_ratio"]

    def line(what: str, said: str, form: str, value: Callable, holds: Callable) -> list[str]:
        cells, every = [], []
        for mine in parts.values():
            if "width90" in what and mine[0]["added"] == 0:
                cells.append("-")
                continue
            found = [value(run) for run in mine]
            every += found
            cells.append(span(found, form))
        if not every:
            return [what, said, *cells, "not run"]
        # What is asked "after the full run" is judged by long ones.
        long = [value(run) for run in runs if is_long(run)]
        if not long or "width90" in what:
            return [
                what,
                said,
                *cells,
                f"{verdict(all(map(holds, every)))} ({met_by(holds, every)})",
            ]
        short = [value(run) for run in runs if not is_long(run)]
        judged = f"{verdict(all(map(holds, long)))} in full runs ({met_by(holds, long)})"
        return [what, said, *cells, f"{judged}; short ones {met_by(holds, short)}"]

    limit = goal["orbit_variance"]
    body = [
        line(
            f"orbit variance ratio{text} †",
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
    limit_s = goal["full_run_seconds"]
    alone = [[run["seconds"] for run in mine if run.get("alone")] for mine in parts.values()]
    cells = [span(found, ".0f") if found else "-" for found in alone]
    holds = verdict(all(second < limit_s for found in alone for second in found))
    said = ["seconds of training, alone", f"below {limit_s}"]
    body.append([*said, *cells, holds if any(alone) else "not run"])
    counts = [len(mine) for mine in parts.values()]
    body.append(["seeds", "3", *map(str, counts), verdict(min(counts) >= 3)])
    return table(["what", "goal", *parts, ""], body)


def met_by(holds: Callable[[float], bool], values: Sequence[float]) -> str:
    """How many of the values meet a goal."""
    return f"{sum(map(holds, values))} of {len(values)}"


def widths_and_floors(runs: Sequence[Row]) -> list[list[str]]:
    """A line for each parameter, a cell for each column: means over seeds, all verdicts."""
    lines = []
    for i, parameter in enumerate(runs[0]["summary"]):
        cells = []
        for mine in by_column(runs).values():
            found = [run["summary"][i] for run in mine]
            width = span([part["width90"] for part in found], ".3g")
            floor = mean(part["noise_floor"] for part in found)
            verdicts = " / ".join(dict.fromkeys(part["verdict"] for part in found))
            cells.append(f"{width}, floor {floor:.3g}: {verdicts}")
        lines.append([parameter["name"], parameter["unit"], *cells])
    return lines


def mode_cells(runs: Sequence[Row]) -> list[str]:
    """For each digit the share of images with several modes: the mean over seeds, and the range."""
    cells = []
    for digit in DIGITS:
        found = [100 * (1 - run["modes"][digit].get("1", 0.0)) for run in runs]
        low, high = f"{min(found):.0f}", f"{max(found):.0f}"
        cells.append(f"{mean(found):.0f} %" + (f" ({low} to {high})" if low != high else ""))
    return cells


def zeros(runs: Sequence[Row], table: Table) -> dict[str, str]:
    """How far zeros turn, by how round they are, without added rotation."""
    parts = by_column([run for run in runs if run["added"] == 0 and "zeros" in run])
    if not parts:
        return {}
    body = []
    for i, part in enumerate(next(iter(parts.values()))[0]["zeros"]):
        low, high = part["ratio"]
        cells = [
            span([run["zeros"][i]["width90"] for run in mine], ".0f") for mine in parts.values()
        ]
        body.append([f"{low:.2f} to {high:.2f}", f"{part['directions']:.0f}", *cells])
    head = ["longer axis over shorter", "directions in the data", *parts]
    return {"zeros": table(head, body)}


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
            seen = " †" if name == "heart" else ""
            for said, found, holds in sprite_lines(name, part, goal, verdict):
                lines.setdefault((run["task"], f"{name}s{seen}", said), []).append((found, holds))
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
    parts = by_column([run for run in runs if "family_orbit" in run])

    def line(what: str, value: Callable[[Row], float]) -> list[str]:
        return [what, *(span([value(run) for run in mine], ".3f") for mine in parts.values())]

    body = [
        line("f, on test images", lambda run: run["orbit_variance_refine_0"]["ratio"]),
        line("f, on images it learned from", lambda run: run["orbit_variance_learned"]["ratio"]),
        line("the best five parameters", lambda run: run["family_orbit"]["best"]),
        line("exact elements", lambda run: run["family_orbit"]["exact"]),
    ]
    return table(["prototypes from", *parts], body)


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
