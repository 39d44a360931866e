"""What a change costs a model, against planted truths."""

import pytest
import torch

from symmetries.monitoring.losses import LossCurves
from symmetries.monitoring.moves import moves_of
from symmetries.monitoring.naming import Change

MOVES = moves_of(1)


@pytest.fixture(scope="module")
def bright():
    """A model that calls pictures bright whose mean is at least 0.4, and pictures of 0.5."""

    def model(x):
        level = x.mean((1, 2, 3)) - 0.4
        return torch.stack((-level, level), 1)

    x = torch.full((40, 1, 12, 12), 0.5) + 0.01 * torch.rand(40, 1, 12, 12)
    return LossCurves.measure(model, torch.ones(40, dtype=torch.int64), x, MOVES, 0.5)


def change(name, **parameters):
    return Change(name, {key: (*ends, "") for key, ends in parameters.items()}, 1.0)


def test_darker_pictures_cost_all_and_turned_ones_nothing(bright):
    dark = bright.expected(change("value", value=(0.7, 0.69, 0.71)))
    assert (dark.points, dark.low, dark.high) == pytest.approx((100, 100, 100))
    turned = bright.expected(change("rotation", rotation=(10.0, 5.0, 15.0)))
    assert (turned.points, turned.low, turned.high) == (0, 0, 0)


def test_an_interval_holds_the_losses_of_all_amounts_that_are_possible(bright):
    # The model fails below a factor of 0.8 or so: between 0.7 and 1 all or nothing may be lost.
    found = bright.expected(change("value", value=(0.95, 0.7, 1.0)))
    assert found.low == 0
    assert found.high == 100


def test_what_may_be_larger_than_any_change_that_was_measured_has_no_upper_end(bright):
    found = bright.expected(change("value", value=(0.67, None, 0.7)))
    assert found.high is None
    assert found.low == 100


def test_a_change_without_a_name_costs_what_nobody_knows(bright):
    assert bright.expected(change("none of these")) is None


def test_shifts_along_both_axes_are_looked_up_together():
    # Planted: the loss is 60 |x| |y| at shares x and y.
    share = torch.linspace(-1, 1, 7, dtype=torch.float64).abs()
    curve = torch.stack((60 * share[:, None] * share[None], torch.zeros(7, 7)))
    curves = LossCurves(MOVES, 20, {"shift": curve})
    half = (1.5, 1.5, 1.5)  # of 3 pixels
    both = curves.expected(change("shift", shift_x=half, shift_y=half))
    one = curves.expected(change("shift", shift_x=half, shift_y=(0.0, 0.0, 0.0)))
    assert both.points == pytest.approx(15)
    assert one.points == pytest.approx(0, abs=1e-9)
