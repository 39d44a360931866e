"""The flow's kernels are compared with torch's operations before they are used."""

import warnings

import pytest
import torch

from symmetries.distributions.flow import ConditionalFlow
from symmetries.ops import spline_flow
from symmetries.ops.spline_flow import shape_of

CPU = torch.device("cpu")
FLOW = ConditionalFlow((1.0, 2.0, 3.0), 4, layers=3, hidden=16, dropout=0.2).train()


def by_torch(factor):
    """What stands for the kernels: torch's operations, times a factor."""

    def density(flow, shape, mask, eta, projected, base):
        kept = None if mask is None else mask / (1 - shape.dropout)
        return factor * flow.density(kept, eta, flow.parts_of(projected, shape.samples), base)

    return density


@pytest.fixture
def shape(monkeypatch):
    monkeypatch.setattr(spline_flow, "_verified", {})
    return shape_of(FLOW, 2)


def test_right_kernels_are_used_and_tried_once(shape, monkeypatch):
    monkeypatch.setattr(spline_flow, "fused_density", by_torch(1.0))
    before = torch.get_rng_state()
    assert spline_flow.is_verified(FLOW, shape, CPU)
    assert torch.equal(before, torch.get_rng_state())
    monkeypatch.setattr(spline_flow, "fused_density", by_torch(2.0))
    assert spline_flow.is_verified(FLOW, shape, CPU)


@pytest.mark.parametrize("factor", [1.1, float("nan")])
def test_wrong_kernels_are_not_used(shape, monkeypatch, factor):
    monkeypatch.setattr(spline_flow, "fused_density", by_torch(factor))
    with pytest.warns(RuntimeWarning, match="the torch form runs"):
        assert not spline_flow.is_verified(FLOW, shape, CPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not spline_flow.is_verified(FLOW, shape, CPU)
