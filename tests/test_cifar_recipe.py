"""The recipe of papers/relaxed-equivariance: rows are written once, and a stopped run goes on."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "papers" / "relaxed-equivariance" / "cifar.py"


@pytest.fixture
def recipe(monkeypatch):
    spec = importlib.util.spec_from_file_location("cifar_recipe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(128) % 10
    images = torch.rand(128, 3, 32, 32, generator=generator) + labels[:, None, None, None] / 5
    monkeypatch.setattr(module, "images_of", lambda *_: ((images, labels), (images, labels)))
    sys.path.remove(str(SCRIPT.parent))
    return module


def run(recipe, monkeypatch, out, *words):
    fixed = ["cifar.py", "--out", str(out), "--recipe", "tiny", "--seeds", "0", "--epochs", "2"]
    monkeypatch.setattr(sys, "argv", [*fixed, *words])
    recipe.main()
    return json.loads(out.read_text())["rows"] if out.exists() else []


def test_rows_are_written_once(recipe, monkeypatch, tmp_path, capsys):
    out = tmp_path / "cifar.json"
    rows = run(recipe, monkeypatch, out, "--only", "t2-strict")
    assert [(row["rotations"], row["mode"], row["steps"]) for row in rows] == [(1, "strict", 4)]
    assert "cifar10-c1-strict-tiny-2-0" in capsys.readouterr().out
    assert run(recipe, monkeypatch, out, "--only", "t2-strict") == rows
    assert capsys.readouterr().out == ""


def test_a_budget_stops_and_the_run_goes_on(recipe, monkeypatch, tmp_path, capsys):
    out = tmp_path / "cifar.json"
    assert run(recipe, monkeypatch, out, "--only", "t2-strict", "--budget", "0") == []
    assert "no time" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="the same command goes on"):
        run(recipe, monkeypatch, out, "--only", "t2-strict", "--budget", "0.01")
    assert not out.exists()
    assert len(run(recipe, monkeypatch, out, "--only", "t2-strict")) == 1


def test_the_recipe_is_that_of_the_best_held_out_accuracy(recipe):
    row = {"validation": True, "mode": "strict", "rotations": 4}
    rows = [row | {"recipe": "plain", "accuracy": 70}, row | {"recipe": "sharp", "accuracy": 72}]
    rows.append(rows[0] | {"recipe": "pooled", "accuracy": 90, "validation": False})
    assert recipe.chosen(rows) == "sharp"
    with pytest.raises(SystemExit, match="--choose"):
        recipe.chosen(rows[2:])


def test_names_give_the_rows_of_the_tables(recipe):
    found = list(recipe.models(["strict", "t2-soft", "learned"], 8))
    assert found[:2] == [(8, "strict", 0.0, None), (1, "soft", 0.25, None)]
    assert [penalty for *_, penalty in found[2:]] == list(recipe.LAMBDAS)
