"""Modules averaged over an orbit."""

import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.distributions.box import UniformBox
from symmetries.groups.affine import Affine2
from symmetries.groups.finite import Cyclic
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.testing import invariance_error


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh()), nn.Linear(16, 5)


def test_the_average_over_a_whole_finite_orbit_is_invariant():
    body, head = network()
    group = Cyclic(4)
    whole = nn.Sequential(body, head)
    model = OrbitAverage(whole, UniformBox(Affine2("rotation")), action=ImageAction(group))
    images = torch.rand(3, 1, 8, 8)

    def average(x):
        return model.average(x, group.elements())

    act = ImageAction(group)
    assert invariance_error(average, act, torch.tensor(1), images) < 1e-6
    assert invariance_error(lambda x: head(body(x)), act, torch.tensor(1), images) > 0.01


def test_outputs_of_the_module_are_averaged():
    body, head = network()
    box = UniformBox(Affine2("rotation"), math.pi)
    images = torch.rand(3, 1, 8, 8)
    T = box.group.exp(box.sample(6, generator=torch.Generator().manual_seed(0)))
    views = ImageAction(box.group).orbit(T, images)
    hidden = body(views.flatten(0, 1)).unflatten(0, (3, 6))
    pairs = (
        (body, hidden.mean(1)),
        (nn.Sequential(body, head), head(hidden).mean(1)),
        (nn.Sequential(body, head, nn.Softmax(1)), head(hidden).softmax(-1).mean(1)),
    )
    for module, expected in pairs:
        model = OrbitAverage(module, box, samples=6)
        torch.testing.assert_close(model(images, torch.Generator().manual_seed(0)), expected)


def test_gradients_reach_the_widths_and_a_grid_is_the_same_each_time():
    body, _ = network()
    box = UniformBox(Affine2("rotation"), 1.0)
    model = OrbitAverage(body, box, samples=5)
    images = torch.rand(3, 1, 8, 8)
    model(images).square().sum().backward()
    assert box.free.grad is not None
    assert box.free.grad.abs().item() > 0
    assert not torch.equal(model(images), model(images))
    even = OrbitAverage(body, box, samples=5, sampling="grid")
    assert torch.equal(even(images), even(images))


def test_bad_arguments_are_named():
    box = UniformBox(Affine2("rotation"))
    with pytest.raises(ValueError, match="sampling: expected one of"):
        OrbitAverage(nn.Flatten(), box, sampling="weights")
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 1"):
        OrbitAverage(nn.Flatten(), box, samples=0)
