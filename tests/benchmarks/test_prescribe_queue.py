"""The queue of ``prescribe``: what is done is left out, failures end nothing, tables are joined."""

import json
import multiprocessing
import time

import pytest
from benchmarks.prescribe import run
from benchmarks.prescribe.cell import Cell, Setting, compute
from benchmarks.prescribe.joined import joined, shown

from symmetries.analysis import quick_networks

ROW = {
    "predicted": {"gain": 1.0, "low": 0.0, "high": 2.0},
    "realised": 1.5,
    "accuracy": {"none": 80.0, "prescribed": 81.5, "grid": 81.5, "TrivialAugmentWide": 82.0},
    "prescribed": {},
}
CELLS = [Cell("digits", 0.0, 100 + k, 0) for k in range(4)]


def queue(out, until, needed=0.0):
    shared = [multiprocessing.Value(kind, 0) for kind in ("d", "i", "i")]
    shared[0].value = needed
    run.work(CELLS, Setting(), out, until, tuple(shared))


@pytest.fixture
def computed(monkeypatch):
    """Rows made without training; the second one fails."""
    seen = []

    def made(cell, how, in_time):
        seen.append(cell)
        if cell.labels == 101:
            raise RuntimeError("out of memory")
        return {**vars(cell), **ROW}

    monkeypatch.setattr(run, "compute", made)
    return seen


def test_a_row_that_fails_ends_no_others(tmp_path, computed):
    out = tmp_path / "rows.jsonl"
    queue(out, time.time() + 100)
    assert computed == CELLS
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert ["commit" in line for line in lines] == [True] + 4 * [False]
    assert [line.get("failed") for line in lines].count("RuntimeError: out of memory") == 1
    table = joined([out])
    assert [row["labels"] for row in table["rows"]] == [100, 102, 103]  # 101 is tried again
    stored = tmp_path / "table.json"
    stored.write_text(json.dumps(table, indent=1))
    again = joined([stored, out])
    assert len(again["runs"]) == 2
    assert [row["run"] for row in again["rows"]] == [0, 0, 0]
    assert "at least grid: 3 of 3" in shown(again["rows"])
    assert "at least grid and TrivialAugmentWide: 0 of 3" in shown(again["rows"])


def test_no_row_begins_that_cannot_end(tmp_path, computed):
    queue(tmp_path / "rows.jsonl", time.time() + 20, needed=30.0)
    assert computed == []
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_cell_with_all_policies(monkeypatch):
    monkeypatch.setitem(quick_networks.SIZES, "quick", quick_networks.Size(4, 8, 2))
    how = Setting(preset="quick", network="cnn", steps=4, test=50)
    row = compute(Cell("digits", 45.0, 200, 0), how, lambda seconds: True)
    assert set(row["accuracy"]) == {"none", "prescribed", "grid", "TrivialAugmentWide"}
    assert row["realised"] == pytest.approx(
        row["accuracy"]["prescribed"] - row["accuracy"]["none"], abs=0.01
    )
    assert compute(Cell("digits", 0.0, 200, 0), how, lambda seconds: False) is None
