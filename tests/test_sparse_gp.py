"""The Gaussian-process baseline: its bound, that it learns, and what it refuses."""

from pathlib import Path

import pytest
import torch

from symmetries.data import load


@pytest.fixture
def sparse_gp(monkeypatch):
    paper = Path(__file__).parents[1] / "papers" / "invariant-weights"
    monkeypatch.syspath_prepend(str(paper))
    from sparse_gp import SparseGP

    return SparseGP


def test_the_bound_is_that_of_dense_matrices(sparse_gp):
    train = load("digits").subset(range(50))
    model = sparse_gp(10, inducing=12, steps=3).fit(train.images, train.labels)
    x = train.images.flatten(1).double()
    y = torch.nn.functional.one_hot(train.labels, 10).double() - model.shift
    with torch.no_grad():
        _, scale, s = model.free.exp()
        jitter = 1e-6 * scale**2 * torch.eye(12, dtype=torch.double)
        across, inside = model.kernel(x, model.points), model.kernel(model.points, model.points)
        q = across @ torch.linalg.solve(inside + jitter, across.mT)
        normal = torch.distributions.MultivariateNormal(
            torch.zeros(50, dtype=torch.double), q + s**2 * torch.eye(50, dtype=torch.double)
        )
        trace = (model.kernel(x, x) - q).trace() / (2 * s**2)
        expected = normal.log_prob(y.mT).sum() - 10 * trace
        assert float(model.bound(x, y)) == pytest.approx(float(expected) / 500, rel=1e-9)
        mean = across @ torch.linalg.solve(
            s**2 * (inside + jitter) + across.mT @ across, across.mT @ y
        )
    ours = model.kernel(x, model.points) @ model.weights
    assert torch.allclose(ours, mean, atol=1e-8)


def test_it_learns_and_its_bound_rises(sparse_gp):
    train, test = load("digits").subset(range(400)), load("digits", "test")
    model = sparse_gp(10, inducing=40, steps=40).fit(train.images, train.labels)
    assert model.elbo > model.history[0]
    assert (model.predict(test.images, chunk=100) == test.labels).float().mean() > 0.85


def test_what_is_wrong_is_named(sparse_gp):
    images, labels = torch.rand(5, 1, 4, 4), torch.zeros(5, dtype=torch.long)
    with pytest.raises(ValueError, match="inducing: expected at most 5"):
        sparse_gp(2, inducing=9).fit(images, labels)
    with pytest.raises(ValueError, match="images that differ"):
        sparse_gp(2, inducing=3).fit(torch.zeros_like(images), labels)
