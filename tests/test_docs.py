"""What the README and the documentation say is run, and their links lead somewhere."""

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from symmetries._utils.config import presets_of
from symmetries.analysis import classifiers
from symmetries.analysis.network_trials import Size
from symmetries.analysis.quick_networks import SIZES
from symmetries.cli import app
from symmetries.learners import InvariantNetworkConfig
from symmetries.learners.orbit_posterior import OrbitConfig
from symmetries.learners.symmetry_model import SymmetryConfig

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PAGES += sorted(DOCS.glob("tutorials/*.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Code blocks of a Markdown text: the line on which the code starts, the language, the code."""
    for match in FENCE.finditer(text):
        yield text[: match.start(2)].count("\n") + 1, match[1], match[2]


# Commands that need a network, a GPU or an hour.
NOT_RUN = ("symmetries reproduce", "symmetries data fetch")


@pytest.fixture
def short_trainings(monkeypatch):
    """The preset "quick" made much quicker: pages are tested here, not the learning."""
    quick = SymmetryConfig.preset("quick")
    stage = quick.inference.replace(steps=4, batch_size=16)
    short = quick.replace(widths=(16,), features=(16,), layers=2, inference=stage, generative=stage)
    monkeypatch.setitem(presets_of(SymmetryConfig), "quick", short)
    poses = OrbitConfig.preset("quick").replace(
        bins=12,
        folds=2,
        network={"kind": "mlp", "features": 16},
        training={"steps": 3, "rounds": 1, "batch_size": 16},
        reading={"pictures": 128, "samples": 32, "resamples": 8},
    )
    monkeypatch.setitem(presets_of(OrbitConfig), "quick", poses)
    monkeypatch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 64)
    size = {"features": 24, "steps": 4, "batch_size": 100}
    monkeypatch.setitem(classifiers.INVARIANT_PRESETS, "quick", size)
    network = InvariantNetworkConfig.preset("quick").replace(
        steps=4, batch_size=16, samples=2, search=2, curvature_rows=16
    )
    monkeypatch.setitem(presets_of(InvariantNetworkConfig), "quick", network)
    monkeypatch.setattr("symmetries.learners.invariant_network.model.ROWS", 1)
    monkeypatch.setattr("symmetries.learners.invariant_network.evidence.EXACT", {"cpu": (0, 0)})
    monkeypatch.setattr("symmetries.learners.invariant_network.evidence.TRACED", 50)
    monkeypatch.setitem(SIZES, "quick", Size(3, 16, 2))
    monkeypatch.setattr("symmetries.monitoring.readers.STEPS", 20)
    monkeypatch.setattr("symmetries.monitoring.naming.GRID", 9)
    monkeypatch.setattr("symmetries.monitoring.naming.LOOKED_AT", 50)
    monkeypatch.setitem(
        classifiers.RELAXED_PRESETS, "quick", {"width": 2, "steps": 3, "batch_size": 16}
    )


@pytest.fixture
def own_pictures(tmp_path):
    """The folders of pictures that the README speaks of."""
    rng = np.random.default_rng(0)
    names = [f"pictures/{i}.png" for i in range(70)]
    names += [f"labelled-pictures/{kind}/{i}.png" for kind in "ab" for i in range(10)]
    for name in names:
        path = tmp_path / "my" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(path)


def run_blocks(text: str, name: str) -> int:
    """Run the Python blocks and the commands of a page in their order; returns how many.

    Python blocks share one namespace.
    """
    namespace: dict[str, object] = {"__name__": name}
    count = 0
    for line, language, code in blocks(text):
        if language == "python":
            # Empty lines in front make a traceback point to the line of the page.
            exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)  # noqa: S102
            count += 1
        if language == "console":
            count += sum(run_command(command) for command in commands(code))
    return count


