"""``symmetries reproduce PAPER TABLE``: what it runs, what it says, what it prints, going on."""

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from symmetries.cli.reproduce import duration

PAPERS = Path(__file__).parents[1] / "papers"
PARTS = json.loads((PAPERS / "parts.json").read_text())["papers"]
every = pytest.mark.parametrize(
    ("paper", "part"), [(paper, part) for paper, parts in PARTS.items() for part in parts]
)


@pytest.fixture(scope="module")
def layouts():
    spec = importlib.util.spec_from_file_location("paper_layouts", PAPERS / "layouts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(PAPERS))
    return module


def test_every_paper_has_parts():
    assert set(PARTS) == {path.parent.name for path in PAPERS.glob("*/run.py")}


@every
def test_commands_are_known_to_their_scripts(paper, part):
    for command in PARTS[paper][part]["commands"]:
        script, *words = shlex.split(command)
        assert (PAPERS / paper / script).exists()
        source = "".join(path.read_text() for path in (PAPERS / paper).glob("*.py"))
        assert "--out" in words
        assert all(f'"{word}"' in source for word in words if word.startswith("--"))


@every
def test_stored_results_have_the_layout(layouts, paper, part):
    text = layouts.layout(paper, part, PAPERS / paper)
    assert text.startswith(PARTS[paper][part]["title"])
    assert text.count("\n|") > 2
    assert re.search(r"\d", text.partition("---")[2])


def test_numbers_of_a_layout_are_those_of_the_results(layouts, tmp_path):
    runs = [{"experiment": "table2", "mode": "strict", "accuracy": a} for a in (48.0, 50.0)]
    (tmp_path / "results.json").write_text(json.dumps({"rows": runs}))
    text = layouts.layout("relaxed-equivariance", "2", tmp_path)
    assert "| strict | 50 \\| 49.00 ± 1.41 (2) |" in text
    assert "| soft | 100 \\| not run |" in text
    assert "not run" in layouts.layout("relaxed-equivariance", "1", tmp_path)


def test_a_network_far_below_the_paper_does_not_hold(layouts, tmp_path):
    numbers = {"accuracy": 74.0, "li": 0.0, "di": 0.0, "si": 1.0}
    row = {key: {"mean": value, "std": 1.0, "seeds": [value]} for key, value in numbers.items()}
    (tmp_path / "results.json").write_text(json.dumps({"table": {"r4": {"WT-plain": row}}}))
    text = layouts.layout("genuine-invariance", "1", tmp_path)
    assert "accuracy 20.6 points below" in text
    assert "holds" not in text


def test_minutes_are_those_of_the_file():
    part = PARTS["genuine-invariance"]["1"]
    assert duration(part | {"cpu": 44}).endswith(
        f"{part['gpu']} minutes on an NVIDIA H200, 44 minutes on two CPU cores"
    )
    assert duration({"gpu": 1, "cpu": None}).startswith("about 1 minute on an NVIDIA H200;")


SCRIPT = """
import argparse, pathlib
parser = argparse.ArgumentParser()
for name in ("--out", "--only", "--data"):
    parser.add_argument(name)
given = parser.parse_args()
with open(pathlib.Path(given.out) / "said.txt", "a") as file:
    file.write(f"{given.only} {given.data}\\n")
"""
FIRST = {"title": "Table 1", "commands": ["run.py --only 'a b' --out {out}"], "gpu": 3, "cpu": 9}
SECOND = {"title": "Figure 2", "commands": ["run.py --only c --out {out}"] * 2, "gpu": 1}
PLAN = {"a-paper": {"1": FIRST | {"also": ["4"]}, "figure-2": SECOND | {"cpu": None}}}


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "papers" / "a-paper").mkdir(parents=True)
    (tmp_path / "papers" / "a-paper" / "run.py").write_text(SCRIPT)
    (tmp_path / "papers" / "parts.json").write_text(json.dumps({"papers": PLAN}))
    (tmp_path / "papers" / "layouts.py").write_text("import sys; print('table', *sys.argv[1:])")
    return tmp_path


def test_one_table_is_run_and_no_other(run, checkout, capfd):
    result = run("reproduce", "a-paper", "1", "--checkout", ".", "--folder", "here")
    assert result.exit_code == 0, result.output
    assert (
        "Table 1: about 3 minutes on an NVIDIA H200, 9 minutes on two CPU cores." in result.stdout
    )
    assert (checkout / "out" / "a-paper" / "said.txt").read_text() == "a b here\n"
    assert "table a-paper out/a-paper 1" in capfd.readouterr().out
    assert run("reproduce", "a-paper", "4", "--checkout", ".").exit_code == 0, "the same table"
    assert (checkout / "out" / "a-paper" / "said.txt").read_text() == "a b here\na b None\n"
    result = run("reproduce", "a-paper", "7", "--checkout", ".")
    assert "expected one of 1, figure-2, got '7'" in result.stderr


def test_all_tables_make_a_page(run, checkout):
    result = run("reproduce", "a-paper", "--all", "--checkout", ".", "--out", "o")
    assert result.exit_code == 0, result.output
    assert (checkout / "o" / "said.txt").read_text() == "a b None\nc None\nc None\n"
    assert (checkout / "o" / "page.md").read_text() == "# a-paper\n\ntable --page a-paper o\n"
    for words in (["1"], ["--quick"]):
        assert run("reproduce", "a-paper", *words, "--all", "--checkout", ".").exit_code == 3


def test_a_table_goes_on_where_it_was(monkeypatch, tmp_path, capsys):
    """Paper 1's rows are written once; other settings are refused."""
    folder = str(PAPERS / "genuine-invariance")
    for name in ("run", "fitting"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # of another paper
    before = set(sys.modules)
    monkeypatch.syspath_prepend(folder)
    import run as script

    monkeypatch.setattr(script, "PLAIN", ("WT-plain", "IR-nu-3"))
    words = ["--quick", "--quiet", "--table", "1", "--groups", "t3", "--out", str(tmp_path)]
    words += ["--device", "cpu", "--steps", "4", "--check-every", "2", "--examples", "8"]
    words += ["--ig-steps", "2", "--seeds", "0"]
    first = script.main([*words, "--methods", "WT-plain"])["table"]["t3"]
    assert list(first) == ["WT-plain"]
    second = script.main(words)["table"]["t3"]
    assert list(second) == ["WT-plain", "IR-nu-3"]
    assert second["WT-plain"] == first["WT-plain"]
    assert (second["IR-nu-3"]["nu"], 0 < second["IR-nu-3"]["validation_si"][0] <= 1) == (
        [3.0],
        True,
    )
    capsys.readouterr()
    assert script.main(words)["table"]["t3"] == second
    assert capsys.readouterr().out == "t3: in the results\n"
    with pytest.raises(SystemExit, match="other settings"):
        script.main([*words, "--seeds", "5"])
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) and folder in sys.modules[name].__file__:
            del sys.modules[name]
    while folder in sys.path:
        sys.path.remove(folder)
