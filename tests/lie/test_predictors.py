"""Fitted estimators of scikit-learn have symmetries, too, and their slopes are right."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor

import symmetries
from symmetries.lie.functions import value_and_jacobian
from symmetries.lie.predictors import differenced


def points(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


class Waves:
    def predict(self, X):
        return np.stack([np.sin(X[:, 0] * X[:, 1]), X[:, 0] ** 3 - X[:, 1]], 1)


def test_slopes_are_those_of_the_function():
    x = points(50, 2) * torch.tensor([1.0, 0.1])
    value, jacobian = value_and_jacobian(differenced(Waves(), x), x)
    a, b = x.T
    c = (a * b).cos()
    rows = [torch.stack((b * c, a * c), 1), torch.stack((3 * a**2, -torch.ones(50)), 1)]
    torch.testing.assert_close(value, torch.stack(((a * b).sin(), a**3 - b), 1))
    torch.testing.assert_close(jacobian, torch.stack(rows, 1), rtol=1e-4, atol=1e-4)


def test_estimators_have_the_symmetries_that_they_learned():
    x = points(500, 3)
    y = x.square().sum(1).numpy()
    smooth = GaussianProcessRegressor(RBF(3.0), alpha=1e-4, optimizer=None).fit(x.numpy(), y)
    found = symmetries.generators(x, model=smooth, epsilon=0.15)
    assert (found.name, found.source) == ("so(3)", "model")
    power = make_pipeline(PolynomialFeatures(2), LinearRegression()).fit(x.numpy(), y)
    assert symmetries.generators(x, model=power).name == "so(3)"


def test_classifiers_answer_with_probabilities():
    x = points(600, 2)
    label = (x[:, 0] ** 2 - x[:, 1] ** 2 > 0.3).numpy()
    model = make_pipeline(PolynomialFeatures(2), LogisticRegression()).fit(x.numpy(), label)
    assert symmetries.generators(x, model=model, epsilon=0.15, fields="linear").name == "so(1,1)"


def test_trees_are_not_certified():
    x = points(600, 2)
    tree = DecisionTreeRegressor(max_leaf_nodes=40).fit(x.numpy(), x.square().sum(1).numpy())
    assert symmetries.generators(x, model=tree, epsilon=0.1).dimension[0] == 0
    stump = DecisionTreeRegressor(max_leaf_nodes=2).fit([[0.0, 0.0], [9.0, 9.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="a function that varies"):
        symmetries.generators(x, model=stump)


def test_estimators_are_for_vectors():
    with pytest.raises(ValueError, match="estimators are for vectors"):
        symmetries.generators(torch.rand(300, 1, 16, 16), model=Waves())
