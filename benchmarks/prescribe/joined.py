"""Lines of several runs as one stored table, and what they show.

``python -m benchmarks.prescribe.joined LINES ... --out TABLE`` joins files of ``run``, and tables,
into one JSON file with a row for each cell, the first that was computed, and prints accuracies, how
often what was prescribed is at least as accurate as its peers, and how predicted and realised gains
go together.
"""

import argparse
import json
import statistics
from collections import defaultdict
from dataclasses import astuple
from pathlib import Path
from typing import Any

from benchmarks.prescribe.cell import Cell

PEERS = ("grid", "TrivialAugmentWide")
POLICIES = ("none", "prescribed", *PEERS)
Row = dict[str, Any]


def read(path: Path) -> tuple[list[Row], list[Row], list[Row]]:
    """Runs, rows with the number of their run, and what was prescribed for cells, of a file."""
    text = path.read_text()
    if text.startswith("{\n"):
        table = json.loads(text)
        return table["runs"], table["rows"], []
    runs: list[Row] = []
    rows: list[Row] = []
    asked: list[Row] = []
    for part in map(json.loads, text.splitlines()):
        if "accuracy" in part:
            rows.append({**part, "run": len(runs) - 1})
        elif "prescribed" in part:
            asked.append(part)
        elif "failed" not in part:
            runs.append(part)
    return runs, rows, asked


def cell_of(row: Row) -> Cell:
    """The cell that a row is of."""
    return Cell(row["data"], row["spread"], row["labels"], row["seed"])


def joined(paths: list[Path]) -> dict[str, Any]:
    """Runs, and one row for each cell, the first that was computed."""
    runs: list[Row] = []
    rows: dict[Cell, Row] = {}
    for path in paths:
        own_runs, own_rows, _ = read(path)
        for row in own_rows:
            rows.setdefault(cell_of(row), {**row, "run": row["run"] + len(runs)})
        runs += own_runs
    ordered = [rows[cell] for cell in sorted(rows, key=astuple)]
    return {"name": "prescribe", "runs": runs, "rows": ordered}


def shown(rows: list[Row]) -> str:
    """Markdown: means over seeds for each cell, and the counts and the correlation of all rows."""
    cells: dict[tuple[str, float, int], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["data"], row["spread"], row["labels"]].append(row)
    lines = ["| | seeds | predicted | realised | " + " | ".join(POLICIES) + " |"]
    lines.append("|" + " --- |" * (4 + len(POLICIES)))
    for (data, spread, labels), own in cells.items():
        turned = f", turned by up to {spread:.0f}" if spread else ""
        means = [statistics.mean(row["predicted"]["gain"] for row in own)]
        means += [statistics.mean(row["realised"] for row in own)]
        means += [statistics.mean(row["accuracy"][key] for row in own) for key in POLICIES]
        numbers = " | ".join(f"{mean:.1f}" for mean in means)
        lines.append(f"| {data}{turned}, {labels} labels | {len(own)} | {numbers} |")
    lines.append("")
    for names in ((PEERS[0],), (PEERS[1],), PEERS):
        better = sum(
            all(row["accuracy"]["prescribed"] >= row["accuracy"][name] for name in names)
            for row in rows
        )
        lines.append(f"at least {' and '.join(names)}: {better} of {len(rows)}")
    inside = sum(r["predicted"]["low"] <= r["realised"] <= r["predicted"]["high"] for r in rows)
    lines.append(f"predicted intervals that hold the realised gain: {inside} of {len(rows)}")
    both = [[row["predicted"]["gain"] for row in rows], [row["realised"] for row in rows]]
    if all(len(set(numbers)) > 1 for numbers in both):
        r = statistics.correlation(*both)
        lines.append(f"correlation of predicted and realised gains: {r:.2f}")
    return "\n".join(lines)


def main() -> None:
    """Join, store and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    table = joined(given.lines)
    given.out.write_text(json.dumps(table, indent=1) + "\n")
    print(shown(table["rows"]))


if __name__ == "__main__":
    main()
