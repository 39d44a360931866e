"""Tables of ``network_paired.py``, and its files put together.

    python benchmarks/network_paired_tables.py FILE...
    python benchmarks/network_paired_tables.py FILE... --join

``--join`` writes ``results/network_paired-DEVICE.json``, where rows of later files replace those
of earlier ones, and adds the searches of planted widths to
``results/network_widths-mnist-DEVICE.json``.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from common import RESULTS
from network_accuracy import METHODS
from network_paired_queue import SEARCH
from network_widths import CLOSE, judged

PAIRS = ("none", "grid by validation", "Augerino")  # which "learned" is compared with
ALLOWED = 0.3  # points that it may gain less than the grid

Row = dict[str, Any]
Cell = tuple[str, str, int]  # data, law and number of labels


def joined(contents: Sequence[Row]) -> Row:
    """One content of several files; a later row replaces an earlier one of the same measurement.

    What the rows depend on is that of the last run; each row has the number of its own.
    """
    runs: list[Row] = []
    rows: dict[str, Row] = {}
    for content in contents:
        for row in content["rows"]:
            names = ("data", "law", "labels", "method", "seed", "settings")
            key = json.dumps([row[name] for name in names])
            rows[key] = {**row, "run": row["run"] + len(runs)}
        runs += content["runs"]
    return {**runs[-1], "name": "network_paired", "runs": runs, "rows": list(rows.values())}


def cells(rows: Sequence[Row]) -> dict[Cell, dict[str, dict[int, float]]]:
    """Accuracy in percent by cell, method and seed."""
    found: dict[Cell, dict[str, dict[int, float]]] = {}
    known: dict[Cell, Row] = {}
    for row in rows:
        if row["method"] != SEARCH:
            where = (row["data"], row["law"], row["labels"])
            if known.setdefault(where, row["settings"]) != row["settings"]:
                raise SystemExit(f"{where}: rows with other settings; give fewer files")
            cell = found.setdefault(where, {})
            cell.setdefault(row["method"], {})[row["seed"]] = 100 * row["accuracy"]
    for (_, law, _), cell in found.items():
        if law == "upright" and "none" in cell:  # the data are not turned
            cell["law of the data"] = cell["none"]
    return found


def difference(first: dict[int, float], second: dict[int, float]) -> tuple[float, float, int]:
    """The mean difference of paired seeds, its standard error (NaN of one pair), and their number.

    Example:
        >>> difference({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 2.0, 3: 0.0})
        (2.0, 1.0, 2)
    """
    values = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if not values:
        return math.nan, math.nan, 0
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else math.nan
    return statistics.fmean(values), error, len(values)


def verdict(cell: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Whether "learned" gains what the grid gains less 0.3 points, and is as good as Augerino."""
    learned = cell.get("learned", {})
    against = {name: difference(learned, cell.get(name, {})) for name in PAIRS}
    return {
        **against,
        "as the grid": against["grid by validation"][0] >= -ALLOWED,
        "as Augerino": against["Augerino"][0] >= 0,
    }


def accuracy_table(rows: Sequence[Row]) -> str:
    """Means of each method, and paired differences of "learned", as Markdown."""
    found = cells(rows)
    head = ["data, labels", *METHODS, *(f"learned - {name}" for name in PAIRS)]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for (data, law, labels), cell in sorted(found.items()):
        parts = [f"{data}, {law}, {labels:,}"]
        for name in METHODS:
            values = list(cell.get(name, {}).values())
            parts.append(f"{statistics.fmean(values):.1f} ({len(values)})" if values else "not run")
        said = verdict(cell)
        for name in PAIRS:
            mean, error, count = said[name]
            parts.append(f"{mean:+.2f} ± {error:.2f} ({count})" if count else "not run")
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines)


def learned_table(rows: Sequence[Row]) -> str:
    """How often a width was told, and which half-widths were used, as Markdown."""
    lines = ["| data, labels | told | used half-widths in degrees |", "| --- | --- | --- |"]
    found: dict[Cell, list[Row]] = {}
    for row in rows:
        if row["method"] == "learned":
            found.setdefault((row["data"], row["law"], row["labels"]), []).append(row)
    for (data, law, labels), some in sorted(found.items()):
        some = sorted(some, key=lambda row: row["seed"])
        used = ", ".join(f"{row['half_width']:.0f}" for row in some)
        told = f"{sum(row['told'] for row in some)} of {len(some)}"
        lines.append(f"| {data}, {law}, {labels:,} | {told} | {used} |")
    return "\n".join(lines)


def with_searches(stored: Row, content: Row) -> Row:
    """A stored table of planted widths with the searches of a content that it does not have."""
    rows = []
    for row in stored["rows"]:
        row = {**row, "settings": {"steps": row["steps"]}}
        of_task = (one for one in content["rows"] if one["method"] == SEARCH)
        for one in of_task:
            where = content["runs"][one["run"]]
            mine = {key: where[key] for key in ("commit", "command", "device", "date")}
            mine |= {"what": "searches", "seed": one["seed"]}
            same = one["law"] == row["task"] and one["settings"] == row["settings"]
            if not same or mine in row["measured"]:
                continue
            pairs = {"learned": "learned", "intervals": "interval", "told": "told"}
            pairs |= {"profiles": "profile", "accuracy, learned": "accuracy"}
            row |= {key: [*row[key], one[name]] for key, name in pairs.items()}
            row["measured"] = [*row["measured"], mine]
        del row["settings"]
        rows.append(judged(row, CLOSE["mnist"]))
    return {**stored, "rows": rows}


def main() -> None:
    """Print tables, and join."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--join", action="store_true", help="write to the folder of results")
    parser.add_argument("--device", default="cuda", help="in the names of results")
    given = parser.parse_args()
    content = joined([json.loads(path.read_text()) for path in given.files])
    print(accuracy_table(content["rows"]), learned_table(content["rows"]), sep="\n\n")
    widths = RESULTS / f"network_widths-mnist-{given.device}.json"
    found = with_searches(json.loads(widths.read_text()), content)
    print("\nPlanted widths in degrees:")
    for row in found["rows"]:
        pairs = zip(row["learned"], row["intervals"], row["told"], strict=True)
        said = [f"{w:.0f} [{a:.0f}, {b:.0f}]{'' if t else '*'}" for w, (a, b), t in pairs]
        print(f"{row['task']}, best {row['best']:.0f}:", ", ".join(said))
    if given.join:
        for path, result in (
            (RESULTS / f"network_paired-{given.device}.json", content),
            (widths, found),
        ):
            path.write_text(json.dumps(result, indent=1) + "\n")
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
