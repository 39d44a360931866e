"""The flow's kernels are compared with torch's operations before they are used."""

import warnings

import pytest
import torch

from symmetries.distributions import flow_check
from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import shape_of

CPU = torch.device("cpu")


def by_torch(factor):
    """What stands for the kernels: torch's operations, times a factor."""

    def density(flow, shape, mask, eta, projected, base):
        kept = None if mask is None else mask / (1 - shape.dropout)
        return factor * flow.density(kept, eta, flow.parts_of(projected, shape.samples), base)

    return density


@pytest.fixture
def shape(monkeypatch):
    monkeypatch.setattr(flow_check, "_agreed", {})
    flow = ConditionalFlow((1.0, 2.0, 3.0), 4, layers=3, hidden=16, dropout=0.2)
    return shape_of(flow.train(), 2)


def test_right_kernels_are_used_and_tried_once(shape, monkeypatch):
    monkeypatch.setattr(flow_check, "density_of", by_torch(1.0))
    before = torch.get_rng_state()
    assert flow_check.kernel_shape(shape, CPU) == shape
    assert torch.equal(before, torch.get_rng_state())
    monkeypatch.setattr(flow_check, "density_of", by_torch(2.0))
    assert flow_check.kernel_shape(shape, CPU) == shape


@pytest.mark.parametrize("factor", [1.1, float("nan")])
def test_wrong_kernels_are_not_used(shape, monkeypatch, factor):
    monkeypatch.setattr(flow_check, "density_of", by_torch(factor))
    with pytest.warns(RuntimeWarning, match="torch's operations are used"):
        assert flow_check.kernel_shape(shape, CPU) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flow_check.kernel_shape(shape, CPU) is None
