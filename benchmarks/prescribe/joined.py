"""Lines of several runs as one stored table, and what they show.

``python -m benchmarks.prescribe.joined LINES ... --out TABLE`` joins files of ``run``, and tables,
into one JSON file with a row for each cell, the first that was computed, and prints accuracies, how
often what was prescribed is at least as accurate as its peers (on the test pictures, without any
allowance for chance), and how predicted and realised gains go together.
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
AGAINST = ((PEERS[0],), (PEERS[1],), PEERS)
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


def stored(table: dict[str, Any]) -> str:
    """A table as JSON, a line for each row, with the limits of classes only where these differ."""
    lines = []
    for row in table["rows"]:
        own = row.get("by_class", {})
        limited = {name: far for name, far in own.items() if len(set(far)) > 1}
        lines.append(json.dumps(_rounded({**row, **({"by_class": limited} if own else {})})))
    head = json.dumps({key: own for key, own in table.items() if key != "rows"}, indent=1)
    return head[:-2] + ',\n "rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _rounded(part: Any) -> Any:  # noqa: ANN401 - JSON
    """The same with four digits behind the point."""
    if isinstance(part, dict):
        return {key: _rounded(own) for key, own in part.items()}
    if isinstance(part, list):
        return [_rounded(own) for own in part]
    return round(part, 4) if isinstance(part, float) else part


def shown(rows: list[Row]) -> str:
    """Markdown: accuracies as means over seeds, and what they count to, by labels and of all."""
    counts = sorted({row["labels"] for row in rows})
    places: dict[tuple[str, float], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        places[row["data"], row["spread"]][row["labels"]].append(row)
    lines = [f"{', '.join(POLICIES)}:", ""]
    lines += _header([f"{count:,} labels" for count in counts])
    for (data, spread), own in places.items():
        turned = f", turned by up to {spread:.0f}" if spread else ""
        lines.append(_line(data + turned, [_accuracies(own[count]) for count in counts]))
    either = [f"at least {' and '.join(names)}" for names in AGAINST]
    lines += ["", *_header([*either, "predicted", "realised", "intervals hold it", "correlation"])]
    for count in counts:
        lines.append(_line(f"{count:,} labels", _counts([r for r in rows if r["labels"] == count])))
    return "\n".join([*lines, _line("all", _counts(rows))])


def _header(columns: list[str]) -> list[str]:
    return [_line("", columns), "|" + " --- |" * (1 + len(columns))]


def _line(first: str, others: list[str]) -> str:
    return f"| {' | '.join([first, *others])} |"


def _accuracies(rows: list[Row]) -> str:
    """Means over seeds, of all policies."""
    means = [statistics.mean(row["accuracy"][key] for row in rows) for key in POLICIES if rows]
    return ", ".join(f"{mean:.1f}" for mean in means)


def _counts(rows: list[Row]) -> list[str]:
    """How often what is prescribed is at least as accurate, and what its gain was said to be."""
    better = [
        sum(all(r["accuracy"]["prescribed"] >= r["accuracy"][name] for name in names) for r in rows)
        for names in AGAINST
    ]
    gains = [[row["predicted"]["gain"] for row in rows], [row["realised"] for row in rows]]
    inside = sum(r["predicted"]["low"] <= r["realised"] <= r["predicted"]["high"] for r in rows)
    apart = all(len(set(numbers)) > 1 for numbers in gains)
    r = f"{statistics.correlation(*gains):.2f}" if apart else ""
    means = [f"{statistics.mean(numbers):.1f}" for numbers in gains]
    return [*(f"{n} of {len(rows)}" for n in better), *means, f"{inside} of {len(rows)}", r]


def main() -> None:
    """Join, store and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    table = joined(given.lines)
    given.out.write_text(stored(table))
    print(shown(table["rows"]))


if __name__ == "__main__":
    main()
