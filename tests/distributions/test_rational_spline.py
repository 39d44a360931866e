"""Splines against zuko's, against autograd, and against their own inverse."""

import math

import pytest
import torch
import torch.nn.functional as F
from zuko.transforms import MonotonicRQSTransform

from symmetries.distributions.rational_spline import (
    MIN_SHARE,
    MIN_SLOPE,
    circular_spline,
    rational_quadratic,
    spline_rows,
    wrap,
)

HALF = 3.0


def parameters(rows, n, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, n, generator=generator, dtype=torch.float64)


def slope_of(function, x):
    x = x.detach().clone().requires_grad_(True)
    return torch.autograd.grad(function(x).sum(), x)[0]


def test_same_as_zuko_with_the_same_knots():
    bins, n = 6, 400
    free = parameters(spline_rows(bins, circular=False), n)
    x = torch.linspace(-4, 4, n, dtype=torch.float64)
    widths = MIN_SHARE + (1 - MIN_SHARE * bins) * torch.softmax(free[:bins], 0)
    heights = MIN_SHARE + (1 - MIN_SHARE * bins) * torch.softmax(free[bins : 2 * bins], 0)
    unit = math.log(math.expm1(1 - MIN_SLOPE))
    slopes = F.pad((MIN_SLOPE + F.softplus(free[2 * bins :] + unit)).T, (1, 1), value=1.0)

    def knots(lengths):
        return HALF * (2 * F.pad(lengths.cumsum(0).T, (1, 0)) - 1)

    oracle = MonotonicRQSTransform(widths.T, heights.T, slopes[:, 1:-1], bound=HALF)
    oracle.horizontal, oracle.vertical, oracle.derivatives = knots(widths), knots(heights), slopes
    expected, log_slope = oracle.call_and_ladj(x)
    y, ours = rational_quadratic(x, free, HALF)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(ours, log_slope)


@pytest.mark.parametrize("spline", [rational_quadratic, circular_spline])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("bins", [1, 2, 6])
def test_log_slope_is_that_of_autograd(spline, inverse, bins):
    n = 300
    free = parameters(spline_rows(bins, spline is circular_spline), n)
    x = torch.linspace(-2.99, 2.98, n, dtype=torch.float64)
    _, log_slope = spline(x, free, HALF, inverse=inverse)
    slope = slope_of(lambda t: spline(t, free, HALF, inverse=inverse)[0], x)
    torch.testing.assert_close(log_slope, slope.log(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("spline", [rational_quadratic, circular_spline])
@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_inverse_undoes(spline, scale):
    n = 500
    free = parameters(spline_rows(6, spline is circular_spline), n, scale=scale)
    x = torch.linspace(-2.999, 2.999, n, dtype=torch.float64)
    y, forward = spline(x, free, HALF)
    back, backward = spline(y, free, HALF, inverse=True)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-7)
    torch.testing.assert_close(forward, -backward, rtol=0, atol=1e-5)


def test_identity_outside_and_at_zero_parameters():
    x = torch.tensor([-100.0, -3.0, 0.7, 3.0, 1e6])
    free = parameters(17, 5).float()
    y, log_slope = rational_quadratic(x, free, HALF)
    assert y[[0, 1, 3, 4]].tolist() == pytest.approx(x[[0, 1, 3, 4]].tolist())
    assert log_slope[[0, 4]].tolist() == [0.0, 0.0]
    y, log_slope = rational_quadratic(x, torch.zeros(17, 5), HALF)
    torch.testing.assert_close(y, x)
    torch.testing.assert_close(log_slope, torch.zeros(5), rtol=0, atol=1e-5)


def test_circle_is_smooth_across_the_seam():
    free = parameters(19, 1, scale=0.5).expand(19, 2)
    x = torch.tensor([-HALF + 1e-9, HALF - 1e-9], dtype=torch.float64)
    y, log_slope = circular_spline(x, free, HALF)
    assert abs(float(wrap(y[0] - y[1], HALF))) < 1e-4
    assert float(log_slope[0]) == pytest.approx(float(log_slope[1]), abs=1e-4)


def test_extreme_parameters_stay_finite_with_their_gradients():
    x = torch.linspace(-5, 5, 64)
    free = (50 * parameters(17, 64)).float().requires_grad_(True)
    for inverse in (False, True):
        y, log_slope = rational_quadratic(x, free, HALF, inverse=inverse)
        (gradient,) = torch.autograd.grad((y + log_slope).sum(), free)
        assert torch.isfinite(y).all()
        assert torch.isfinite(log_slope).all()
        assert torch.isfinite(gradient).all()


def test_wrong_number_of_parameters():
    with pytest.raises(ValueError, match="3 bins -1 parameters"):
        rational_quadratic(torch.zeros(2), torch.zeros(16, 2), HALF)
    with pytest.raises(ValueError, match="3 bins \\+1 parameters"):
        circular_spline(torch.zeros(2), torch.zeros(18, 2), HALF)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("spline", "rows"), [(rational_quadratic, 17), (circular_spline, 19)])
def test_bins_are_the_same_with_and_without_a_gradient(spline, rows, inverse):
    x = torch.tensor([-4.0, -3.0, -1.0, 0.0, 2.5, 3.0, 5.0, float("nan")], dtype=torch.float64)
    parameters = torch.randn(rows, len(x), dtype=torch.float64)
    followed = spline(x, parameters.clone().requires_grad_(), 3.0, inverse=inverse)
    plain = spline(x, parameters, 3.0, inverse=inverse)
    for a, b in zip(followed, plain, strict=True):
        torch.testing.assert_close(a.detach(), b, equal_nan=True)
