"""Work on branches of a step: what is prepared ahead is used, and used once."""

import pytest
import torch

from symmetries.nn.perceptron import MLP
from symmetries.ops import side_streams as module
from symmetries.ops.side_streams import (
    Branches,
    RoundedWeights,
    branches,
    current_branches,
    later_if_alone,
)

CPU = torch.device("cpu")


@pytest.fixture
def made():
    """Branches without streams: everything runs where it is called."""
    found = Branches(CPU)
    token = module._current.set(found)
    yield found
    module._current.reset(token)


def test_there_are_none_away_from_cuda():
    with branches(CPU) as found:
        assert found is None
        assert current_branches() is None


def test_what_dropout_leaves_is_drawn_ahead_and_dropped_once(made):
    torch.manual_seed(0)
    net = MLP(6, (32, 16), dropout=0.5).train()
    drops = [layer for layer in net if isinstance(layer, torch.nn.Dropout)]
    made.drop_ahead(dict(zip(drops, ((5, 32, 0.5), (5, 16, 0.5)), strict=True)))
    x = torch.randn(5, 6)
    found = net(x)
    expected = x
    for i, drop in enumerate(drops):
        linear, gelu, norm = [*net][4 * i : 4 * i + 3]
        expected = norm(gelu(linear(expected))) * (made.made_for(drop) != 0) * 2
    torch.testing.assert_close(found, expected)
    assert 0.2 < (found == 0).float().mean() < 0.8
    torch.testing.assert_close(net(x), found)  # no other draw


def test_other_dropout_goes_on_as_usual(made):
    net = MLP(6, (64,), dropout=0.5).train()
    assert 0.2 < (net(torch.randn(9, 6)) == 0).float().mean() < 0.8
    assert (net.eval()(torch.randn(9, 6)) == 0).sum() == 0


def test_rounded_weights(made):
    weight = torch.randn(4, 3)
    assert made.rounded(weight) is None
    made.round_ahead([weight])
    assert torch.equal(made.rounded(weight), weight.to(torch.bfloat16))


def test_frozen_weights_are_rounded_once_and_again_if_they_change():
    net, other = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    frozen = RoundedWeights(net)
    found = Branches(CPU, frozen)
    first = found.rounded(net.weight)
    assert torch.equal(first, net.weight.to(torch.bfloat16))
    assert found.rounded(net.weight) is first
    assert found.rounded(other.weight) is None
    with torch.no_grad():
        net.weight += 1
    assert torch.equal(found.rounded(net.weight), net.weight.to(torch.bfloat16))


def test_gradients_are_computed_aside_only_where_nobody_looks_at_them_before(monkeypatch, made):
    aside = []
    monkeypatch.setattr(Branches, "later", lambda self, work, *reads: aside.append(1) or work())

    def count(weights, branches=made):
        aside.clear()
        assert later_if_alone(branches, weights, lambda: 5) == 5
        return len(aside)

    def weight():
        return torch.zeros(3, requires_grad=True)

    added, hooked, shown = weight(), weight(), weight()
    added.grad = torch.ones(3)
    hooked.register_hook(lambda grad: grad)
    shown.register_post_accumulate_grad_hook(lambda parameter: None)
    assert count([weight(), None, torch.zeros(3)]) == 1
    assert count([weight()], None) == 0
    for watched in (added, hooked, shown, 2 * weight()):
        assert count([weight(), watched]) == 0
    with torch.autograd.detect_anomaly(check_nan=False):
        assert count([weight()]) == 0
