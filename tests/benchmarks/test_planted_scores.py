"""Scores of made-up answers are those that are computed by hand, and silent errors are counted."""

import math
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benchmarks.planted import design, page, run
from benchmarks.planted.contents import CONTENTS
from benchmarks.planted.planting import plant
from benchmarks.planted.protocol import Answer, Found, Refused
from benchmarks.planted.reading import centred_density, centres, shortest_interval
from benchmarks.planted.records import FoundRow, Results, Row
from benchmarks.planted.score import score_cell, score_parameter, table
from benchmarks.planted.truth import BINS, CANNOT, FINITE

from symmetries.training.log import call_hooks

WIDE = math.radians(60)


def truth(verdicts=("partial", CANNOT), width=108.0, half=WIDE, scored=True):
    natural = {"half": 0.0, "sd": 0.0, "known": True}
    return {
        "half": half,
        "natural": natural,
        "verdicts": list(verdicts),
        "width90": width,
        "score_width": scored,
    }


def cell(asymmetric=True, **truths):
    known = {"id": "one", "content": "letters", "asymmetric": asymmetric, "size": 32}
    return {**known, "truth": truths or {"rotation": truth()}}


def row(*found, warnings=(), status="answered"):
    return Row(id="one", status=status, seconds=2.0, found=found, warnings=warnings, run=0)


def rotation(verdict="partial", width=108.0, **more):
    return FoundRow(name="rotation", verdict=verdict, width90=width, **more)


@pytest.mark.parametrize(
    ("found", "warnings", "outcome"),
    [
        (rotation(width=100.0), (), "right"),
        (rotation(width=90.0), (), "silent"),  # a ratio of 0.83
        (rotation(width=90.0), ("too few images",), "warned"),
        (rotation("full", width=108.0), (), "silent"),
        (rotation("absent", width=1.0), (), "silent"),
        (rotation(CANNOT, width=None), (), "cannot"),
        (rotation(CANNOT, width=300.0), (), "cannot"),
        (rotation(width=None), (), "silent"),  # a verdict without the width that it stands for
    ],
)
def test_outcomes_of_one_parameter(found, warnings, outcome):
    assert score_cell(row(found, warnings=warnings), cell()).outcome == outcome


def test_one_wrong_parameter_makes_a_cell_wrong_and_one_untold_makes_it_untold():
    still = truth(("absent", CANNOT), 0.0, 0.0, scored=False)
    both = cell(rotation=truth(), shift_x=still)
    right = FoundRow(name="shift_x", verdict="absent", width90=0.2)
    wrong = FoundRow(name="shift_x", verdict="partial", width90=2.0)
    untold = FoundRow(name="shift_x", verdict=CANNOT, width90=None)
    outcomes = [score_cell(row(rotation(), s), both).outcome for s in (right, wrong, untold)]
    assert outcomes == ["right", "silent", "cannot"]
    assert score_cell(row(rotation("full"), untold), both).outcome == "silent"


def test_ratios_of_factors_are_those_of_logarithms():
    known = truth(width=1.21, half=0.1)
    found = FoundRow(name="zoom", verdict="partial", width90=1.1, interval=(1.05, 1.15))
    score = score_parameter(found, known, 32)
    assert score.ratio == pytest.approx(0.5)
    assert score.covered is False
    wide = FoundRow(name="zoom", verdict="partial", width90=1.1, interval=(1.05, 1.25))
    assert score_parameter(wide, known, 32).covered is True


def test_total_variation_of_a_uniform_of_another_width_is_one_less_their_ratio():
    narrow = math.radians(30) * (2 * torch.rand(200, 4000) - 1)
    density = centred_density(narrow.double(), math.pi, 2 * math.pi)
    found = rotation(density=tuple(density.tolist()))
    variation = score_parameter(found, truth(), 32).total_variation
    assert variation == pytest.approx(0.5, abs=0.03)
    same = centred_density(2 * narrow.double(), math.pi, 2 * math.pi)
    found = rotation(density=tuple(same.tolist()))
    assert score_parameter(found, truth(), 32).total_variation < 0.04


def test_total_variation_of_flips_is_that_of_the_likelier_element():
    known = truth(("full", CANNOT), None, half=0.5, scored=False)
    found = FoundRow(name="flip_x", verdict="absent", width90=1.0, top=1.0)
    assert score_parameter(found, known, 32).total_variation == pytest.approx(0.5)


