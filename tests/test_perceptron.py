"""The hidden layers that all networks share: as if each layer were called by itself."""

import pytest
import torch
from torch import nn

from symmetries.distributions.flow import ConditionalFlow
from symmetries.nn.perceptron import MLP
from symmetries.ops.gelu_norm import gelu_norm


@pytest.fixture
def network():
    torch.manual_seed(0)
    return MLP(6, (8, 4)).eval()


def test_hooks_see_what_each_layer_gave(network):
    seen, x = [], torch.randn(3, 6)
    first = network[0]
    first.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():  # where memory is used again
        network(x)
        torch.testing.assert_close(seen, [first(x).clone()] * 2)


def test_hooks_see_all_rows_at_once(network, monkeypatch):
    monkeypatch.setattr("symmetries.nn.perceptron._MOST", 64)
    rows, x = [], torch.randn(9, 6)
    expected = network(x)
    network[0].register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    torch.testing.assert_close(network(x), expected)
    assert rows == [9]


def test_weights_that_are_made_anew_at_every_step(network):
    network[0] = nn.utils.parametrizations.weight_norm(network[0])
    for _ in range(2):
        network(torch.randn(3, 6)).sum().backward()
    assert network[0].parametrizations.weight.original0.grad is not None


def test_compiles_as_one_graph(network):
    x = torch.randn(3, 6)
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), network(x))


def test_a_norm_is_trained_alone():
    torch.manual_seed(0)
    flow = ConditionalFlow((1.0, 1.0), 3, hidden=8, layers=2).requires_grad_(requires_grad=False)
    norms = [layer.norm.weight.requires_grad_() for layer in flow.couplings]
    eta, context = torch.randn(5, 2), torch.randn(5, 3)
    for parameter in flow.parameters():
        nn.init.normal_(parameter, std=0.3)
    moved = []
    for step in (1e-3, -1e-3):
        with torch.no_grad():
            norms[0][0] += step
            moved.append(flow.double().log_prob(eta.double(), context.double()).sum())
            norms[0][0] -= step
    flow.log_prob(eta.double(), context.double()).sum().backward()
    torch.testing.assert_close(norms[0].grad[0], (moved[0] - moved[1]) / 2e-3, rtol=1e-3, atol=1e-6)


def gradients(out, inputs, second=True):
    """First gradients of a sum of cubes, and those of a function of them."""
    first = torch.autograd.grad(out.pow(3).sum(), inputs, create_graph=second)
    if not second:
        return first
    total = sum(part.sin().sum() for part in first)
    return *first, *torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("frozen", [(), ("weight",), ("weight", "bias")])
def test_units_have_the_gradients_of_gelu_and_norm_by_themselves(second, frozen):
    torch.manual_seed(0)
    norm = nn.LayerNorm(5).double()
    nn.init.normal_(norm.weight)
    z = torch.randn(4, 10, dtype=torch.float64)[:, ::2].requires_grad_()  # not contiguous
    for name in frozen:
        getattr(norm, name).requires_grad_(False)
    inputs = [z, *(p for p in norm.parameters() if p.requires_grad)]
    found = gelu_norm(z, norm)
    torch.testing.assert_close(found, norm(nn.functional.gelu(z)))
    expected = gradients(norm(nn.functional.gelu(z)), inputs, second)
    torch.testing.assert_close(gradients(found, inputs, second), expected)


def test_hooks_of_a_norm_are_called():
    norm, seen = nn.LayerNorm(5), []
    norm.register_forward_pre_hook(lambda module, inputs: seen.append("before"))
    norm.register_forward_hook(lambda module, inputs, output: seen.append("after"))
    norm.register_full_backward_hook(lambda module, to, given: seen.append("backward"))
    gelu_norm(torch.randn(3, 5, requires_grad=True), norm).sum().backward()
    assert seen == ["before", "after", "backward"]


def test_rows_in_parts_give_what_all_rows_give(monkeypatch):
    torch.manual_seed(0)
    net, x = MLP(6, (16, 4)).double(), torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
    whole = net(x)
    monkeypatch.setattr("symmetries.nn.perceptron._MOST", 2**10)
    parted = net(x)
    assert torch.allclose(parted, whole, atol=1e-14)
    a, b = (torch.autograd.grad(y.square().sum(), (x, *net.parameters())) for y in (parted, whole))
    for ours, theirs in zip(a, b, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)
