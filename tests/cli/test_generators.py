"""``symmetries generators`` reads tables and trajectories, and writes numbers and a page."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import symmetries
from symmetries.cli import app
from symmetries.results import GeneratorResult


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = (x**2).sum(1)
    np.savez("table.npz", x=x, y=y)
    rows = [
        "a,b,energy",
        *(",".join(map(repr, map(float, (*p, v)))) for p, v in zip(x, y, strict=True)),
    ]
    Path("table.csv").write_text("\n".join(rows) + "\n")


def run(*words):
    return CliRunner().invoke(app, ["generators", *words])


def test_a_csv_file_and_an_npz_file_give_the_same_algebra():
    done = run("table.csv", "--target", "energy", "--out", "one")
    assert done.exit_code == 0, done.output
    assert "so(2) (dimension 1 at 95 %)" in done.output
    assert "b d/da" in done.output
    assert "not symmetric" in done.output
    assert "Defect: change along a field" in done.output
    one = GeneratorResult.load("one/generators.json")
    assert one.data.inputs == ("a", "b")
    assert "so(2)" in Path("one/report.html").read_text()
    done = run("table.npz", "--json", "--quiet")
    shown = json.loads(done.stdout)
    assert (shown["name"], shown["dimension"]) == ("so(2)", [1, 1])
    two = GeneratorResult.load("out/generators-table/generators.json")
    defects = [[part.defect for part in result.spectrum] for result in (one, two)]
    np.testing.assert_allclose(*defects, rtol=1e-9, atol=1e-12)


def test_nothing_is_shown_of_a_next_field_where_nothing_can_be_told():
    noise = np.random.default_rng(1).normal(size=400)
    np.savez("noise.npz", x=np.load("table.npz")["x"], y=noise)
    done = run("noise.npz")
    assert "cannot be told" in done.output
    assert "next field" not in done.output
    assert "Defect" not in done.output


def test_the_recorded_command_runs_again():
    run("table.npz", "--epsilon", "0.05", "--seed", "2", "--out", "one")
    command = GeneratorResult.load("one/generators.json").run.command
    assert command.startswith("symmetries generators table.npz")
    words = command.split()[2:]
    words[words.index("--out") + 1] = "two"
    assert run(*words).exit_code == 0
    one, two = (GeneratorResult.load(f"{name}/generators.json") for name in ("one", "two"))
    assert one.generators == two.generators


def test_a_function_of_ones_own(monkeypatch):
    Path("mine.py").write_text("def mass(x):\n    return x[:, 0] ** 2 - x[:, 1] ** 2\n")
    monkeypatch.syspath_prepend(".")
    done = run("table.npz", "--model", "mine:mass", "--fields", "linear", "--out", "one")
    assert done.exit_code == 0, done.output
    assert "so(1,1)" in done.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("table.csv", "--target", "height"), "columns among a, b, energy"),
        (("table.csv",), "outputs, or a model"),
        (("nowhere.csv",), "existing"),
        (("table.npz", "--fields", "spirals"), "fields"),
        (("table.npz", "--level", "2"), "level"),
    ],
)
def test_mistakes_are_named(words, text):
    done = run(*words)
    assert done.exit_code == 3
    assert text in " ".join(done.output.split())
    assert not Path("out").exists()


def test_an_archive_that_unpacks_to_more_than_is_free_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((10_000, 100)), y=np.zeros(10_000))
    assert (tmp_path / "zeros.npz").stat().st_size < 100_000
    monkeypatch.setattr("symmetries.data.checked_files.free_memory", lambda: 2_000_000)
    with pytest.raises(ValueError, match="fits into memory"):
        symmetries.generators(tmp_path / "zeros.npz")


def test_a_text_with_the_ending_of_an_archive_is_refused_in_our_words(tmp_path):
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match=r"a readable \.npz file") as refused:
        symmetries.generators(tmp_path / "text.npz")
    assert "pickle" not in str(refused.value)


def test_pictures_are_moved_by_planar_fields(monkeypatch):
    rng = np.random.default_rng(0)
    axis = (np.arange(24) - 11.5) / 12
    y, x = np.meshgrid(-axis, axis, indexing="ij")
    places = rng.uniform(-0.5, 0.5, size=(300, 3, 2, 1, 1))
    dots = np.exp(-((x - places[:, :, 0]) ** 2 + (y - places[:, :, 1]) ** 2) / 0.05).sum(1)
    np.savez("pictures.npz", images=(255 * dots / 3).clip(0, 255).astype(np.uint8))
    Path("ink.py").write_text(
        "import torch\n"
        "def net(x):\n"
        "    a = (torch.arange(24, dtype=x.dtype) - 11.5) / 12\n"
        "    r = (a[:, None] ** 2 + a**2).sqrt()\n"
        "    return torch.stack([(x * torch.exp(-((r - k) ** 2) / 0.05)).sum((1, 2, 3))\n"
        "                        for k in (0.2, 0.5, 0.8)], 1)\n"
    )
    monkeypatch.syspath_prepend(".")
    done = run("pictures.npz", "--model", "ink:net", "--out", "one")
    assert done.exit_code == 0, done.output
    result = GeneratorResult.load("one/generators.json")
    assert (result.name, result.dimension) == ("so(2)", (1, 1))
    assert "rotation" in done.output
    assert "rotation" in Path("one/report.html").read_text()
    refused = run("pictures.npz", "--model", "ink:net", "--degree", "3")
    assert refused.exit_code != 0
    assert "nothing for pictures" in " ".join(refused.output.split())
