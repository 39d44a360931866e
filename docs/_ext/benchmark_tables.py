"""The ``benchmarks`` directive: a table for each file in benchmarks/results."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def markdown(result: dict[str, Any]) -> list[str]:
    """A benchmark result as lines of Markdown: what ran where, and its rows as a table."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    # Series (a list in a cell) are for plots.
    keys = (key for row in result["rows"] for key in row if not isinstance(row[key], list))
    columns = list(dict.fromkeys(keys))
    lines = [
        f"**{result['name'].replace('_', ' ')}** on {result['device']} "
        f"({result['threads']} threads), commit `{result['commit']}`, {versions}:",
        "",
        "| " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    for row in result["rows"]:
        lines.append("| " + " | ".join(cell(row.get(column)) for column in columns) + " |")
    return [*lines, ""]


def cell(value: object) -> str:
    """A value as a table shows it: three significant digits, an empty cell for nothing."""
    if value is None:
        return ""
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


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("benchmarks", Benchmarks)
    return {"parallel_read_safe": True}
