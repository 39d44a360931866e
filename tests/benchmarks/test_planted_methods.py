"""Methods answer what they can, refuse what they cannot, and never see the truth."""

import dataclasses
import math

import pytest
from benchmarks.planted.methods import NAMES, augerino, method, rotation_classifier, two_stage
from benchmarks.planted.planting import plant
from benchmarks.planted.protocol import Question, Refused

from symmetries.data import ImageSet


def question(content, transformation, group, count=200, size=16):
    found = plant(content, size, count, transformation, seed=0)
    return Question(ImageSet(found.images, found.labels, content), group, 0, "cpu")


def test_a_question_has_no_truth_in_it():
    assert {f.name for f in dataclasses.fields(Question)} == {"images", "group", "seed", "device"}


def test_a_method_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="two-stage-quick"):
        method("nothing")
    assert {"two-stage-quick", "two-stage-default", "augerino", "rotation-classifier"} <= set(NAMES)


def test_the_classifier_tells_hearts_that_stand_from_hearts_that_turn(monkeypatch):
    monkeypatch.setattr(rotation_classifier, "STEPS", 150)
    widths = {}
    for name, planted in (("still", {}), ("turned", {"rotation": 3.1416})):
        answer = rotation_classifier.held_out(question("hearts", planted, "rotation"))
        (found,) = answer.found
        widths[name] = found.width90
        assert found.moves.shape == (100, 512)
    assert widths["still"] < 60
    assert widths["turned"] > 2 * widths["still"]


def test_the_classifier_has_one_angle():
    with pytest.raises(Refused, match="one angle"):
        rotation_classifier.plain(question("hearts", {}, "rotation,zoom"))


def test_augerino_needs_labels_and_learns_a_box(monkeypatch):
    monkeypatch.setattr(augerino, "STEPS", 20)
    with pytest.raises(Refused, match="labels"):
        augerino.fit(question("random fields", {}, "rotation"))
    answer = augerino.fit(question("letters", {"rotation": 1.0}, "rotation,translation"))
    assert [found.name for found in answer.found] == ["shift_x", "shift_y", "rotation"]
    assert all(found.width90 > 0 and found.moves is None for found in answer.found)


def test_the_symmetry_model_refuses_groups_that_it_does_not_know():
    with pytest.raises(Refused, match="finite factor"):
        two_stage.quick(question("letters", {}, "rotation,flip_x", count=20))


@pytest.mark.slow
def test_small_hearts_whose_pose_is_not_seen_are_not_called_full():
    asked = question("hearts", {"rotation": math.pi / 3}, "rotation", 600)
    found = method("orbit-quick")(asked).found[0]
    assert found.verdict in ("partial", "cannot be told")
    assert found.verdict == "cannot be told" or 0.8 < found.width90 / 108 < 1.25
