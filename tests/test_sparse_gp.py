"""The Gaussian-process baseline: it learns, and says what it needs."""

import sys
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


def test_it_learns_and_its_bound_rises(sparse_gp):
    train, test = load("digits").subset(range(400)), load("digits", "test")
    bounds = []
    for steps in (1, 20):
        model = sparse_gp(10, inducing=40, steps=steps).fit(train.images, train.labels)
        bounds.append(model.elbo)
    assert bounds[1] > bounds[0]
    assert (model.predict(test.images, chunk=100) == test.labels).float().mean() > 0.85


def test_what_is_missing_is_named(monkeypatch, sparse_gp):
    images, labels = torch.rand(5, 1, 4, 4), torch.zeros(5, dtype=torch.long)
    with pytest.raises(ValueError, match="inducing: expected at most 5"):
        sparse_gp(2, inducing=9).fit(images, labels)
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(ImportError, match=r"symmetries\[gp\]"):
        sparse_gp(2, inducing=3).fit(images, labels)


def test_a_finished_run_is_read_back(tmp_path, sparse_gp):
    digits = load("digits").subset(range(60))
    first, again = (sparse_gp(10, inducing=10, steps=3) for _ in range(2))
    first.fit(digits.images, digits.labels, out=tmp_path)
    before = (tmp_path / "checkpoint.json").read_bytes()
    again.fit(digits.images, digits.labels, out=tmp_path, resume=True)
    assert (tmp_path / "checkpoint.json").read_bytes() == before
    assert torch.equal(first.predict(digits.images), again.predict(digits.images))
    assert again.elbo == pytest.approx(first.elbo)
