"""The page of models from the index says what was stored; inputs are the same on every machine."""

import json
import sys
from pathlib import Path

import pytest
import torch

WILD = Path(__file__).parents[1] / "benchmarks" / "wild"


@pytest.fixture
def wild(monkeypatch):
    monkeypatch.syspath_prepend(str(WILD))
    names = ("run", "cases", "inputs", "packages", "page")
    others = {name: sys.modules.pop(name, None) for name in names}  # of other scripts' folders
    import run

    yield run
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update({name: module for name, module in others.items() if module is not None})


def test_the_page_is_made_of_the_results(wild):
    found = json.loads(wild.RESULTS.read_text())
    assert wild.PAGE.read_text() == wild.page(found)
    stored = [
        (row["package"].split()[0], row.get("file", row.get("model"))) for row in found["rows"]
    ]
    cases = [(case.package, case.file) for case in wild.CASES]
    assert stored[: len(cases)] == cases
    assert set(stored[len(cases) :]) <= {(use.package, use.model) for use in wild.USES}
    assert all(row["audited"] for row in found["rows"] if "file" in row)


def test_the_text_angle_classifier_needs_upright_text(wild):
    """What is known of it: half turns are what it is there to see."""
    row = json.loads(wild.RESULTS.read_text())["rows"][0]
    assert row["measures"]["accuracy"] > 0.9
    assert row["measures"]["accuracy_moved"] < 0.1


def test_inputs_and_actions(wild):
    import cases
    import inputs

    for make in (lambda: inputs.text_lines(2, 48, 96), lambda: inputs.pages(2, 64)):
        assert torch.equal(make(), make())
        assert 0 <= float(make().min()) < 0.5 < float(make().max()) <= 1
    assert inputs.sounds(3, 100).shape == (3, 100)
    assert int(inputs.bytes_of_text(3, 50).max()) < 128
    x = torch.rand(2, 5)
    assert torch.equal(cases.Polarity()(torch.tensor([0, 1]), x), x * torch.tensor([[1.0], [-1]]))
