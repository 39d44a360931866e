"""Rows that a queue of GPU runs brought back are merged once, with their provenance."""

import importlib.util
import json
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "papers" / "merge_runs.py"
MADE = {
    "command": "run.py --seeds 1 --out /a/b --data /c --budget 3.5",
    "commit": "old",
    "device": "H",
}


@pytest.fixture
def merge(tmp_path):
    spec = importlib.util.spec_from_file_location("merge_runs", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(paper, stored, script, content, commit="new"):
        file = tmp_path / paper / "results.json"
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps(stored))
        job = {"name": "a", "script": f"{paper}/{script}", "files": {"results.json": content}}
        counts = module.merge({"commit": commit, "lanes": 2, "jobs": [job]}, tmp_path)
        return counts, json.loads(file.read_text())

    return run


def test_rows_are_added_once_with_commit_and_command(merge):
    row = {
        "data": "cifar100",
        "rotations": 4,
        "mode": "strict",
        "seed": 0,
        "recipe": "sharp",
    } | MADE
    other = row | {"seed": 1}
    given = ("relaxed-equivariance", {"cifar": {"rows": [row | {"commit": "first"}]}}, "cifar.py")
    for expected in (1, 0):
        counts, found = merge(*given, {"rows": [row, other]})
        assert counts == {"relaxed-equivariance": expected}
        rows = found["cifar"]["rows"]
        assert [(r["seed"], r["commit"]) for r in rows] == [(0, "first"), (1, "new")]
        assert (rows[1]["command"], rows[1]["lanes"]) == ("run.py --seeds 1", 2)


def test_rows_of_the_plain_network_are_kept_apart(merge):
    row = {"experiment": "table3", "data": "cifar10", "penalty": 0.01, "rate": 4.0} | MADE
    stored = {"rows": [row | {"penalty": 0.1}], "cifar": {"rows": []}}
    counts, found = merge("relaxed-equivariance", stored, "run.py", {"rows": [row, row]})
    assert counts == {"relaxed-equivariance": 1}
    assert ([r["penalty"] for r in found["rows"]], found["cifar"]["rows"]) == ([0.1, 0.01], [])


def test_unfinished_and_half_written_ones_are_left_out(merge, capsys):
    batch = {"tag": "a", "seed": 1, "commit": "old", "hardware": MADE}
    tables = {"samples": [batch, batch | {"seed": 2, "unfinished": True}], "edges": []}
    given = ("invariant-weights", {"tables": {}}, "run.py")
    counts, found = merge(*given, {"tables": tables})
    assert counts == {"invariant-weights": 1}
    assert list(found["tables"]) == ["samples"]
    (kept,) = found["tables"]["samples"]
    assert (kept["seed"], kept["commit"], "commit" in kept["hardware"]) == (1, "new", False)
    assert merge(*given, None)[0] == {}
    assert "half written" in capsys.readouterr().out


def test_runs_without_a_commit_are_refused(merge):
    with pytest.raises(SystemExit, match="SYMMETRIES_COMMIT"):
        merge("invariant-vae", {"rows": []}, "run.py", {"rows": []}, commit=None)


def test_the_papers_networks_are_kept_apart(merge):
    row = {"part": "rotation", "steps": 9, "added": 45.0, "seed": 0}
    paper = row | {"made": MADE | {"command": "run.py --paper --out /a"}}
    counts, found = merge(
        "invariant-vae", {"rows": []}, "run.py", {"rows": [row | {"made": MADE}, paper]}
    )
    assert counts == {"invariant-vae": 2}
    assert [len(found[name]) for name in ("rows", "paper_networks")] == [1, 1]


def test_vaes_of_one_cell_are_told_apart_by_kind(merge):
    row = {"part": "figure9", "steps": 9, "added": 0.0, "seed": 0, "size": 5, "kind": "AugVAE"}
    stored, new = row | {"made": MADE}, row | {"kind": "VAE", "made": MADE}
    counts, found = merge("invariant-vae", {"rows": [stored]}, "run.py", {"rows": [new, stored]})
    assert counts == {"invariant-vae": 1}
    assert [r["kind"] for r in found["rows"]] == ["AugVAE", "VAE"]


def test_drift_of_the_published_networks_is_added_once(merge):
    given = ("genuine-invariance", {"plain": {"table": {}}}, "run.py")
    content = {"drift": {"r4": {"WT": {}}}, "environment": MADE, "table": {}}
    for expected in (1, 0):
        counts, found = merge(*given, content)
        assert counts == {"genuine-invariance": expected}
        assert found["plain"]["drift"] == content["drift"]
        assert found["plain"]["drift_environment"]["commit"] == "new"
