"""Directives ``benchmarks``, a table for each file in benchmarks/results, and ``quality``."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
QUALITY = ROOT / "benchmarks" / "time_to_quality.py"


def markdown(result: dict[str, Any]) -> list[str]:
    """A benchmark result as lines of Markdown: what ran where, and its rows as a table."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    head = (
        f"**{result['name'].replace('_', ' ')}** on {result['device']} "
        f"({result['threads']} threads), commit `{result['commit']}`, {versions}:"
    )
    note = [result["note"], ""] if "note" in result else []
    return [head, "", *note, *table([with_ratio(row) for row in result["rows"]])]


def with_ratio(row: dict[str, Any]) -> dict[str, Any]:
    """A row that has our time and the floor, with the ratio of the two."""
    for unit in ("us", "ms"):
        ours, floor = (row.get(f"{name} ({unit})") for name in ("ours", "floor"))
        if ours and floor and "ours over floor" not in row:
            return row | {"ours over floor": ours / floor}
    return row


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as lines of Markdown. Series (a list in a cell) are for plots."""
    keys = (key for row in rows for key in row if not isinstance(row[key], list))
    columns = list(dict.fromkeys(keys))
    lines = [
        "| " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    for row in rows:
        lines.append("| " + " | ".join(cell(row.get(column)) for column in columns) + " |")
    return [*lines, ""]


def cell(value: object) -> str:
    """A value as a table shows it: three significant digits, an empty cell for nothing."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(part)}" for name, part in value.items())
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


class Benchmarks(SphinxDirective):
    """Tables of all benchmark results, read when the documentation is built."""

    def run(self) -> list[nodes.Node]:
        container = nodes.container()
        for path in sorted(RESULTS.glob("*.json")):
            self.env.note_dependency(str(path))
            lines = markdown(json.loads(path.read_text()))
            self.state.nested_parse(StringList(lines, str(path)), 0, container)
        return [container]


class Quality(SphinxDirective):
    """Minutes to the papers' numbers, read from the papers' results."""

    def run(self) -> list[nodes.Node]:
        spec = importlib.util.spec_from_file_location("time_to_quality", QUALITY)
        if spec is None or spec.loader is None:
            raise self.error(f"cannot read {QUALITY}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for path in (ROOT / "papers").glob("*/results.json"):
            self.env.note_dependency(str(path))
        container = nodes.container()
        self.state.nested_parse(StringList(table(module.rows()), str(QUALITY)), 0, container)
        return [container]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("quality", Quality)
    return {"parallel_read_safe": True}
