"""The flow's kernels are compared with torch's operations before they are used."""

import warnings

import pytest
import torch

from symmetries.distributions.flow import ConditionalFlow
from symmetries.ops import spline_flow
from symmetries.ops.spline_flow import shape_of

CPU = torch.device("cpu")
TF32_BITS = 13  # of a float32's mantissa that TF32 drops
FLOW = ConditionalFlow((1.0, 2.0, 3.0), 4, layers=3, hidden=16, dropout=0.2).train()


def by_torch(factor):
    """What stands for the kernels: torch's operations, times a factor."""

    def density(flow, shape, mask, eta, projected, base):
        kept = None if mask is None else mask / (1 - shape.dropout)
        return factor * flow.density(
            kept, eta, flow.parts_of(projected.to(eta.dtype), shape.samples), base
        )

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


class CutProduct(torch.autograd.Function):
    """b + w x with the last digits of both cut off, as a GPU does for TF32, in both passes."""

    @staticmethod
    def cut(x):
        return (x.contiguous().view(torch.int32) & -(1 << TF32_BITS)).view(torch.float32)

    @staticmethod
    def forward(ctx, bias, weight, x):
        weight, x = CutProduct.cut(weight), CutProduct.cut(x)
        ctx.save_for_backward(weight, x)
        return bias + weight @ x

    @staticmethod
    def backward(ctx, grad):
        weight, x = ctx.saved_tensors
        cut = CutProduct.cut(grad)
        return grad.sum(1, keepdim=True), cut @ x.T, weight.T @ cut


@pytest.mark.parametrize(
    ("dim", "hidden", "layers", "samples", "rounded"),
    [(3, 256, 6, 1, True), (6, 128, 3, 1, False), (5, 256, 6, 2, True)],
)
def test_points_that_rounding_takes_across_a_knot_are_no_error(
    monkeypatch, dim, hidden, layers, samples, rounded
):
    """The first was refused before with an error of 0.48: gradients of single points jumped."""
    product = torch.addmm

    def addmm(bias, weight, x):
        parameters = bias.shape[-1] == 1 and bias.dtype == torch.float32
        return (CutProduct.apply if parameters else product)(bias, weight, x)

    monkeypatch.setattr(torch, "addmm", addmm)
    monkeypatch.setattr(spline_flow, "fused_density", by_torch(1.0))
    sizes = {"layers": layers, "hidden": hidden, "base": (), "dropout": 0.1}
    shape = shape_of(ConditionalFlow((1.0,) * dim, 8, **sizes).train(), samples)
    error = spline_flow._largest_error(ConditionalFlow, shape, CPU, rounded=rounded)
    assert error < 0.02
