"""The flow's kernels are compared with torch's operations before they are used."""

import warnings

import pytest
import torch

from symmetries.distributions import flow_check
from symmetries.distributions.flow import ConditionalFlow

CPU = torch.device("cpu")


def by_torch(factor):
    """What stands for the kernels: torch's operations, times a factor."""

    def density(self, shape, mask, eta, projected, base):
        kept = None if mask is None else mask / (1 - shape.dropout)
        return factor * self._density(kept, eta, projected, base)

    return density


@pytest.fixture
def shape(monkeypatch):
    monkeypatch.setattr(flow_check, "_agreed", {})
    flow = ConditionalFlow((1.0, 2.0, 3.0), 4, layers=3, hidden=16, dropout=0.2)
    return flow.train()._shape(2)


def test_right_kernels_are_used_and_tried_once(shape, monkeypatch):
    monkeypatch.setattr(ConditionalFlow, "_by_kernels", by_torch(1.0))
    before = torch.get_rng_state()
    assert flow_check.kernel_agrees(shape, CPU)
    assert torch.equal(before, torch.get_rng_state())
    monkeypatch.setattr(ConditionalFlow, "_by_kernels", by_torch(2.0))
    assert flow_check.kernel_agrees(shape, CPU)


@pytest.mark.parametrize("factor", [1.1, float("nan")])
def test_wrong_kernels_are_not_used(shape, monkeypatch, factor):
    monkeypatch.setattr(ConditionalFlow, "_by_kernels", by_torch(factor))
    with pytest.warns(RuntimeWarning, match="torch's operations are used"):
        assert not flow_check.kernel_agrees(shape, CPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not flow_check.kernel_agrees(shape, CPU)