def test_pictures_are_laid_on_their_medians():
    turn = torch.tensor([[0.5], [3.0]]) + 0.2 * torch.linspace(-1, 1, 501)
    middle, length = shortest_interval(turn, 2 * math.pi)
    assert length.tolist() == pytest.approx([0.36, 0.36], abs=0.005)
    assert middle.remainder(2 * math.pi).tolist() == pytest.approx([0.5, 3.0], abs=0.03)
    found = centres(turn, 2 * math.pi).remainder(2 * math.pi)
    assert found.tolist() == pytest.approx([0.5, 3.0], abs=1e-3)
    inside = centred_density(turn, math.pi, 2 * math.pi)[BINS // 2 - 7 : BINS // 2 + 8]
    assert float(inside.sum()) == pytest.approx(1)


def test_the_table_counts_what_it_says():
    cells = [{**cell(), "id": str(i)} for i in range(4)]
    found = [rotation(), rotation(width=50.0), rotation(width=50.0), rotation(CANNOT, None)]
    said = [("careful",), (), ("careful",), ()]
    scores = [score_cell(row(f, warnings=w), c) for f, w, c in zip(found, said, cells, strict=True)]
    scores.append(score_cell(row(status="refused"), cells[0]))
    numbers = table(scores)
    assert numbers["cells"] == 5
    assert numbers["answered"] == 4
    assert numbers["silent errors"] == numbers["wrong with a warning"] == numbers["refused"] == 1
    assert numbers["right or cannot be told"] == 0.5
    assert numbers["asymmetric told"] == 0.75
    assert numbers["warnings on right cells"] == 1.0
    assert numbers["median ratio"] == pytest.approx(50 / 108)


def small_cell(start):
    cells = design.load()[0]["cells"]
    return {**next(c for c in cells if c["small"] and c["id"].startswith(start)), "count": 64}


def knowing(cell, planted):
    """A method that knows the truth of a cell: the best answer that there can be."""

    def uniform(half):
        return half * (2 * torch.rand(len(planted.images), 1500) - 1)

    def fit(question):
        every = []
        for name, known in cell["truth"].items():
            says, width, half = known["verdicts"][0], known["width90"], known["half"]
            if name in FINITE:
                p = torch.tensor([[1 - half, half]]).expand(len(planted.images), 2)
                every.append(Found(name, says, None, probabilities=p))
                continue
            moves = uniform(half) + uniform(known["natural"]["half"])
            moves = moves + known["natural"]["sd"] * torch.randn(moves.shape)
            for drawn in (planted.planted, planted.natural):
                moves = moves - drawn[name][:, None] if name in drawn else moves
            interval = None if width is None else (0.9 * width, 1.1 * width)
            every.append(Found(name, says, width, interval, moves))
        return Answer(tuple(every))

    return fit


def test_who_knows_the_truth_is_right_in_every_kind_of_cell():
    cells = design.load()[0]["cells"]
    plain = [c for c in cells if not CONTENTS[c["content"]].files and c["size"] <= 32]
    for chosen in plain[::6]:
        one = {**chosen, "count": 12}
        planted = plant(one["content"], one["size"], 12, one["planted"], one["id"])
        score = score_cell(run.fit_cell(knowing(one, planted), one, "cpu", None, 0), one)
        assert score.outcome == "right", one["id"]
        assert all(p.covered in (True, None) for p in score.parameters)
        assert all((p.total_variation or 0) < 0.06 for p in score.parameters), one["id"]


def test_who_sees_no_turns_is_silently_wrong():
    one = small_cell("letters/rotation-wide/rotation/")

    def blind(question):
        return Answer((Found("rotation", "absent", 0.0, moves=torch.zeros(64, 500)),))

    score = score_cell(run.fit_cell(blind, one, "cpu", None, 0), one)
    assert score.outcome == "silent"
    assert score.parameters[0].total_variation > 0.9


def test_centres_are_compared_with_the_poses_that_were_planted():
    one = small_cell("letters/rotation-wide/rotation/")
    planted = plant(one["content"], one["size"], 64, one["planted"], one["id"])
    best = run.fit_cell(knowing(one, planted), one, "cpu", None, 0)
    assert best.found[0].centre_miss < 3
    frozen = Answer((Found("rotation", "partial", 108.0, moves=torch.randn(64, 500)),))
    assert run.fit_cell(lambda q: frozen, one, "cpu", None, 0).found[0].centre_miss > 20


def test_runs_go_on_where_they_ended_and_refuse_another_design(tmp_path, monkeypatch):
    asked = []

    def fit(question):
        asked.append(question.group)
        if question.group == "hue":
            raise Refused("no colours")
        return Answer((Found("rotation", "partial", 108.0),))

    monkeypatch.setattr(run, "method", lambda name: fit)
    cells = [small_cell("letters/rotation-wide/rotation/"), small_cell("coloured-letters/")]
    out = tmp_path / "results.json"
    run.run("two-stage-quick", cells[:1], "digest", out, "cpu", None)
    found = run.run("two-stage-quick", cells, "digest", out, "cpu", None)
    assert asked == ["rotation", "hue"]
    assert [r.status for r in found.rows] == ["answered", "refused"]
    assert found == Results.load(out)
    assert len(found.runs) == 2
    assert {"commit", "device", "command"} <= set(found.runs[0])
    with pytest.raises(ValueError, match="use another --out"):
        run.run("two-stage-quick", cells, "another", out, "cpu", None)
    left = run.run("two-stage-quick", cells, "digest", tmp_path / "b.json", "cpu", None, -1.0)
    assert left.rows == ()


def test_processes_fit_cells_side_by_side(tmp_path):
    cells = [small_cell("letters/zoom-wide/zoom/"), small_cell("letters/none/flip_x/")]
    found = run.run(
        "rotation-classifier", cells, "digest", tmp_path / "a.json", "cpu", None, 300.0, 2
    )
    assert {r.id for r in found.rows} == {cell["id"] for cell in cells}
    assert {r.status for r in found.rows} == {"refused"}  # it has one angle only
    left = run.run(
        "rotation-classifier", cells, "digest", tmp_path / "b.json", "cpu", None, 0.01, 2
    )
    assert left.rows == ()


def test_a_cell_that_runs_out_of_time_ends_by_itself_and_is_left_to_the_next_run(monkeypatch):
    trained = []

    def fit(question):
        for done in range(5):
            call_hooks(done, {"loss": 0.0})
            trained.append(done)
        return Answer((Found("rotation", "partial", 108.0),))

    monkeypatch.setattr(run, "method", lambda name: fit)
    job = ("orbit-quick", small_cell("letters/rotation-wide/rotation/"), "cpu", None, 0)
    monkeypatch.setattr(run, "_ended", [0.1])

    def fitted(seconds):
        monkeypatch.setattr(run, "_end", SimpleNamespace(value=time.time() + seconds))
        return run._fitted_in_time(job)

    assert fitted(run.READING - 1) is None
    assert trained == []
    assert fitted(run.READING + 60).status == "answered"
    assert trained == [*range(5)]
    assert fitted(-1) is None  # not begun


def test_sets_of_cells_come_one_after_the_other_in_an_order_that_stays():
    cells, digest = run.chosen(["asymmetric", "all"])
    assert (cells, digest) == run.chosen(["asymmetric", "all"])
    first = sum(cell["asymmetric"] for cell in cells)
    assert all(cell["asymmetric"] for cell in cells[:first])
    assert 0 < first < len(cells) == len({cell["id"] for cell in cells})
    assert [cell["id"] for cell in cells[:first]] != sorted(cell["id"] for cell in cells[:first])
    assert run.chosen(["asymmetric"], most=5)[0] == cells[:5]
    with pytest.raises(ValueError, match="sets of one design"):
        run.chosen(["all", "everyday"])


def test_files_of_one_method_are_joined_and_rows_keep_their_runs():
    first = Results(method="m", design="d", runs=({"commit": "a"},), rows=(row(rotation()),))
    later = replace(row(rotation(width=1.0)), id="two")
    second = Results(method="m", design="d", runs=({"commit": "b"},), rows=(later,))
    both = first.joined(second)
    assert [(r.id, both.runs[r.run]["commit"]) for r in both.rows] == [("one", "a"), ("two", "b")]
    with pytest.raises(ValueError, match="same method and design"):
        first.joined(replace(second, design="another"))


def test_stored_commands_name_no_folder_of_a_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run.py", "--data", "/some/where/data", "--cells", "/hue/"])
    assert run.environment()["command"] == "run.py --data data --cells /hue/"


def test_a_device_that_is_merely_there_is_not_named(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "a GPU")
    assert run.environment()["device"] == run.environment("cpu")["device"] != "a GPU"
    assert run.environment("cuda")["device"] == "a GPU"
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    assert run.environment()["device"] == "a GPU"


def test_an_answer_without_a_parameter_fails_its_cell_only():
    one = small_cell("letters/rotation-wide+shift-wide/")
    half = run.fit_cell(lambda q: Answer((Found("rotation", "full", 1.0),)), one, "cpu", None, 0)
    assert half.status == "failed"
    assert "shift_x" in half.reason


def test_the_page_is_what_the_stored_results_give():
    text = page.PAGE.read_text()
    assert page.written(text) == text
