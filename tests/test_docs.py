"""What the README and the documentation say is run, and their links lead somewhere."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from symmetries.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Code blocks of a language in a Markdown text, with the line on which the code starts."""
    for match in FENCE.finditer(text):
        if match[1] == language:
            yield text[: match.start(2)].count("\n") + 1, match[2]


def run_blocks(text: str, name: str) -> int:
    """Run the Python blocks one after the other, in one namespace; returns how many."""
    namespace: dict[str, object] = {"__name__": name}
    count = 0
    for line, code in blocks(text, "python"):
        # Empty lines in front make a traceback point to the line of the page.
        exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)  # noqa: S102
        count += 1
    return count


def with_python(pages: list[Path]) -> list[Path]:
    return [page for page in pages if any(blocks(page.read_text(), "python"))]


@pytest.mark.parametrize("page", with_python(PAGES), ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_blocks(page.read_text(), page.name) > 0


def test_there_is_python_in_the_readme_and_in_the_documentation():
    assert {"README.md", "index.md", "add-your-own-group.md"} <= {
        page.name for page in with_python(PAGES)
    }


def test_a_broken_block_is_found():
    text = "Text\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as caught:
        run_blocks(text, "page.md")
    assert caught.traceback[-1].lineno + 1 == 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    missing = [
        target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()
    ]
    assert missing == []


def test_the_commands_of_the_readme_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = [
        code
        for _, code in blocks((ROOT / "README.md").read_text(), "console")
        if code.startswith("$ symmetries")
    ]
    assert shown
    for code in shown:
        command, _, output = code.partition("\n")
        result = CliRunner().invoke(app, command.removeprefix("$ symmetries ").split())
        assert result.stdout == output


def test_the_exit_codes_are_documented():
    from symmetries.cli.errors import EXIT_CODES

    text = (ROOT / "docs" / "commands.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert documented == set(EXIT_CODES)


def extension(name: str) -> ModuleType:
    """A module of docs/_ext."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_are_escaped_outside_markup_examples_and_formulas():
    lines = [
        "|H| elements (*batch, 3), *not* ``a|b`` nor :math:`|x|`.",
        "",
        ".. math:: |a|",
        "   |b|",
        "",
        "Example:",
        "    >>> 1 | 2",
        "    |3|",
        "",
        "    |c|",
    ]
    assert extension("plain_docstrings").escape_docstring(lines) == [
        r"\|H\| elements (\*batch, 3), *not* ``a|b`` nor :math:`|x|`.",
        *lines[1:9],
        r"    \|c\|",
    ]


def test_benchmark_tables_hold_every_column_and_round():
    result = {
        "name": "warp_cpu",
        "device": "CPU",
        "threads": 2,
        "commit": "abc",
        "versions": {"torch": "2"},
        "rows": [{"n": 32, "ms": 1234.56}, {"n": 64, "ms": 0.123456, "peer": "kornia"}],
    }
    assert extension("benchmark_tables").markdown(result)[2:] == [
        "| n | ms | peer |",
        "| --- | --- | --- |",
        "| 32 | 1,235 |  |",
        "| 64 | 0.123 | kornia |",
        "",
    ]


def test_every_stored_benchmark_result_can_be_shown():
    module = extension("benchmark_tables")
    for path in module.RESULTS.glob("*.json"):
        assert len(module.markdown(json.loads(path.read_text()))) > 4
