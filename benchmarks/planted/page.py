"""Tables of stored answers, and the generated parts of docs/planted.md.

python -m benchmarks.planted.page            # print the tables
python -m benchmarks.planted.page --write    # and put them into docs/planted.md

The goals at the top of the page are judged on the file ``HEADLINE``; its cells were fitted by one
commit, or the page says by which.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.planted import design, everyday
from benchmarks.planted.records import Results
from benchmarks.planted.run import RESULTS
from benchmarks.planted.score import Cell, CellScore, score, table

PAGE = Path(__file__).parents[2] / "docs" / "planted.md"
PARTS = ("goals", "tables")  # of the page, between comments
HEADLINE = "orbit-quick-cuda"
# Number of the table, what is asked of it, least and most.
GOALS: tuple[tuple[str, str, float, float], ...] = (
    ("right or cannot be told", "at least 95 %", 0.95, 1.0),
    ("asymmetric told", "at least 85 %", 0.85, 1.0),
    ("silent errors", "none", 0, 0),
    ("warnings on right cells", "at most 10 %", 0.0, 0.10),
    ("median total variation", "at most 0.10", 0.0, 0.10),
    ("coverage of intervals", "80 to 97 %", 0.80, 0.97),
)
Stored = tuple[str, Results, list[CellScore]]  # name of the file, what it holds, its scores
OUTCOMES = ("right", "cannot", "warned", "silent")
KINDS = ("asked", "content", "size", "count")
COUNTS = ("right", "cannot be told", "wrong with a warning", "silent errors")
_PERCENT = (
    *("right or cannot be told", "asymmetric told", "warnings on right cells"),
    *("ratios within 0.85 to 1.15", "coverage of intervals"),
)


def shown(key: str, value: float | int | None) -> str:
    """A number as the page has it; a dash where there is none."""
    if value is None:
        return "-"
    if key in _PERCENT:
        return f"{100 * value:.0f} %"
    return str(value) if isinstance(value, int) else _number(value)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(every: Sequence[Stored]) -> str:
    """One column for each file, one line for each number."""
    numbers = [table(scores) for _, _, scores in every]
    header = ["", *(name for name, _, _ in every)]
    rows = [[key, *(shown(key, one[key]) for one in numbers)] for key in numbers[0]]
    return markdown(header, rows)


def goals(folder: Path = RESULTS) -> str:
    """The goals, and what the quick preset reached on the cells that were fitted."""
    path = folder / f"{HEADLINE}.json"
    whole, digest = design.load()
    if not path.exists() or (results := Results.load(path)).design != digest:
        return "No results are stored yet."
    numbers = table(score(results, whole["cells"]))
    rows = []
    for key, wanted, least, most in GOALS:
        value = numbers[key]
        met = value is not None and least <= value <= most
        text = (
            f"{100 * value:.1f} %" if value is not None and key in _PERCENT else shown(key, value)
        )
        rows.append([key, wanted, text, "met" if met else "**missed**"])
    fitted = f"{numbers['cells']} of {len(whole['cells'])} cells were fitted"
    counts = ", ".join(f"{numbers[key]} {key}" for key in COUNTS)
    said = f"{fitted} ({made(HEADLINE, results)}): {counts}."
    return f"{said}\n\n{markdown(['', 'goal', 'reached', ''], rows)}"


def everyday_table(folder: Path = RESULTS / "everyday") -> str:
    """What was found of the everyday questions, by each file; nothing where none is stored."""
    cells, digest = everyday.cells()
    known = {cell["id"]: cell for cell in cells}
    parts = []
    for path in sorted(folder.glob("*.json")):
        results = Results.load(path)
        if results.design == digest:
            scores = score(results, cells)
            found = Counter(one.outcome for one in scores)
            counts = f"{len(scores)} of {len(cells)}: {found['right']} right, {found['cannot']}"
            counts += f" cannot be told, {found['warned']} wrong with a warning, {found['silent']}"
            text = f"{made(path.stem, results)}. {counts} silent."
            rows = by_cell(results, scores, known)
            parts.append(f"### Everyday questions, {path.stem}\n\n{text}\n\n{rows}")
    return "\n\n".join(parts)


def by_cell(results: Results, scores: Sequence[CellScore], cells: dict[str, Cell]) -> str:
    """One line for each parameter of each cell that was answered, wrong ones in bold."""
    found = {row.id: {f.name: f for f in row.found} for row in results.rows}
    rows = []
    for one in scores:
        if not one.parameters:
            rows.append([f"`{one.id}`", "", "", "", "", "", one.outcome])
        for parameter in one.parameters:
            said, truth = found[one.id][parameter.name], cells[one.id]["truth"][parameter.name]
            expected = f"{truth['verdicts'][0]} {_number(truth['width90'])}"
            outcome = one.outcome if parameter.right or not parameter.told else f"**{one.outcome}**"
            rows.append(
                [
                    f"`{one.id}`",
                    parameter.name,
                    expected,
                    f"{said.verdict} {_number(said.width90)}{_ends(said.interval)}",
                    _number(parameter.ratio),
                    _number(parameter.total_variation),
                    outcome,
                ]
            )
    header = ["cell", "parameter", "true", "found", "ratio", "total variation", "outcome"]
    return markdown(header, rows)


def by_kind(scores: Sequence[CellScore], cells: dict[str, Cell], kind: str) -> str:
    """Outcomes for each group that is asked for, or for each content, size or count."""
    kinds = sorted({cells[one.id][kind] for one in scores})
    rows = []
    for value in kinds:
        found = Counter(one.outcome for one in scores if cells[one.id][kind] == value)
        rows.append([str(value), *(str(found[outcome]) for outcome in OUTCOMES)])
    return markdown([kind, "right", "cannot be told", "wrong, warned", "silent"], rows)


def _ends(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" [{_number(interval[0])}, {_number(interval[1])}]"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def made(name: str, results: Results) -> str:
    """Where the numbers of a file come from: commits by the cells that they fitted."""
    used = Counter(
        (results.runs[row.run]["commit"], results.runs[row.run]["device"]) for row in results.rows
    )
    runs = "; ".join(f"{n} at commit {c} on {d}" for (c, d), n in used.most_common())
    return f"`{name}`: {runs}"


def tables(folder: Path = RESULTS) -> str:
    """The generated part of the page: all stored results of the design as it stands."""
    whole, digest = design.load()
    cells: dict[str, Any] = {cell["id"]: cell for cell in whole["cells"]}
    every = []
    for path in sorted(folder.glob("*.json")):
        results = Results.load(path)
        if results.design == digest:
            every.append((path.stem, results, score(results, whole["cells"])))
    head = f"Design `{digest[:12]}`, {len(cells)} fits for each method."
    if not every:
        return f"{head} No results are stored yet."
    sources = "\n".join(f"- {made(name, results)}" for name, results, _ in every)
    small = [(n, r, [s for s in scores if cells[s.id]["small"]]) for n, r, scores in every]
    parts = [f"{head} The numbers below are from these runs:\n\n{sources}"]
    if small != every:
        parts.append(f"### All cells that were fitted\n\n{summary(every)}")
    for (name, results, scores), (_, _, few) in zip(every, small, strict=True):
        if len(scores) == len(few):
            continue
        split = "\n\n".join(by_kind(scores, cells, kind) for kind in KINDS)
        parts.append(f"### Outcomes, {name}\n\n{split}")
        wrong = [one for one in scores if one.outcome in OUTCOMES[2:]]
        if wrong:
            parts.append(f"### Wrong cells, {name}\n\n{by_cell(results, wrong, cells)}")
    small = [one for one in small if one[2]]
    parts.append(f"### The small version\n\n{summary(small)}")
    for name, results, scores in small:
        parts.append(f"### Small cells, {name}\n\n{by_cell(results, scores, cells)}")
    parts.insert(2, everyday_table(folder / "everyday"))
    return "\n\n".join(part for part in parts if part)


def written(page: str) -> str:
    """A page with its generated parts as the stored results give them."""
    for part, text in zip(PARTS, (goals(), tables()), strict=True):
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print(f"{goals()}\n\n{tables()}")
        return
    PAGE.write_text(written(PAGE.read_text()))
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
