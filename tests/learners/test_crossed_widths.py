"""Paper 0's widths by the bound on images that the filters have not seen; its stored results."""

import dataclasses
import importlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from symmetries.data import load

PAPER = Path(__file__).parents[2] / "papers" / "invariant-weights"
NONE = (0, 0, 0, 0, 0, 0)
TURNS = (0, 0, 5, 0, 0, 0)


@pytest.fixture
def crossed(monkeypatch):
    monkeypatch.syspath_prepend(PAPER)
    return importlib.import_module("crossed")


def test_candidates_are_families_alone_and_with_a_little_of_the_others(crossed):
    boxes = crossed.first()
    assert len(boxes) == len(set(boxes))
    for box in (NONE, TURNS, (4, 4, 0, 0, 0, 0), (0, 0, 0, 3, 3, 0), (1, 1, 5, 1, 1, 1)):
        assert box in boxes
    assert crossed.widths(TURNS) == (0, 0, crossed.WIDEST[2], 0, 0, 0)
    near = crossed.offers((1, 0, 5, 0, 0, 0))
    assert (2, 1, 5, 0, 0, 0) in near
    assert (1, 0, 4, 0, 0, 0) in near
    assert max(max(box) for box in near) == len(crossed.SHARES) - 1
    assert min(min(box) for box in near) == 0


def test_moves_that_help_are_made_together_and_families_keep_to_their_own(crossed):
    found = dict.fromkeys(crossed.offers(TURNS), -2.0) | {TURNS: -1.0}
    found |= {(1, 0, 5, 0, 0, 0): -0.7, (1, 1, 5, 0, 0, 0): -0.8, (0, 0, 5, 0, 0, 1): -0.9}
    assert crossed.combined(TURNS, found) == (1, 0, 5, 0, 0, 1)
    assert crossed.best(found, "affine") == (1, 0, 5, 0, 0, 0)
    assert crossed.best(found, "rotation") == TURNS
    assert crossed.best(found | {NONE: -3.0}, "scale") == NONE


def test_turned_digits_ask_for_turns_and_upright_ones_do_not(crossed, monkeypatch):
    """Two sets, six candidates each and their neighbours, trained together."""
    monkeypatch.setattr(crossed, "MAIN", (5,))
    monkeypatch.setattr(crossed, "AROUND", (0,))
    data = [load(name) for name in ("digits-rotated", "digits")]
    how = crossed.Crossed(
        features=24, seen=300, unseen=400, steps=80, batch_size=64, samples=4, rounds=1
    )
    turned, upright = crossed.search([d.images for d in data], data[0].labels, how)
    assert crossed.best(turned, "affine") == TURNS
    assert turned[TURNS] > turned[NONE] + 0.05
    assert upright[TURNS] < upright[NONE] - 0.1
    nonsense = data[1].labels.clone()
    nonsense[300:] = nonsense[300:].roll(1)
    worse = crossed.bounds([NONE], [0], [data[1].images], nonsense, how)
    assert worse < upright[NONE] - 0.5, "the bound is one of the unseen images"
    few = crossed.bounds([NONE], [0], [data[1].images[:700]], data[1].labels[:700], how)
    torch.testing.assert_close(few.item(), upright[NONE], rtol=1e-3, atol=1e-3)


def test_every_draw_has_the_filters_of_its_seed(crossed):
    model = crossed.shallow_model(
        (1, 8, 8), 10, crossed.GROUP, half_widths=[0.1] * 3, features=4, kind="relu"
    )
    crossed.draw_filters(model, [5, 6, 5])
    alone = crossed.InvariantFeatures((1, 8, 8), 4, kind="relu", seed=6).layer
    weight, bias = model.body.layer.weight, model.body.layer.bias
    torch.testing.assert_close(weight[1], alone.weight[0])
    torch.testing.assert_close(bias[1], alone.bias[0])
    torch.testing.assert_close(weight[0], weight[2])
    assert not torch.equal(weight[0], weight[1])


def test_copies_of_a_network_differ_in_their_widths_alone(crossed):
    continued = importlib.import_module("continued")
    options = {"features": 4, "kind": "relu", "posterior": "full", "bias": False}
    one, two = (
        crossed.shallow_model(
            (1, 8, 8), 10, crossed.GROUP, half_widths=widths, seed=seed, **options
        )
        for widths, seed in (([0.1], 1), ([0.2, 0.3], 2))
    )
    continued.copy_network(one, two)
    for copy in two.body.layer.weight:
        torch.testing.assert_close(copy, one.body.layer.weight[0])
    torch.testing.assert_close(two.head.lower[1], one.head.lower[0])
    torch.testing.assert_close(two.half_width[:, 0], torch.tensor([0.2, 0.3]))


def test_a_line_search_ends_beside_the_best_width_from_every_start(crossed, monkeypatch):
    """A bound with a hill at 100 degrees on one set, and one that rises to the end on another."""
    turns = importlib.import_module("turns")
    asked = []

    def measure(pairs, parts, labels, how):
        asked.append(pairs)
        hills = [-((w - 100) ** 2) if number == 0 else w for number, w in pairs]
        return torch.tensor([hills, hills])

    monkeypatch.setattr(turns, "measure", measure)
    starts = [(number, w) for number in (0, 1) for w in (0.0, 45.0, 175.0)]
    ends, known = turns.line_search(starts, [None, None], None, turns.TURNS)
    assert ends[:3] == pytest.approx([100.0] * 3)
    assert ends[3:] == [180.0] * 3
    assert [len(set(pairs)) for pairs in asked] == [len(pairs) for pairs in asked]
    assert known[0][45.0] == [-(55.0**2)] * 2