def commands(code: str) -> list[str]:
    """The commands of ours in a console block, as they are typed."""
    typed = [line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ symm")]
    return [command for command in typed if not command.startswith(NOT_RUN)]


def run_command(command: str) -> int:
    arguments = shlex.split(command, comments=True)[1:]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{command}: {result.output}"
    return 1


def with_code(pages: list[Path]) -> list[Path]:
    return [
        page
        for page in pages
        if any(
            language == "python" or (language == "console" and commands(code))
            for _, language, code in blocks(page.read_text())
        )
    ]


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # of models that hardly trained
@pytest.mark.parametrize("page", with_code(PAGES), ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch, short_trainings, own_pictures):
    monkeypatch.chdir(tmp_path)
    assert run_blocks(page.read_text(), page.name) > 0


def test_there_is_python_in_the_readme_and_in_the_documentation():
    assert {"README.md", "index.md", "add-your-own-group.md", "discover.md"} <= {
        page.name for page in with_code(PAGES)
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
        for _, language, code in blocks((ROOT / "README.md").read_text())
        if language == "console" and code.startswith("$ symmetries") and code.count("$ ") == 1
    ]
    assert shown
    for code in shown:
        command, _, output = code.partition("\n")
        result = CliRunner().invoke(app, command.removeprefix("$ symmetries ").split())
        assert result.stdout == output


def test_a_broken_command_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="spin"):
        run_blocks("```console\n$ symmetries orbit digits --group spin\n```\n", "page.md")


def test_every_command_is_documented():
    text = (DOCS / "commands.md").read_text()
    for command in app.registered_commands:
        assert f"`{command.callback.__name__}" in text


def test_the_published_schemas_are_those_of_the_code():
    published = {path.name: path.read_text() for path in (DOCS / "schemas").glob("*.json")}
    assert script("docs/schemas.py").schemas() == published


def test_the_architecture_names_every_part_of_the_package():
    text = (DOCS / "architecture.md").read_text()
    package = ROOT / "src" / "symmetries"
    for path in package.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            name = path.name if path.suffix else f"{path.name}/"
            assert f"\n  {name}" in text, name


def test_the_architecture_names_every_module():
    text = (DOCS / "architecture.md").read_text()
    package = ROOT / "src" / "symmetries"
    by_rule = ("cuda", "triton", "cli", "results")  # a file for each kernel, or for each command
    missing = [
        path.relative_to(package)
        for path in sorted(package.rglob("*.py"))
        if not path.name.startswith("__")
        and path.parent.name not in by_rule
        and not path.name.endswith("_report.py")
        and re.search(rf"\b{path.name}", text) is None
    ]
    assert missing == []


def test_papers_have_pages_without_links_into_their_folders():
    pages = extension("paper_pages").pages()
    papers = {path.parent.name for path in (ROOT / "papers").glob("*/README.md")}
    notes = {f"{path.parent.name}-notes" for path in (ROOT / "papers").glob("*/NOTES.md")}
    assert set(pages) - {"index"} == papers | notes
    links = {link for text in pages.values() for link in LINK.findall(text)}
    assert all(x.startswith("figures/") or x.removesuffix(".md") in pages for x in links)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path):
    assert 0 <= script(f"examples/{path.name}").main(1) <= 1


def test_the_exit_codes_are_documented():
    from symmetries.cli.errors import EXIT_CODES

    text = (ROOT / "docs" / "commands.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert documented == set(EXIT_CODES)


def extension(name: str) -> ModuleType:
    """A module of docs/_ext."""
    return script(f"docs/_ext/{name}.py")


def script(path: str) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
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


def test_cells_of_several_numbers_name_each():
    assert extension("benchmark_tables").cell({"captum": 0.24867, "ours": 0.036}) == (
        "captum 0.249, ours 0.036"
    )


def test_benchmark_tables_have_the_ratio_to_the_floor():
    with_ratio = extension("benchmark_tables").with_ratio
    assert with_ratio({"ours (ms)": 6.0, "floor (ms)": 2.0})["ours over floor"] == 3
    assert with_ratio({"ours (us)": 6.0, "floor (ms)": 2.0}) == {
        "ours (us)": 6.0,
        "floor (ms)": 2.0,
    }
    assert (
        with_ratio({"ours (us)": 6.0, "floor (us)": 2.0, "ours over floor": 4})["ours over floor"]
        == 4
    )


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
