"""Studies of paper 0 in small: labels that tell, widths on the edge of a search, resuming."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import interpolate

from symmetries.data import ImageSet, digits

FOLDER = Path(__file__).parents[1] / "papers" / "invariant-weights"


@pytest.fixture
def study(monkeypatch):
    """Imports a file of the paper; leaves no module behind."""
    names = {path.stem for path in FOLDER.glob("*.py")}
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    small = digits("train")
    large = interpolate(small.images, 28, mode="bilinear")[:300]
    data = ImageSet(large, small.labels[:300], "mnist", small.class_names)

    def load(name):
        module = importlib.import_module(name)
        if hasattr(module, "cached"):
            monkeypatch.setattr(module, "cached", lambda *_: data)
        return module

    yield load
    for name in names:
        sys.modules.pop(name, None)


def test_labels_that_tell(study, monkeypatch, capsys):
    module = study("sampling")
    few = {"EXACT": 2, "OUTPUTS": 2, "STEPS": 1, "SECTORS": (2,), "ANGLES": (45, 90)}
    for name, value in (few | {"FULL": module.FULL.replace(samples=2)}).items():
        monkeypatch.setattr(module, name, value)
    found = list(module.identified(None, torch.device("cpu"), 1, steps=1))
    assert [batch["tag"] for batch in found] == ["2 sectors", "6 or 9"]
    for batch in found:
        assert len(batch["learned"]) == len(batch["by_gradients"]) == 2
        assert all(0 <= width <= 180 for width in batch["learned"] + batch["by_gradients"])
        assert batch["best"] in batch["degrees"]
    assert "2 sectors, seed 1: best" in capsys.readouterr().out


def test_widths_on_the_edge_are_stretched_and_no_others(study):
    module = study("edges")
    box = (0.6, 0.3, 3.1416, 0.8, 0.1, 0.0)
    assert module.stretched(box, 1.125) == pytest.approx((0.675, 0.3, 3.1416, 0.9, 0.1, 0.0))
    assert module.stretched(box, 1.5)[3] == 1.0, "no further than the group's own bounds"
    (batch,) = module.edges(None, torch.device("cpu"), 0, steps=1)
    shifts = [row["half_widths"][0] for row in batch["rows"] if row["set"] == "mnist-translated"]
    assert shifts == pytest.approx([0.6 * factor for factor in module.FACTORS])
    assert all(len(row["bounds"]) == 2 for row in batch["rows"])


def test_batches_are_not_repeated_and_parts_know_whether_they_are_whole(study, tmp_path, capsys):
    store = study("run").Store(tmp_path / "results.json", torch.device("cpu"))
    store.add("samples", {"tag": "a", "seed": 0, "unfinished": True})
    assert not store.has("samples", seed=0)
    store.finish("samples", 0)
    assert store.has("samples", seed=0)
    assert not store.has("samples", seed=1)
    assert "samples, seed 0: in the results" in capsys.readouterr().out
    (kept,) = json.loads((tmp_path / "results.json").read_text())["tables"]["samples"]
    assert "unfinished" not in kept
