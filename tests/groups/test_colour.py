"""The colour group: parameters add and the hue goes round."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from symmetries.groups import Colour


def test_parameters():
    group = Colour()
    assert group.names == ("hue", "saturation", "value")
    assert group.units == ("rad", "log-factor", "log-factor")
    assert group.angles == (True, False, False)
    assert group.bounds[0] == math.pi


def test_a_part_of_the_group_is_in_canonical_order_and_leaves_the_rest_alone():
    group = Colour("value", "hue")
    assert group.names == ("hue", "value")
    element = group.exp(torch.tensor([[1.0, 2.0]]))
    assert element.tolist() == [[1.0, 0.0, 2.0]]
    assert group.log(element).tolist() == [[1.0, 2.0]]


@given(st.floats(-30, 30), st.floats(-30, 30))
def test_hue_goes_round(a, b):
    group = Colour("hue")
    eta = torch.tensor([[a], [b]], dtype=torch.float64)
    total = group.log(group.compose(*group.exp(eta)))
    assert -math.pi <= total.item() < math.pi
    turns = (total.item() - a - b) / (2 * math.pi)
    assert abs(turns - round(turns)) < 1e-13


def test_gradients_see_no_jump():
    group = Colour()
    eta = torch.tensor([math.pi, 0.1, 0.2], requires_grad=True)
    group.log(group.compose(group.exp(eta), group.exp(eta))).sum().backward()
    assert eta.grad.tolist() == [2.0, 2.0, 2.0]


def test_unknown_name():
    with pytest.raises(ValueError, match="names among hue, saturation, value, got 'brightness'"):
        Colour("brightness")
