"""Signals against numpy's interpolation and against functions of time."""

import math

import numpy as np
import pytest
import torch

from symmetries.actions.signals import SignalAction
from symmetries.groups import Signal
from symmetries.testing import action_error, assert_action

GROUP = Signal()


def times(length):
    return (2 * torch.arange(length, dtype=torch.float64) + 1) / length - 1


def bump(t):
    return torch.exp(-20 * (t - 0.1) ** 2) + 0.5 * torch.exp(-40 * (t + 0.3) ** 2)


def random_etas(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    etas = 2 * torch.rand(n, 5, generator=generator, dtype=torch.float64) - 1
    etas = etas * torch.tensor([0.2, 0.2, 0.5, 1.0, 1.0])
    etas[:, 4] = etas[:, 4].round()
    return etas


def test_linear_interpolation_is_that_of_numpy():
    signals = torch.randn(3, 2, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    elements = GROUP.exp(random_etas(3))
    moved = SignalAction(padding="border")(elements, signals)
    t = times(17).numpy()
    for n, (f, b, gamma, o) in enumerate(elements.tolist()):
        for c in range(2):
            source = np.interp((t - b) / f, t, signals[n, c].numpy())
            np.testing.assert_allclose(moved[n, c].numpy(), gamma * source + o, atol=1e-12)


@pytest.mark.parametrize(("interpolation", "atol"), [("bicubic", 4e-3), ("bspline", 2e-5)])
def test_a_function_of_time_is_moved(interpolation, atol):
    t = times(128)
    elements = GROUP.exp(random_etas(4))
    f, b, gamma, o = elements[:, None, :, None].unbind(2)
    expected = gamma * bump((t - b) / f) + o
    act = SignalAction(interpolation=interpolation)
    moved = act(elements, bump(t).expand(4, 1, -1))
    torch.testing.assert_close(moved, expected, atol=atol, rtol=0)


def test_the_law_holds_up_to_interpolation_and_better_on_finer_grids():
    errors, act = [], SignalAction(padding="border")
    for length in (64, 128):
        signals = bump(times(length)).expand(4, 1, -1)
        errors.append(action_error(act, random_etas(4), signals)["compatibility"])
    assert errors[1] < 0.01
    assert errors[0] / errors[1] > 3  # second order: linear interpolation


def test_values_alone_need_no_interpolation():
    group = Signal("amplitude", "offset", "sign")
    signals = torch.randn(4, 3, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_action(SignalAction(group), random_etas(4)[:, 2:], signals, tolerance=1e-13)


def test_positive_parameters():
    x = torch.tensor([[[0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0]]])

    def moved(**parameters):
        group = Signal(*parameters)
        act = SignalAction(group)
        return act(group.exp(torch.tensor([*parameters.values()])), x).flatten().tolist()

    assert moved(shift=0.25) == [0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0]  # later
    assert moved(sign=1.0)[3] == -2.0
    assert moved(offset=1.0)[:4] == [1.0, 1.0, 2.0, 3.0]
    assert moved(amplitude=math.log(2)) == pytest.approx([0, 0, 2, 4, 0, 0, 0, 0])
    longer = moved(time_scale=math.log(2))
    assert sum(v > 0 for v in longer) > 2


def test_outside_is_part_of_the_signal():
    act = SignalAction(Signal("shift", "amplitude"), fill=3.0)
    element = act.group.exp(torch.tensor([1.0, math.log(2)]))
    moved = act(element, torch.zeros(1, 1, 4))
    torch.testing.assert_close(moved, torch.tensor([[[6.0, 6.0, 0.0, 0.0]]]))


def test_one_element_for_all_or_one_each():
    signals = torch.randn(2, 2, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    elements = GROUP.exp(random_etas(2))
    act = SignalAction()
    torch.testing.assert_close(act(elements[1], signals)[1], act(elements, signals)[1])


def test_gradients():
    signals = torch.randn(2, 1, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eta = random_etas(2)[:, :4].requires_grad_()
    group = Signal("shift", "time_scale", "amplitude", "offset")
    act = SignalAction(group)
    signals.requires_grad_()
    assert torch.autograd.gradcheck(lambda e, x: act(group.exp(e), x), (eta, signals))


def test_unknown_options():
    with pytest.raises(ValueError, match="interpolation: expected one of"):
        SignalAction(interpolation="nearest")
    with pytest.raises(ValueError, match="padding: expected one of"):
        SignalAction(padding="wrap")
    with pytest.raises(ValueError, match="names among shift, time_scale"):
        Signal("rotation")


@pytest.mark.parametrize(
    "data", [torch.rand(2, 9), torch.rand(2, 1, 0), torch.ones(2, 1, 9).long()]
)
def test_bad_signals(data):
    with pytest.raises(ValueError, match=r"signals: expected floating-point \(N, C, L\)"):
        SignalAction()(GROUP.identity(), data)


@pytest.mark.parametrize("shape", [(3,), (1, 4), (3, 4), (2, 1, 4)])
def test_bad_elements(shape):
    with pytest.raises(ValueError, match=r"element: expected shape \(4,\) or \(2, 4\)"):
        SignalAction()(torch.ones(shape), torch.rand(2, 1, 9))
