"""The reproduction of paper 1 runs from end to end on small digits, and theory holds there."""

import json
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "papers" / "genuine-invariance" / "run.py"


@pytest.fixture(scope="module")
def found(run_script, tmp_path_factory):
    out = tmp_path_factory.mktemp("genuine-invariance")
    words = ["--quick", "--quiet", "--device", "cpu", "--out", out, "--steps", 60]
    run_script(RUN, *words, "--examples", 40, "--feature-examples", 10, "--seeds", 0)
    return out, json.loads((out / "results.json").read_text())


def test_files(found):
    out, results = found
    assert {path.name for path in out.iterdir()} == {
        "results.json",
        "figures.npz",
        *(f"figure{i}.png" for i in range(1, 6)),
    }
    assert set(results["table"]) == {"r4", "t3"}


@pytest.mark.parametrize("group", ["r4", "t3"])
def test_weight_tying_is_exact_and_the_order_is_the_paper_s(found, group):
    rows = found[1]["table"][group]
    assert rows["WT"]["li"]["mean"] < 1e-20
    assert rows["WT"]["si"]["mean"] > 0.999
    assert rows["DA"]["li"]["mean"] > 1e-4
    assert rows["IR"]["si"]["mean"] > max(0.95, rows["DA"]["si"]["mean"])
    assert rows["IR"]["li"]["mean"] < rows["DA"]["li"]["mean"] / 10


@pytest.mark.parametrize("group", ["r4", "t3"])
def test_drift_begins_where_the_table_ends(found, group):
    curves = found[1]["drift"][group]
    assert curves["DA"]["accuracy_ratio"][0] == 1
    assert max(curves["WT"]["di"]) < 1e-6


def test_proposition(found):
    checked = found[1]["proposition_3_1"]
    assert checked["largest_rise_per_step"] <= 1e-12
    assert checked["sigma_ratio_max"] <= 1
    assert checked["largest_gap_to_gradient_flow"] < 1e-2
