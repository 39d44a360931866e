"""Minutes to the papers' numbers are read from what runs store, and contention is said."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "time_to_quality.py"
GPU = "NVIDIA H200"


@pytest.fixture(scope="module")
def quality():
    spec = importlib.util.spec_from_file_location("time_to_quality", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_paper_has_a_line_and_no_line_claims_more_than_its_cells(quality):
    rows = quality.rows()
    assert len({row["paper"] for row in rows}) == len(quality.READERS)
    for row in rows:
        assert 0 <= row["reached"] <= row["cells"]
        assert row["minutes"] > 0
        assert row["GPU"] in ("alone", "contended", "partly contended")


def test_cells_are_judged_by_the_mean_over_seeds_and_time_is_summed(quality):
    runs = [
        {"row": "none", "set": "mnist", "accuracy": 97.0},
        {"row": "none", "set": "mnist", "accuracy": 99.0},
        {"row": "affine", "set": "mnist", "accuracy": 98.0},
    ]
    batches = [
        {"seconds": 60.0, "runs": runs, "made": {"device": GPU}},
        {"seconds": 6e5, "runs": runs, "made": {"device": "a processor"}},
    ]
    expected = {
        "table2": {
            "sets": ["mnist"],
            "rows": {"none": {"accuracy": [98.0]}, "affine": {"accuracy": [98.5]}},
        }
    }
    (row,) = quality.invariant_weights({"tables": {"table2": batches}}, expected)
    assert (row["cells"], row["reached"], row["models"]) == (2, 1, 3)
    assert row["minutes"] == pytest.approx(1.0)
    assert row["GPU"] == "contended"  # unless it is said
    batches[0]["made"]["note"] = "alone on the GPU"
    (row,) = quality.invariant_weights({"tables": {"table2": batches}}, expected)
    assert row["GPU"] == "alone"


def test_the_nearest_note_says_whether_the_gpu_was_shared(quality):
    own = {"seconds": 1.0, "note": "alone on the GPU", "made": {"device": GPU}}
    other = {"seconds": 1.0}
    results = {"environment": {"device": GPU, "note": "five jobs shared the GPU"}}
    line = quality.line("p", "t", [True], [own, other], results)
    assert line["GPU"] == "partly contended"
    assert quality.on_gpu(other, results)
    assert not quality.on_gpu({"device": "cpu"}, results)


def test_relaxed_networks_are_matched_with_their_row_of_the_paper(quality):
    expected = json.loads(
        (SCRIPT.parents[1] / "papers" / "relaxed-equivariance" / "expected.json").read_text()
    )
    row = {"experiment": "table3", "data": "cifar10", "rotations": 8, "mode": "soft"}
    row |= {"relaxed": "rotation", "penalty": 0.1}
    assert quality._relaxed_number(row, expected) == 86.36
    assert quality._relaxed_number(row | {"augment": True}, expected) == 89.26
    assert quality._relaxed_number(row | {"penalty": None}, expected) == 86.39
    strict = {"mode": "strict", "relaxed": None, "penalty": None}
    assert quality._relaxed_number(row | strict, expected) == 82.16
    assert quality._relaxed_number(row | {"penalty": 7.0}, expected) is None
