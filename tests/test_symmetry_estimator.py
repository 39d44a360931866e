"""The orbit posterior as a scikit-learn transformer."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from symmetries.data import load
from symmetries.estimators import InvariantClassifier, SymmetryEstimator
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Reading, Training, Views

SHORT = OrbitConfig(
    bins=24,
    folds=2,
    check=False,
    views=Views(readings=2),
    network=Network(kind="mlp", features=16),
    training=Training(steps=3, rounds=1, batch_size=16),
    reading=Reading(pictures=64, samples=32, resamples=8),
)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module", autouse=True)
def few_looks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 64)
        yield


@pytest.fixture(scope="module")
def fitted():
    X = load("digits-rotated").images.numpy()[:100]
    return SymmetryEstimator("rotation", config=SHORT).fit(X), X


def test_a_planted_turn_is_found_and_undone(hooks):
    X, angle = hooks(600, 50)
    config = SHORT.replace(
        bins=36,
        network={"features": 64},
        training={"steps": 200, "batch_size": 128},
        reading={"pictures": 256},
    )
    model = SymmetryEstimator("rotation", config=config).fit(X)
    found = model.symmetries_["rotation"]
    assert found.verdict == "partial"
    assert 0.75 < found.width90 / 90 < 1.35
    steep = np.abs(angle) > 20
    upright = hooks(600, 0)[0]

    def distance(pictures):
        return np.square(pictures[steep] - upright[steep].mean(0)).mean()

    assert distance(model.transform(X)) < 0.5 * distance(X)


def test_pictures_stay_as_they_are_where_there_are_several_poses(fitted):
    model, X = fitted
    (part,) = model.symmetries_.transformations
    moved = {}
    for poses in (1, 3):
        told = part.model_copy(update={"verdict": "partial", "poses": poses})
        again = copy.copy(model)
        again.symmetries_ = model.symmetries_.model_copy(update={"transformations": (told,)})
        moved[poses] = again.transform(X[:9])
    assert np.abs(moved[1] - X[:9]).max() > 0.1
    np.testing.assert_allclose(moved[3], X[:9], atol=1e-5)


def test_shapes_go_in_and_out(fitted):
    model, X = fitted
    assert model.transform(X[:5]).shape == (5, 1, 8, 8)
    flat = model.transform(X[:5].reshape(5, 64))
    np.testing.assert_allclose(flat.ravel(), model.transform(X[:5]).ravel())
    assert model.transform(X[:5, 0]).shape == (5, 8, 8)
    assert model.sample(X[:5], 3).shape == (5, 3, 1, 8, 8)
    assert model.sample(X[:5, 0].reshape(5, 64)).shape == (5, 1, 64)
    assert [t.name for t in model.symmetries_.transformations] == ["rotation"]


def test_the_seed_fixes_everything(fitted):
    model, X = fitted
    again = clone(model).fit(X)
    np.testing.assert_array_equal(model.transform(X[:9]), again.transform(X[:9]))
    np.testing.assert_array_equal(model.sample(X[:9], 2), again.sample(X[:9], 2))
    other = clone(model).set_params(random_state=1).fit(X)
    assert not np.array_equal(model.sample(X[:9], 2), other.sample(X[:9], 2))


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


def test_in_a_pipeline(fitted):
    train = load("digits-rotated")
    X = train.images.numpy().reshape(len(train), -1)[:120]
    pipeline = make_pipeline(SymmetryEstimator(config=SHORT), LogisticRegression(max_iter=200))
    assert pipeline.fit(X, train.labels.numpy()[:120]).score(X, train.labels.numpy()[:120]) > 0.5


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_warnings_are_issued_and_kept():
    X = load("digits").images.numpy()[:100]
    with pytest.warns(RuntimeWarning) as said:
        model = SymmetryEstimator("rotation,translation", config=SHORT).fit(X)
    texts = {str(one.message) for one in said}
    assert set(model.symmetries_.warnings) <= texts
    assert model.symmetries_.warnings


def test_what_is_no_picture_is_refused():
    rng = np.random.default_rng(0)
    for X in (rng.random((100, 30, 2)), rng.random((100, 60)), rng.random((100, 3))):
        with pytest.raises(ValueError, match="X: expected pictures of at least 8 x 8 pixels"):
            SymmetryEstimator(config=SHORT).fit(X)
    with pytest.raises(ValueError, match="at least 64 different pictures"):
        SymmetryEstimator(config=SHORT).fit(rng.random((20, 8, 8)))
    with pytest.raises(ValueError, match="constant images only"):
        SymmetryEstimator(config=SHORT).fit(np.ones((70, 8, 8)))
    with pytest.raises(NotFittedError):
        SymmetryEstimator(config=SHORT).transform(rng.random((5, 8, 8)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "three-stage"}, "method: expected one of"),
        ({"bounds": [1.0]}, "bounds: expected None with the method 'orbit'"),
        ({"refine": 2}, "refine: expected 0 with the method 'orbit'"),
        ({"config": "paper"}, "quick"),
        ({"group": "rotation,scale"}, "transformations that compose"),
        ({"group": "signal"}, "a group that acts on images"),
    ],
)
def test_other_options_are_refused_by_name(options, message):
    X = load("digits").images.numpy()[:100]
    with pytest.raises(ValueError, match=message):
        SymmetryEstimator(**{"config": SHORT, **options}).fit(X)


def test_the_background_is_looked_for_and_kept(tmp_path):
    X = 1 - load("digits").images[:100].double().numpy()
    model = SymmetryEstimator("rotation", config=SHORT).fit(X)
    assert (model.fill_, model.model_.action.fill) == (1.0, 1.0)
    model.save(tmp_path / "model")
    again = SymmetryEstimator.load(tmp_path / "model")
    assert again.model_.action.fill == 1.0


def test_full_symmetries_are_left_alone(fitted):
    model, X = fitted
    parts = model.symmetries_.transformations
    untold = parts[0].model_copy(update={"verdict": "cannot be told"})
    before = model.symmetries_
    model.symmetries_ = before.model_copy(update={"transformations": (untold,)})
    np.testing.assert_allclose(model.transform(X[:4]), X[:4], atol=1e-5)
    model.symmetries_ = before
