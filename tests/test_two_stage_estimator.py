"""The two-stage symmetry model as a scikit-learn transformer."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from symmetries.data import load
from symmetries.estimators import InvariantClassifier, SymmetryEstimator
from symmetries.learners.symmetry_model import SymmetryConfig
from symmetries.training import Recipe

TINY = SymmetryConfig().replace(
    widths=(16,),
    samples=1,
    features=(8,),
    layers=2,
    conditioner=8,
    base=(8,),
    inference=Recipe(steps=3, batch_size=16, warmup=0.0),
    generative=Recipe(steps=3, batch_size=16, warmup=0.0),
)
# Checks that cannot hold for images, with the reason: none do not hold.
EXPECTED_FAILURES: dict[str, str] = {}
# Checks that scikit-learn itself leaves out where pandas or an array-API switch is missing.
LEFT_OUT = {"check_array_api_input"}


def test_scikit_learn_s_checks():
    options = {"expected_failed_checks": EXPECTED_FAILURES, "on_skip": None, "on_fail": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        results = check_estimator(SymmetryEstimator(method="two-stage", config=TINY), **options)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= LEFT_OUT
    assert len(results) > 40


@pytest.fixture(scope="module")
def fitted():
    X = load("digits-rotated").images.numpy()[:200]
    return SymmetryEstimator("rotation", method="two-stage", config=TINY).fit(X), X


def test_shapes_go_in_and_out(fitted):
    model, X = fitted
    assert model.transform(X[:5]).shape == (5, 1, 8, 8)
    flat = model.transform(X[:5].reshape(5, 64))
    np.testing.assert_allclose(flat.ravel(), model.transform(X[:5]).ravel())
    assert model.transform(X[:5, 0]).shape == (5, 8, 8)
    assert model.sample(X[:5], 3).shape == (5, 3, 1, 8, 8)
    assert model.sample(X[:5, 0].reshape(5, 64)).shape == (5, 1, 64)
    names = [t.name for t in model.symmetries_.transformations]
    assert names == ["rotation"]


def test_prototypes_are_those_of_the_model_in_the_units_of_x(fitted):
    model, X = fitted
    large = clone(model).fit(16 * X)
    np.testing.assert_allclose(large.transform(16 * X[:4]), 16 * model.transform(X[:4]), atol=1e-5)
    assert large.scale_ == pytest.approx(16 * model.scale_)


def test_the_seed_fixes_everything(fitted):
    model, X = fitted
    again = clone(model).fit(X)
    np.testing.assert_array_equal(model.transform(X[:9]), again.transform(X[:9]))
    np.testing.assert_array_equal(model.sample(X[:9], 2), again.sample(X[:9], 2))
    other = clone(model).set_params(random_state=1).fit(X)
    assert not np.array_equal(model.sample(X[:9], 2), other.sample(X[:9], 2))


def test_refined_prototypes_differ(fitted):
    model, X = fitted
    once = model.transform(X[:4])
    model.set_params(refine=2)
    refined = model.transform(X[:4])
    model.set_params(refine=0)
    assert not np.array_equal(once, refined)


def test_saved_and_loaded(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model")
    again = SymmetryEstimator.load(tmp_path / "model")
    np.testing.assert_array_equal(model.transform(X[:9]), again.transform(X[:9]))
    np.testing.assert_array_equal(model.sample(X[:9], 2), again.sample(X[:9], 2))
    assert again.symmetries_ == model.symmetries_
    assert again.get_params() == model.get_params()
    with pytest.raises(ValueError, match="InvariantClassifier"):
        InvariantClassifier.load(tmp_path / "model")


def test_in_a_pipeline():
    train, test = load("digits-rotated"), load("digits-rotated", "test")
    pipeline = make_pipeline(
        SymmetryEstimator(method="two-stage", config=TINY), LogisticRegression(max_iter=200)
    )
    X = train.images.numpy().reshape(len(train), -1)[:400]
    pipeline.fit(X, train.labels.numpy()[:400])
    assert pipeline.score(test.images.numpy().reshape(len(test), -1), test.labels.numpy()) > 0.3


def test_small_images_are_framed_with_a_warning():
    X = np.random.default_rng(0).random((20, 5, 6))
    with pytest.warns(RuntimeWarning, match="5 x 6 pixels"):
        model = SymmetryEstimator(method="two-stage", config=TINY).fit(X)
    assert model.transform(X).shape == (20, 5, 6)


def test_constant_images_are_left_out_and_all_of_them_refused():
    X = np.random.default_rng(0).random((20, 8, 8))
    X[3] = 0.5
    assert SymmetryEstimator(method="two-stage", config=TINY).fit(X).transform(X).shape == X.shape
    with pytest.raises(ValueError, match="constant images only"):
        SymmetryEstimator(method="two-stage", config=TINY).fit(np.ones((5, 8, 8)))


def test_the_background_is_looked_for_and_kept(tmp_path):
    X = 1 - load("digits").images[:60].double().numpy()
    model = SymmetryEstimator("rotation", method="two-stage", config=TINY).fit(X)
    assert (model.fill_, model.model_.act.fill) == (1.0, 1.0)
    model.save(tmp_path / "model")
    again = SymmetryEstimator.load(tmp_path / "model")
    assert again.model_.act.fill == 1.0
    np.testing.assert_array_equal(again.transform(X[:3]), model.transform(X[:3]))
