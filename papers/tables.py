"""The tables of the papers' pages, made from their results.

Each paper has a page, README.md, and notes, NOTES.md. Both keep their tables between
``<!-- table: name -->`` and ``<!-- end -->``;

    python papers/tables.py [genuine-invariance ...]

writes them anew from ``results.json`` and ``expected.json``. A test compares pages and results.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
FILES = ("README.md", "NOTES.md")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def verdict(holds: bool) -> str:
    """How a goal stands."""
    return "met" if holds else "**missed**"


def span(values: Sequence[float], form: str = ".0f") -> str:
    """The smallest and the largest of some numbers."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def beside(paper: str) -> ModuleType:
    """``page.py`` of a paper, which may import files beside it."""
    source = HERE / paper / "page.py"
    spec = importlib.util.spec_from_file_location(f"{paper.replace('-', '_')}_page", source)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(source.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(source.parent))
    return module


def invariant_weights(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 0: its tables are made in files beside its page."""
    page = beside("invariant-weights").Page(results, expected, table, verdict, span)
    return dict(page.blocks())


def genuine_invariance(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 1: its tables are made in a file beside its page."""
    return dict(beside("genuine-invariance").tables(results, expected, table, verdict))


def symmetry_model(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 2: its tables are made in files beside its page."""
    return dict(beside("symmetry-model").tables(results, expected, table, verdict))


def relaxed_equivariance(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 4: its tables are made in files beside its page."""
    page = beside("relaxed-equivariance")
    return dict(page.tables(results, expected, table, verdict, span))


def invariant_vae(results: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    """Paper 3, and paper 2's VAEs: their tables are made in a file beside their page."""
    module = beside("invariant-vae")
    return dict(module.tables(results, expected, table, verdict))


PAGES = {
    "invariant-vae": invariant_vae,
    "invariant-weights": invariant_weights,
    "genuine-invariance": genuine_invariance,
    "symmetry-model": symmetry_model,
    "relaxed-equivariance": relaxed_equivariance,
}


def blocks(paper: str) -> dict[str, str]:
    """The tables of a paper's page, by name."""
    content = [
        json.loads((HERE / paper / f"{n}.json").read_text()) for n in ("results", "expected")
    ]
    return PAGES[paper](*content)


def filled(paper: str, page: str = "README.md") -> str:
    """A page of a paper with its tables as the results have them."""
    made = blocks(paper)
    text = (HERE / paper / page).read_text()
    return BLOCK.sub(lambda found: found[1] + "\n" + made[found[2]] + "\n" + found[3], text)


if __name__ == "__main__":
    for paper in sys.argv[1:] or PAGES:
        for page in FILES:
            text = filled(paper, page)
            (HERE / paper / page).write_text(text)
