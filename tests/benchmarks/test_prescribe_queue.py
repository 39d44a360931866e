"""The queue of ``prescribe``: what is done is left out, failures end nothing, tables are joined."""

import json
import time

import pytest
import torch
from benchmarks.prescribe import run
from benchmarks.prescribe.cell import Cell, Setting, ask, measure
from benchmarks.prescribe.joined import joined, read, shown, stored
from benchmarks.prescribe.together import side_by_side

from symmetries.analysis import quick_networks

ASKED = {"predicted": {"gain": 1.0, "low": 0.0, "high": 2.0}, "prescribed": {}}
MEASURED = {
    "realised": 1.5,
    "accuracy": {"none": 80.0, "prescribed": 81.5, "grid": 81.5, "TrivialAugmentWide": 82.0},
}
CELLS = [Cell("digits", 0.0, 100 + k, 0) for k in range(4)]


def queue(out, until, needed=(0.0, 0.0), cells=None):
    cells = [(cell, None) for cell in CELLS] if cells is None else cells
    run.work(cells, Setting(), out, until, run.Shared(list(needed)))


@pytest.fixture
def computed(monkeypatch):
    """Rows made without training; the second one fails."""
    seen = []

    def asked(cell, how):
        seen.append(cell)
        return {**vars(cell), **ASKED}

    def measured(cell, how, asked):
        if cell.labels == 101:
            raise RuntimeError("out of memory")
        return {**asked, **MEASURED}

    monkeypatch.setattr(run, "ask", asked)
    monkeypatch.setattr(run, "measure", measured)
    return seen


def test_a_row_that_fails_ends_no_others(tmp_path, computed):
    out = tmp_path / "rows.jsonl"
    queue(out, time.time() + 100)
    assert computed == CELLS
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert ["commit" in line for line in lines] == [True] + 8 * [False]
    assert [line.get("failed") for line in lines].count("RuntimeError: out of memory") == 1
    table = joined([out])
    assert [row["labels"] for row in table["rows"]] == [100, 102, 103]  # 101 is tried again
    kept = tmp_path / "table.json"
    kept.write_text(stored(table))
    assert json.loads(kept.read_text())["rows"] == table["rows"]
    again = joined([kept, out])
    assert len(again["runs"]) == 2
    assert [row["run"] for row in again["rows"]] == [0, 0, 0]
    lines = shown(again["rows"]).splitlines()
    assert "| 80.0, 81.5, 81.5, 82.0 |" in lines[4]
    assert lines[-1] == "| all | 3 of 3 | 0 of 3 | 0 of 3 | 1.0 | 1.5 | 3 of 3 |  |"


def test_a_stored_row_is_a_line_with_the_limits_of_classes_that_differ():
    far = {"rotation": [20.0, 20.0], "shift": [0.1, 0.08000000000000002]}
    rows = [{**vars(cell), **ASKED, **MEASURED, "by_class": far} for cell in CELLS]
    text = stored({"name": "prescribe", "runs": [{"commit": "a"}], "rows": rows})
    assert sum('"accuracy"' in line for line in text.splitlines()) == len(rows)
    table = json.loads(text)
    assert table["runs"] == [{"commit": "a"}]
    assert [row["by_class"] for row in table["rows"]] == [{"shift": [0.1, 0.08]}] * len(rows)
    assert shown(table["rows"]) == shown(rows)


def test_nothing_begins_that_cannot_end(tmp_path, computed):
    queue(tmp_path / "rows.jsonl", time.time() + 20, needed=(30.0, 30.0))
    assert computed == []
    assert not (tmp_path / "rows.jsonl").exists()


def test_what_is_prescribed_is_kept_where_time_ends_before_the_peers(tmp_path, computed):
    out = tmp_path / "rows.jsonl"
    queue(out, time.time() + 20, needed=(0.0, 30.0))
    assert joined([out])["rows"] == []
    asked = read(out)[2]
    assert len(asked) == len(computed) == 4
    again = [(cell, row) for cell, row in zip(CELLS, asked, strict=True)]
    queue(out, time.time() + 20, cells=again)
    assert len(computed) == 4  # not again
    assert len(joined([out])["rows"]) == 3


def test_threads_that_wait_for_networks_get_their_own(monkeypatch):
    """Three threads ask twice, and one of them once: all that wait are trained at once."""
    calls, got = [], {}

    def train(trials):
        if len(trials) > 3:
            raise torch.OutOfMemoryError("too many")
        calls.append(list(trials))
        return [f"network {trial}" for trial in trials]

    names = iter(range(3))

    def task():
        own = next(names)
        rounds = [[f"{own} {k}" for k in range(own + 1)]] * (1 if own == 2 else 2)
        got[own] = [quick_networks.train(trials) for trials in rounds]

    monkeypatch.setattr(quick_networks, "train", train)
    side_by_side(task, 3)
    assert quick_networks.train is train
    for own, answers in got.items():
        assert answers == [[f"network {own} {k}" for k in range(own + 1)]] * len(answers)
    assert len(calls[-1]) == 3  # the second time of two threads, together
    assert sum(map(len, calls)) == 1 + 2 + 3 + 1 + 2


def test_a_training_that_fails_fails_in_all_threads_and_ends(monkeypatch):
    seen = []

    def task():
        with pytest.raises(ValueError, match="no network"):
            quick_networks.train([1])
        seen.append(1)

    def train(trials):
        raise ValueError("no network")

    monkeypatch.setattr(quick_networks, "train", train)
    side_by_side(task, 4)
    assert len(seen) == 4


def test_a_cell_with_all_policies(monkeypatch):
    monkeypatch.setitem(quick_networks.SIZES, "quick", quick_networks.Size(4, 8, 2))
    how = Setting(preset="quick", network="cnn", steps=4, test=50)
    cell = Cell("digits", 45.0, 200, 0)
    row = measure(cell, how, ask(cell, how))
    assert set(row["accuracy"]) == {"none", "prescribed", "grid", "TrivialAugmentWide"}
    assert row["realised"] == pytest.approx(
        row["accuracy"]["prescribed"] - row["accuracy"]["none"], abs=0.01
    )
