"""scikit-learn's own checks, and what the estimators add: images, invariances, intervals."""

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from symmetries.data import load
from symmetries.estimators import InvariantClassifier, InvariantRegressor, image_size, networks
from symmetries.groups.affine import Affine2

SMALL = {"features": 24, "steps": 12, "samples": 2, "search": 2}

# Checks that cannot hold for images, with the reason: none do not hold.
EXPECTED_FAILURES: dict[str, str] = {}
# Checks that scikit-learn itself leaves out where pandas or an array-API switch is missing.
LEFT_OUT = {
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_regressor_data_not_an_array",
}


@pytest.mark.parametrize("kind", [InvariantClassifier, InvariantRegressor])
def test_scikit_learn_s_checks(kind):
    estimator = kind(**SMALL | {"steps": 6})
    options = {"expected_failed_checks": EXPECTED_FAILURES, "on_skip": None, "on_fail": None}
    results = check_estimator(estimator, **options)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= LEFT_OUT
    assert len(results) > 40


@pytest.fixture(scope="module")
def rotated():
    train, test = load("digits-rotated"), load("digits-rotated", "test")
    return [(part.images.numpy(), part.labels.numpy()) for part in (train, test)]


@pytest.fixture(scope="module")
def fitted(rotated):
    X, y = rotated[0]
    options = {"features": 128, "samples": 16, "half_width": 0.2, "batch_size": 400, "lr": 0.2}
    return InvariantClassifier("rotation", **options).fit(X, y)


def test_the_interval_is_that_of_all_classes_where_rows_are_sorted(fitted, monkeypatch):
    seen = []

    def interval(model, images, targets, parameter, **options):
        seen.append(targets)
        return 0.0, 1.0

    monkeypatch.setattr(networks, "width_interval", interval)
    images, targets = torch.rand(5000, 1, 8, 8), torch.arange(5000) // 500
    networks.profile(fitted.model_, images, targets, 4)
    assert seen[0].bincount().tolist() == [200] * 10


def test_a_planted_rotation_is_reported_in_degrees_with_an_interval(fitted, rotated):
    found = fitted.invariance_[0]
    assert (found.name, found.unit) == ("rotation", "degrees")
    assert found.half_width > 150
    assert found.low <= found.half_width <= found.high <= 180.001
    assert found.high - found.low < 60
    assert -1.0 < fitted.elbo_ < 0
    assert fitted.score(*rotated[1]) > 0.9


def test_probabilities_are_probabilities_of_the_same_images_in_any_form(fitted, rotated):
    X = rotated[1][0][:20]
    p = fitted.predict_proba(X)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(fitted.predict_proba(X[:, 0]), p)
    np.testing.assert_allclose(fitted.predict_proba(X.reshape(20, 64)), p)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[p.argmax(1)])


def test_labels_may_be_words_and_the_seed_fixes_everything(rotated):
    X, y = (part[:200] for part in rotated[0])
    words = np.array([f"digit {n}" for n in y])
    one = InvariantClassifier(**SMALL).fit(X, words)
    assert set(one.predict(X)) <= set(words)
    again = clone(one).fit(X, words)
    np.testing.assert_array_equal(one.predict_proba(X), again.predict_proba(X))
    other = clone(one).set_params(random_state=1).fit(X, words)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_it_works_in_pipelines_and_cross_validation(rotated):
    X, y = (part[:200] for part in rotated[0])
    model = make_pipeline(FunctionTransformer(), InvariantClassifier(**SMALL))
    assert cross_val_score(model, X.reshape(200, 64), y, cv=2).mean() > 0.3


def test_several_parameters_and_colour_channels():
    generator = np.random.default_rng(0)
    X, y = generator.random((60, 3, 5, 6)), np.arange(60) % 2
    model = InvariantClassifier(Affine2("rotation", "translation", "zoom"), **SMALL).fit(X, y)
    assert [found.name for found in model.invariance_] == ["shift_x", "shift_y", "rotation", "zoom"]
    units = [found.unit for found in model.invariance_]
    assert units == ["pixels", "pixels", "degrees", "factor"]
    flat = InvariantClassifier("rotation", image_shape=(3, 5, 6), **SMALL).fit(X.reshape(60, -1), y)
    assert flat.image_size_ == (3, 5, 6)


def test_regression_keeps_the_scale_of_its_targets():
    X = np.random.default_rng(0).random((150, 6, 6))
    y = 1000 + 50 * X.mean((1, 2))
    model = InvariantRegressor(features=64, steps=60, samples=8).fit(X, y)
    assert model.score(X, y) > 0.8
    assert abs(model.predict(X).mean() - y.mean()) < 1


@pytest.mark.parametrize(
    ("shape", "image_shape", "size"),
    [((9, 16), None, (1, 4, 4)), ((9, 15), None, (1, 1, 15)), ((9, 15), (3, 5), (1, 3, 5))],
)
def test_flattened_images_are_read_as_documented(shape, image_shape, size):
    assert image_size(shape, image_shape) == size


def test_bad_input_is_named():
    X = np.random.default_rng(0).random((10, 4, 4))
    with pytest.raises(ValueError, match="y: expected at least two classes"):
        InvariantClassifier(**SMALL).fit(X, np.zeros(10))
    with pytest.raises(ValueError, match="group: expected a group of the plane"):
        InvariantClassifier("hue", **SMALL).fit(X, np.arange(10) % 2)
    with pytest.raises(ValueError, match=r"X: expected images of shape \(1, 5, 5\)"):
        InvariantClassifier(image_shape=(5, 5), **SMALL).fit(X.reshape(10, 16), np.arange(10) % 2)
    with pytest.raises(ValueError, match=r"channels last; put them first: X.trans"):
        InvariantClassifier(**SMALL).fit(np.zeros((10, 8, 8, 3)), np.arange(10) % 2)
    model = InvariantClassifier(**SMALL).fit(X, np.arange(10) % 2)
    with pytest.raises(ValueError, match="as in fit"):
        model.predict(np.zeros((2, 8, 2)))
    assert math.isfinite(model.elbo_)


@pytest.mark.parametrize("side", [8, 32])
def test_colours_that_are_flattened_need_their_shape(side):
    X, y = np.random.default_rng(0).random((20, 3 * side * side)), np.arange(20) % 2
    with pytest.raises(
        ValueError, match=rf"X: expected .*; give image_shape=\(3, {side}, {side}\)"
    ):
        InvariantClassifier("rotation", **SMALL).fit(X, y)
    assert image_size(X.shape, (3, side, side)) == (3, side, side)


@pytest.mark.parametrize("features", [3, 12, 48, 75])
def test_short_rows_are_rows(features):
    assert image_size((10, features), None) == (1, 1, features)