def test_the_top_of_noisy_bounds_is_that_of_their_parabola(crossed):
    turns = importlib.import_module("turns")
    smooth = {w: -((w - 140) ** 2) for w in (120.0, 135.0, 150.0, 165.0, 0.0)}
    assert turns.top(smooth) == pytest.approx(140)
    assert turns.top(smooth | {157.5: 1.0}) == pytest.approx(142, abs=12)
    assert turns.top({150.0: -3.0, 165.0: -2.0, 180.0: 0.0}) == 180, "no top"
    assert turns.top({150.0: -4.0, 165.0: -1.0, 180.0: 1.0}) == 180, "a top beyond the widths"


def test_a_stored_search_gives_the_boxes_of_its_best_bounds(crossed):
    jobs, widths = (importlib.import_module(name) for name in ("jobs", "widths"))
    (job,) = (job for job in jobs.jobs("2") if job.tag == "crossed")
    found = widths.stored(job, jobs.MOVED)
    assert crossed.best(found[0], "affine") == TURNS
    other = dataclasses.replace(job.training, crossed=crossed.Crossed(steps=1))
    assert widths.stored(dataclasses.replace(job, training=other), jobs.MOVED) == []


def test_turned_digits_end_wide_from_every_start(crossed):
    turns = importlib.import_module("turns")
    data = load("digits-rotated")
    how = crossed.Crossed(
        features=32, seen=600, unseen=700, steps=150, batch_size=64, samples=8, draws=2
    )
    starts = [(0, 0.0), (0, 175.0)]
    ends, known = turns.line_search(starts, [data.images], data.labels, how)
    assert min(ends) > 100
    assert all(len(each) == 2 for each in known[0].values())
    assert sum(known[0][180.0]) > sum(known[0][0.0]) + 0.05


def test_every_stored_batch_has_a_command_that_makes_it(crossed):
    """Family, kind, tag, rows and steps of each are those of a job that run.py trains."""
    jobs = importlib.import_module("jobs")
    every = [job for part in jobs.PARTS for job in jobs.jobs(part)]
    tables = json.loads((PAPER / "results.json").read_text())["tables"]
    others = {"continued", "crossed", "deeper", "edges", "identified", "samples", "toy"}
    others |= {"identified-finer", "sgpr", "sgpr-earlier"}
    for table, batches in tables.items():
        for batch in batches if table not in others else ():
            name = (table, *(batch[key] for key in ("family", "kind", "tag")))
            made = [job for job in every if (job.table, job.family, job.kind, job.tag) == name]
            assert made, name
            rows = {(run.row, run.set) for run in made[0].runs}
            assert {(run["row"], run["set"]) for run in batch["runs"]} == rows, name
            stored, how = batch["training"], dataclasses.asdict(made[0].training)
            stages = [(stored, how)]
            if "fine" in how:
                stages = [(stored.get(s, stored), how[s]) for s in ("coarse", "fine") if how[s]]
            for said, meant in stages:
                keys = ("steps", "batch_size", "samples", "sampling", "lr")
                assert {k: said[k] for k in keys} == {k: meant[k] for k in keys}, name


def test_stored_curves_say_nothing_twice():
    with np.load(PAPER / "results-arrays.npz") as arrays:
        curves = [arrays[name][:, 1:] for name in arrays.files if "/widths " in name]
    assert any(len(curve) > 50 for curve in curves)
    for curve in curves:
        same = (curve[1:] == curve[:-1]).all(1)
        assert not (same[1:] & same[:-1]).any()


def test_what_the_page_says_of_the_partially_rotated_set():
    """Read from the results, not by the code that writes the tables."""
    tables = json.loads((PAPER / "results.json").read_text())["tables"]

    def bounds(table):
        found = {}
        for run in (r for batch in tables[table] for r in batch["runs"]):
            if run["set"] == "mnist-partially-rotated" and run["row"].startswith("fixed"):
                found.setdefault(int(run["row"].split()[1]), []).append(run["elbo"])
        return {width: sum(each) / len(each) for width, each in found.items()}

    def ends(table):
        runs = [r for batch in tables[table] for r in batch["runs"] if "learned" in r["row"]]
        runs = [r for r in runs if r["set"] == "mnist-partially-rotated"]
        return [math.degrees(r["half_width"]["rotation"]) for r in runs]

    unseen, plain, copies = bounds("crossed"), bounds("table5"), bounds("continued")
    assert max(unseen, key=unseen.get) == 120
    assert unseen[120] - unseen[135] < 1.5e-4
    assert len(ends("table5-crossed")) == 10
    assert 128.5 < min(ends("table5-crossed")) < max(ends("table5-crossed")) < 132.5
    assert max(plain, key=plain.get) == 45
    flat = [plain[width] for width in (5, 30, 45, 60, 75, 90)]
    assert (f"{min(flat):.3f}", f"{max(flat):.3f}") == ("-0.136", "-0.131")
    assert len(ends("table5")) == 15
    assert (round(min(ends("table5"))), round(max(ends("table5")))) == (58, 89)
    assert sorted(sorted(copies, key=copies.get)[-2:]) == [120, 135]
    (on,) = (r for r in tables["continued"][0]["runs"] if r["row"] == "learned on")
    assert f"{max(copies.values()) - on['elbo']:.4f}" == "0.0003"
