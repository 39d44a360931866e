"""The scalar functions against 40 digits, with their derivatives, across the seam of the series."""

import math

import mpmath
import pytest
import torch

from symmetries.groups.special import phi1, sinc, wrap_angle, x_cot_x

POINTS = [
    0.0,
    1e-300,
    1e-9,
    1e-3,
    0.1,
    0.2499999,
    0.25,
    0.2500001,
    0.5,
    1.0,
    1.5,
    -0.249,
    -0.26,
    -1.2,
]


def x_over_tan(x):
    return x / mpmath.tan(x) if x else mpmath.mpf(1)


def expm1_over_x(x):
    return mpmath.expm1(x) / x if x else mpmath.mpf(1)


PAIRS = [(sinc, mpmath.sinc), (x_cot_x, x_over_tan), (phi1, expm1_over_x)]


@pytest.mark.parametrize(("ours", "exact"), PAIRS, ids=["sinc", "x_cot_x", "phi1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_two_derivatives(ours, exact, dtype):
    x = torch.tensor(POINTS, dtype=dtype, requires_grad=True)
    y = ours(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    eps = torch.finfo(dtype).eps
    with mpmath.workdps(60):
        for i, point in enumerate(x.tolist()):
            # Differences lose half of the 60 digits at most; zero itself is approached.
            at = mpmath.mpf(point) + mpmath.mpf(10) ** -25
            for got, order, factor in ((y, 0, 4), (first, 1, 50), (second, 2, 1000)):
                truth = mpmath.diff(exact, at, order) if order else exact(mpmath.mpf(point))
                assert abs(float(truth) - got[i].item()) <= factor * eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wrapped_angles_lie_in_the_half_open_interval(dtype):
    edges = torch.tensor([math.pi, -math.pi, 3 * math.pi, -3 * math.pi, 0.0], dtype=dtype)
    near = torch.cat([torch.nextafter(edges, torch.full_like(edges, s)) for s in (-9.0, 9.0)])
    angles = torch.cat((edges, near, torch.linspace(-20, 20, 999, dtype=dtype)))
    wrapped = wrap_angle(angles)
    assert (wrapped >= -torch.tensor(math.pi, dtype=dtype)).all()
    assert (wrapped < torch.tensor(math.pi, dtype=dtype)).all()
    turns = (wrapped - angles) / (2 * math.pi)
    torch.testing.assert_close(turns, turns.round(), atol=4 * torch.finfo(dtype).eps, rtol=0)


def test_small_angles_stay_exactly_as_they_are():
    angles = torch.linspace(-3.1, 3.1, 101)
    assert wrap_angle(angles).equal(angles)


def test_wrapping_passes_gradients():
    angles = torch.tensor([-9.0, -math.pi, 0.0, math.pi, 9.0], requires_grad=True)
    wrap_angle(angles).sum().backward()
    assert angles.grad.equal(torch.ones(5))
