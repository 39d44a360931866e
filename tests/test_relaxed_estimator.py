"""The relaxed classifier as scikit-learn has it: its checks, what it reports, files, bad input."""

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import check_estimator

from symmetries.data import digits, upside_down_sixes
from symmetries.estimators import RelaxedClassifier, relaxed
from symmetries.groups import Cyclic

SMALL = {"width": 2, "steps": 30, "batch_size": 32, "lr": 0.03, "relax": 0.5}

# Checks that cannot hold for images, with the reason: none do not hold.
EXPECTED_FAILURES: dict[str, str] = {}
# Checks that scikit-learn itself leaves out where pandas or an array-API switch is missing.
LEFT_OUT = {"check_array_api_input", "check_classifier_data_not_an_array"}


def test_scikit_learn_s_checks():
    options = {"expected_failed_checks": EXPECTED_FAILURES, "on_skip": None, "on_fail": None}
    results = check_estimator(RelaxedClassifier(**SMALL | {"steps": 15, "lr": 0.05}), **options)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= LEFT_OUT
    assert len(results) > 40


@pytest.fixture(scope="module")
def sixes():
    train = upside_down_sixes(digits("train"), "train", pairs=True)
    return train.images.numpy(), np.array(["six", "nine"])[train.labels.numpy()]


@pytest.fixture(scope="module")
def soft(sixes):
    return RelaxedClassifier("c4", width=4, steps=60, lr=0.01, batch_size=32).fit(*sixes)


def test_what_strict_symmetry_cannot_tell_relaxed_layers_tell(sixes, soft):
    strict = RelaxedClassifier("c4", "strict", width=4, steps=5, batch_size=32).fit(*sixes)
    assert strict.score(*sixes) == pytest.approx(0.5, abs=0.05)
    assert strict.relaxation_ == []
    assert soft.score(*sixes) > 0.95
    assert [row["coordinate"] for row in soft.relaxation_] == ["rotation"] * 3
    assert all(row["learned"] and row["error"] > 1e-3 for row in soft.relaxation_)
    assert set(soft.classes_) == {"six", "nine"}


def test_errors_of_layers_are_of_all_classes_where_rows_are_sorted(monkeypatch):
    seen = []
    monkeypatch.setattr(relaxed, "relaxation", lambda model, x: seen.append(x) or [])
    X = np.repeat([0.2, 0.8], 100)[:, None, None] * np.ones((200, 8, 8))
    X += 0.01 * np.random.default_rng(0).random(X.shape)
    RelaxedClassifier("c4", width=2, steps=1, batch_size=32).fit(X, np.arange(200) // 100)
    shares = (seen[0].amax((1, 2, 3)) > 0.5).float()
    assert len(shares) == 64
    assert 0.4 < float(shares.mean()) < 0.6


def test_history_has_the_loss_and_what_each_layer_learned(soft):
    layers = [f"{row['layer']} {row['coordinate']}" for row in soft.relaxation_]
    assert {"step", "loss", "cross_entropy", "accuracy", "relaxation", *layers} <= {*soft.history_}
    assert {len(values) for values in soft.history_.values()} == {len(soft.history_["step"])}
    assert soft.history_["loss"][-1] == soft.loss_ < soft.history_["loss"][0]
    for layer in layers:  # from 0.1, and not of the same size at the end
        assert soft.history_[layer][0] == pytest.approx(0.1)
        assert soft.history_[layer][-1] != pytest.approx(0.1, abs=1e-4)


def test_probabilities_logits_and_the_module_agree(sixes, soft):
    X = sixes[0][:10]
    p = soft.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(soft.decision_function(X), np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    np.testing.assert_array_equal(soft.predict(X), soft.classes_[p.argmax(1)])
    logits = soft.module()(torch.from_numpy(X).float())
    np.testing.assert_allclose(logits.softmax(1).detach().numpy(), p, atol=1e-4)


def test_it_predicts_the_same_after_loading(tmp_path, sixes, soft):
    soft.save(tmp_path)
    loaded = RelaxedClassifier.load(tmp_path)
    X = sixes[0][:20]
    np.testing.assert_array_equal(loaded.predict_proba(X), soft.predict_proba(X))
    assert loaded.relaxation_ == soft.relaxation_


@pytest.mark.parametrize("group", ["c1", "d2", Cyclic(8)])
def test_other_groups_modes_and_images_that_are_not_square(group):
    X, y = np.random.default_rng(0).random((12, 3, 5, 9)), np.arange(12) % 3
    model = RelaxedClassifier(group, width=1, steps=2, batch_size=8).fit(X, y)
    assert model.predict_proba(X).shape == (12, 3)
    coordinate = "shift_x" if group == "c1" else "rotation"
    assert model.relaxation_[0]["coordinate"] == coordinate
    flat = RelaxedClassifier(group, "partial", image_shape=(3, 5, 9), width=1, steps=2)
    assert flat.fit(X.reshape(12, -1), y).image_size_ == (3, 5, 9)


def test_bad_input_is_named():
    X, y = np.random.default_rng(0).random((8, 6, 6)), np.arange(8) % 2
    with pytest.raises(ValueError, match="group: expected rotations"):
        RelaxedClassifier("rotation", **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="mode"):
        RelaxedClassifier(mode="loose", **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="penalty"):
        RelaxedClassifier(penalty=-1.0, **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        RelaxedClassifier(**SMALL).fit(X, np.zeros(8))
