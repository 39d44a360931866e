"""The queue of paired seeds: its order, end and resumption, and the tables of its rows."""

import importlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def paired(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("network_paired")


@pytest.fixture
def tables(paired):
    return importlib.import_module("network_paired_tables")


def row(method, seed, accuracy, law="turned", run=0, **more):
    where = {"data": "mnist", "law": law, "labels": 300, "settings": {"steps": 400}}
    return {**where, "method": method, "seed": seed, "accuracy": accuracy, "run": run, **more}


def threads(workers, context, begin, arguments):
    return ThreadPoolExecutor(workers)


def measured_in_turn(paired, monkeypatch, out, words="", seconds=0.0):
    """Run the queue with measurements that take some seconds; return the units that were begun."""
    begun = []

    def rows_of(unit, given):
        begun.append(unit)
        time.sleep(seconds)
        rows = [{"seed": seed, "method": unit.method, "accuracy": 1.0} for seed in unit.seeds]
        mine = {"data": unit.data, "law": unit.law, "labels": unit.labels}
        rows = [{**mine, **one, "settings": paired.settings(unit, given)} for one in rows]
        return {"commit": "abc"}, rows, ""

    monkeypatch.setattr(paired, "ProcessPoolExecutor", threads)
    monkeypatch.setattr(paired, "rows_of", rows_of)
    given = paired.parsed(f"--out {out} --data mnist --seeds 0 1 {words}".split())
    store = paired.Store(out)
    paired.run(paired.left(paired.queue(given), store.rows, given), given, store)
    return begun


def test_the_queue_has_each_measurement_once_and_what_tells_most_first(paired):
    units = paired.queue(paired.parsed([]))
    whole = [(u.data, u.law, u.labels, u.method, seed) for u in units for seed in u.seeds]
    assert len(whole) == len(set(whole))
    assert {(u.data, u.labels) for u in units[:20]} == {("mnist", 300)}
    learned = [each for each in whole if each[3] == "learned"]
    assert len(learned) == 2 * 2 * 2 * 10
    assert sum(each[3] == "search" for each in whole) == 11
    assert ("law of the data", "upright") not in {(u.method, u.law) for u in units}


def test_a_run_goes_on_with_what_is_missing_and_measures_other_settings_anew(
    paired, monkeypatch, tmp_path
):
    out = tmp_path / "rows.json"
    words = "--labels 300 --laws turned --methods none learned"
    assert len(measured_in_turn(paired, monkeypatch, out, words)) == 3
    stored = json.loads(out.read_text())
    assert len(stored["rows"]) == 4
    assert stored["runs"] == [{"commit": "abc"}]
    assert not measured_in_turn(paired, monkeypatch, out, words)
    (more,) = measured_in_turn(paired, monkeypatch, out, words + " --seeds 1 2 --methods none")
    assert more.seeds == (2,)
    assert len(measured_in_turn(paired, monkeypatch, out, words + " --steps 7")) == 3
    rows = json.loads(out.read_text())["rows"]
    assert [one["run"] for one in rows] == [0] * 4 + [1] + [2] * 4


def test_nothing_begins_that_would_not_end_in_time(paired, monkeypatch, tmp_path, capsys):
    out, words = tmp_path / "rows.json", "--methods learned --workers 2"
    late = f"{words} --began {time.time() - 100} --budget 100"
    assert not measured_in_turn(paired, monkeypatch, out, late)
    assert "8 of 8 units are left" in capsys.readouterr().out
    soon = f"{words} --budget {paired.ENDING + 1.0}"
    assert 2 <= len(measured_in_turn(paired, monkeypatch, out, soon, seconds=0.7)) <= 6
    assert not out.exists() or len(json.loads(out.read_text())["rows"]) <= 6


def test_a_training_that_is_not_over_ends_itself(paired, monkeypatch, tmp_path):
    from symmetries.training.log import call_hooks

    def compared(unit, given):
        yield {"seed": 0, "method": "none", "accuracy": 1.0}
        call_hooks(1, {})
        raise AssertionError("the training went on")

    monkeypatch.setattr(paired, "compared", compared)
    monkeypatch.setattr(paired, "_end", time.time() - 1)
    unit = paired.Unit("mnist", "turned", 300, "none", (0, 1))
    _, rows, problem = paired.rows_of(unit, paired.parsed([]))
    assert [one["seed"] for one in rows] == [0]
    assert problem == "no time is left"


def test_an_error_of_one_unit_is_said_and_its_rows_are_kept(paired, monkeypatch):
    def compared(unit, given):
        yield {"seed": 0, "method": "none", "accuracy": 1.0}
        raise ValueError("curvature")

    monkeypatch.setattr(paired, "compared", compared)
    unit = paired.Unit("mnist", "turned", 300, "none", (0, 1))
    _, rows, problem = paired.rows_of(unit, paired.parsed([]))
    assert len(rows) == 1
    assert "ValueError: curvature" in problem


def test_learned_is_compared_with_the_grid_on_the_seeds_that_both_have(tables):
    grid = [row("grid by validation", seed, 0.8 + 0.01 * seed) for seed in range(3)]
    learned = [row("learned", seed, 0.798 + 0.01 * seed, half_width=1.0) for seed in range(1, 4)]
    cell = tables.cells(grid + learned)["mnist", "turned", 300]
    mean, error, count = tables.verdict(cell)["grid by validation"]
    assert (mean, error, count) == (pytest.approx(-0.2), pytest.approx(0.0, abs=1e-9), 2)
    assert tables.verdict(cell)["as the grid"]
    worse = [{**one, "accuracy": one["accuracy"] - 0.002} for one in learned]
    cell = tables.cells(grid + worse)["mnist", "turned", 300]
    assert not tables.verdict(cell)["as the grid"]
    assert not tables.verdict(cell)["as Augerino"]  # it has not run
    with pytest.raises(SystemExit, match="other settings"):
        tables.cells([*grid, {**learned[0], "settings": {"steps": 5}}])


def test_later_files_replace_rows_and_searches_are_added_once(tables):
    first = {"runs": [{"commit": "a"}], "rows": [row("none", 0, 0.5), row("none", 1, 0.5)]}
    found = {"learned": 88.0, "interval": [80.0, 95.0], "told": True, "profile": {}}
    search = {**row("search", 500, 0.9, law="2 sectors", **found), "labels": 0}
    where = {"commit": "b", "command": "c", "device": "d", "date": "e"}
    second = {"runs": [where], "rows": [row("none", 1, 0.6), search]}
    both = tables.joined([first, second])
    assert {**both, **where} == both, "what the last run depends on"
    assert [(one["accuracy"], one["run"]) for one in both["rows"]] == [(0.5, 0), (0.6, 1), (0.9, 1)]
    task = {"task": "2 sectors", "steps": 400, "best": 87.0, "log evidence": [[0.0]]}
    empty = ("learned", "intervals", "told", "profiles", "accuracy, learned", "measured")
    stored = {"rows": [{**task, **{key: [] for key in empty}}]}
    once = tables.with_searches(stored, both)
    assert once["rows"][0]["learned"] == [88.0]
    assert once["rows"][0]["covered"] == once["rows"][0]["close"] == [True]
    assert tables.with_searches(once, both) == once
    other = {**stored, "rows": [{**stored["rows"][0], "steps": 800}]}
    assert tables.with_searches(other, both)["rows"][0]["learned"] == []


def test_the_page_has_the_table_of_the_stored_rows(tables):
    stored = json.loads((BENCHMARKS / "results" / "network_paired-cuda.json").read_text())
    page = (BENCHMARKS.parent / "docs" / "benchmarks.md").read_text()
    assert tables.accuracy_table(stored["rows"]) in page
    cells = tables.cells(stored["rows"])
    met = {cell: tables.verdict(found)["as the grid"] for cell, found in cells.items()}
    assert not any(met.values())  # as the page says
    whole = sorted(cell for cell, found in cells.items() if len(found.get("learned", ())) == 10)
    assert whole == [("mnist", "turned", 300), ("mnist", "upright", 300)]
    both = [(cells[cell]["learned"], cells[cell]["grid by validation"]) for cell in whole]
    lost = [learned[seed] - grid[seed] for learned, grid in both for seed in range(10)]
    assert sorted(round(-each, 1) for each in lost)[-4:] == [0.8, 1.8, 1.9, 4.4]
    assert max(lost) < 0.8
