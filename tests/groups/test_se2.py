"""Rigid motions against the matrix exponential, its derivatives and Affine2."""

import math

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from symmetries.groups import SE2, Affine2
from symmetries.ops.affine_exp import generators

GROUP = SE2()
ANGLES = [0.0, 1e-12, 1e-4, 0.3, 0.5, 0.500001, -0.499999, 2.0, -3.0, 3.1]


def exact(eta):
    return torch.linalg.matrix_exp(torch.einsum("...i,ijk->...jk", eta, generators()[:3]))


def batch(angles=ANGLES):
    return torch.tensor([[0.7, -0.4, angle] for angle in angles], dtype=torch.float64)


def test_same_parameters_and_elements_as_affine():
    affine = Affine2("rotation", "translation")
    assert affine.parameters == GROUP.parameters
    torch.testing.assert_close(GROUP.exp(batch()), affine.exp(batch()), atol=1e-14, rtol=0)


@given(st.floats(-20, 20), st.floats(-5, 5), st.floats(-5, 5))
def test_exp_is_the_matrix_exponential_at_any_angle(angle, x, y):
    eta = torch.tensor([x, y, angle], dtype=torch.float64)
    algebra = torch.einsum("i,ijk->jk", eta, generators()[:3])
    # Not torch's, which is off by 2e-11 at an angle of 1 / 32.
    expected = torch.from_numpy(scipy.linalg.expm(algebra.numpy()))
    torch.testing.assert_close(GROUP.exp(eta), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("angle", ANGLES)
def test_log_is_the_principal_logarithm(angle):
    eta = batch([angle])[0]
    logarithm = torch.from_numpy(scipy.linalg.logm(exact(eta).numpy()).real.copy())
    expected = torch.stack((logarithm[0, 2], logarithm[1, 2], logarithm[1, 0]))
    torch.testing.assert_close(GROUP.log(exact(eta)), expected, atol=1e-12, rtol=0)


def test_float32_keeps_its_digits():
    eta = batch()
    single = GROUP.exp(eta.float()).double()
    torch.testing.assert_close(single, exact(eta.float().double()), atol=3e-7, rtol=0)
    back = GROUP.log(GROUP.exp(eta.float())).double()
    torch.testing.assert_close(back, eta, atol=2e-6, rtol=0)


@pytest.mark.parametrize("angle", ANGLES)
def test_first_and_second_derivatives(angle):
    eta = batch([angle])[0]
    for order in (torch.func.jacrev, lambda f: torch.func.jacfwd(torch.func.jacrev(f))):
        ours, theirs = order(GROUP.exp)(eta), order(exact)(eta)
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
        round_trip = order(lambda eta: GROUP.log(GROUP.exp(eta)))(eta)
        linear = order(lambda eta: 1.0 * eta)(eta)
        torch.testing.assert_close(round_trip, linear, atol=1e-9, rtol=0)


def test_half_turn_is_minus_pi():
    half = GROUP.element(torch.tensor(math.pi), torch.tensor(0.2), torch.tensor(0.3))
    half[1, 0] = half[0, 1] = 0.0  # exactly: atan2 alone would say pi
    eta = GROUP.log(half)
    assert eta[2].item() == pytest.approx(-math.pi)
    torch.testing.assert_close(GROUP.exp(eta), half, atol=1e-6, rtol=0)


def test_element_turns_first_and_shifts_then():
    quarter = GROUP.element(torch.tensor(math.pi / 2), torch.tensor(2.0), torch.tensor(0.0))
    moved = quarter @ torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(moved, torch.tensor([2.0, 1.0, 1.0]))


def test_order_of_composition():
    shift, turn = GROUP.exp(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, math.pi / 2]]))
    origin = torch.tensor([0.0, 0.0, 1.0])
    shifted_then_turned = GROUP.compose(turn, shift) @ origin
    torch.testing.assert_close(shifted_then_turned, torch.tensor([0.0, 1.0, 1.0]))
