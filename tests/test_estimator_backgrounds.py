"""Estimators look for the background of images, keep it, and move images over it."""

import numpy as np
import pytest
import torch

from symmetries.data import load
from symmetries.estimators import InvariantClassifier, RelaxedClassifier

SMALL = {"features": 48, "steps": 20, "samples": 8, "search": 3}


@pytest.fixture(scope="module")
def digits():
    found = load("digits")
    return found.images[:300].double().numpy(), found.labels[:300].numpy()


def test_a_background_may_be_a_number_of_numpy(digits):
    X, y = digits
    white = (X.max() - X).astype(np.float32)
    found = InvariantClassifier("rotation", fill=white.max(), **SMALL).fit(white[:60], y[:60])
    assert found.fill_ == float(white.max())
    with pytest.raises(ValueError, match="fill: expected a number"):
        InvariantClassifier("rotation", fill="white", **SMALL).fit(white[:60], y[:60])


def test_the_background_is_that_of_most_pictures_in_sorted_data():
    estimator = InvariantClassifier("rotation")
    estimator.scale_ = 1.0
    sorted_by_class = np.concatenate((np.ones((600, 64)), np.zeros((1400, 64))))
    assert estimator._found(sorted_by_class, (1, 8, 8)) == 0.0


def test_a_background_other_than_black_changes_nothing(digits):
    """Random features see differences of images: what is around them cancels, if it is known."""
    X, y = digits
    black = InvariantClassifier("rotation", **SMALL).fit(X, y)
    raised = InvariantClassifier("rotation", **SMALL).fit(X + 0.5, y)
    assert (black.fill_, raised.fill_) == (0.0, 0.5)
    assert raised.elbo_ == pytest.approx(black.elbo_, abs=1e-3)
    width = black.invariance_[0].half_width
    assert raised.invariance_[0].half_width == pytest.approx(width, rel=1e-2)
    np.testing.assert_allclose(raised.predict_proba(X + 0.5), black.predict_proba(X), atol=1e-2)
    given = InvariantClassifier("rotation", fill=0.0, **SMALL).fit(X + 0.5, y)
    assert given.fill_ == 0.0
    assert abs(given.elbo_ - black.elbo_) > 1e-2  # black corners


@pytest.mark.parametrize(
    "model",
    [
        InvariantClassifier("rotation", **SMALL),
        RelaxedClassifier("c4", steps=3, width=2),
        RelaxedClassifier("c4", steps=3, width=2, fill=200),
    ],
)
def test_it_is_kept_with_the_model(digits, tmp_path, model):
    X, y = (255 * (1 - digits[0])).round()[..., :6], digits[1]  # not square: padded
    model.fit(X, y)
    assert model.fill_ == (model.fill or 255.0)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    assert (again.fill, again.fill_) == (model.fill, model.fill_)
    p = model.predict_proba(X[:20])
    np.testing.assert_array_equal(again.predict_proba(X[:20]), p)
    logits = again.module()(torch.from_numpy(X[:20]).float())
    assert (logits.argmax(1).numpy() == p.argmax(1)).all()


def test_padding_is_of_the_background(digits):
    X, y = digits[0][..., :6], digits[1]
    black = RelaxedClassifier("c4", steps=3, width=2).fit(X, y)
    raised = RelaxedClassifier("c4", steps=3, width=2).fit(X + 1.0, y)
    raised.model_.load_state_dict(black.model_.state_dict())
    # The images that the network sees are the same but for a common factor.
    ratio = raised._on_black(X + 1.0, reset=False) / 0.5
    torch.testing.assert_close(ratio, black._on_black(X, reset=False))


def test_a_coloured_background_is_told(digits):
    X = np.repeat(digits[0], 3, 1)[:60]
    X[:, 2] = 1 - X[:, 2]
    with pytest.warns(RuntimeWarning, match="has a colour"):
        RelaxedClassifier("c4", steps=2, width=2).fit(X, digits[1][:60])


def test_files_from_before_it_was_looked_for_are_refused(digits, tmp_path):
    model = RelaxedClassifier("c4", steps=2, width=2).fit(*digits)
    model._fitted = tuple(name for name in model._fitted if name != "fill_")
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"no background .* train it again"):
        RelaxedClassifier.load(tmp_path / "model")


def test_a_fill_that_is_no_number(digits):
    with pytest.raises(ValueError, match="fill: expected a number"):
        InvariantClassifier("rotation", fill="white", **SMALL).fit(*digits)
