"""Fields that have every pose tell none; where a leak is put back, the same measure finds it."""

import pytest
import torch
from benchmarks.planted.leaks import ALLOWED, CASES, Case, gain, pictures, table

from symmetries.learners.orbit_posterior.frames import Frame

VIEWS = "symmetries.learners.orbit_posterior.views"
FIND = "symmetries.learners.orbit_posterior.model.find_frame"


@pytest.mark.parametrize(
    "case",
    [
        Case("rotation", 8, 8, "bilinear", "full"),
        Case("rotation", 12, 1, "bicubic", "round"),
        Case("translation", 12, 8, "bspline", "full"),
    ],
)
def test_pictures_that_have_every_pose_tell_none(case):
    assert gain(pictures(case, 1200), case.group, case.interpolation, steps=200) < ALLOWED


def test_a_round_window_that_is_not_hidden_would_be_told(monkeypatch):
    monkeypatch.setattr(FIND, lambda images, fill: Frame(False, 0.5, 1.0))
    assert gain(pictures(Case("rotation", 12, 8, "bilinear", "round"), 1200), steps=300) > ALLOWED


def test_a_frame_that_moves_would_be_told(monkeypatch):
    monkeypatch.setattr(f"{VIEWS}.round_window", lambda h, w, radius, margin: torch.ones(h, w))
    monkeypatch.setattr(
        f"{VIEWS}._between", lambda unit, turns, side: torch.eye(3).expand(len(unit), 3, 3)
    )
    monkeypatch.setattr(FIND, lambda images, fill: Frame(True, 0.0, 1.0))
    assert gain(pictures(Case("rotation", 12, 8, "bilinear", "full"), 1200), steps=200) > ALLOWED


def test_the_cases_cover_what_could_leak():
    assert {case.interpolation for case in CASES} == {"bilinear", "bicubic", "bspline"}
    assert {case.window for case in CASES} == {"full", "round"}
    assert {case.bits for case in CASES} == {1, 8, None}
    assert {min(c.size for c in CASES), max(c.size for c in CASES)} == {8, 128}
    rows = [{**vars(CASES[0]), "gain": 0.001}]
    assert "| rotation | 8 | 8 | bilinear | full | 0.0010 |" in table(rows)
