"""Products by bfloat16 on processors with AMX: how exact, where used, and turned off again."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from symmetries.distributions.flow import ConditionalFlow
from symmetries.nn.perceptron import MLP
from symmetries.ops import amx
from symmetries.training.matmul_precision import use_matmul_precision

ERROR = 4e-3


def exact_product(a, b, *, turned_a=False, turned_b=False):
    """What the processor does, by float64."""
    left, right = a.double(), b.double()
    return ((left.T if turned_a else left) @ (right.T if turned_b else right)).float()


@pytest.fixture(params=["here", "everywhere"])
def processor(request, monkeypatch):
    """This machine's AMX where it has it; elsewhere, and once in any case, products by float64."""
    if request.param == "everywhere" or not amx.has_amx():
        monkeypatch.setattr(amx, "product", exact_product)
        monkeypatch.setattr(amx, "has_amx", lambda: True)


def error(ours, exact):
    ours, exact = ours.detach().double(), exact.detach()
    return float((ours - exact).norm() / exact.norm())


@pytest.mark.parametrize("biased", [True, False])
def test_linear_layer_and_its_gradients(processor, biased):
    torch.manual_seed(0)
    x, weight = torch.randn(120, 70, requires_grad=True), torch.randn(50, 70, requires_grad=True)
    bias = torch.randn(50, requires_grad=True) if biased else None
    inputs = [t for t in (x, weight, bias) if t is not None]
    out = amx.linear(x, weight, bias)
    grad = torch.randn_like(out)
    exact = nn.functional.linear(*(t.double() for t in inputs))
    wanted = torch.autograd.grad(exact, inputs, grad.double())
    found = torch.autograd.grad(out, inputs, grad)
    assert error(out.detach(), exact.detach()) < ERROR
    for a, b in zip(found, wanted, strict=True):
        assert error(a, b) < ERROR


def test_second_gradients(processor):
    torch.manual_seed(0)
    x, weight = torch.randn(20, 9, requires_grad=True), torch.randn(7, 9, requires_grad=True)

    def second(linear):
        out = linear(x, weight).square().sum()
        first = torch.autograd.grad(out, x, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), weight)[0]

    assert error(second(amx.linear), second(nn.functional.linear)) < 2 * ERROR


def test_several_models_at_once(processor):
    torch.manual_seed(0)
    x, weights = torch.randn(40, 30), torch.randn(3, 20, 30, requires_grad=True)
    bias = torch.randn(3, 20)
    together = torch.vmap(amx.linear, in_dims=(None, 0, 0))(x, weights, bias)
    alone = torch.stack([amx.linear(x, w, b) for w, b in zip(weights, bias, strict=True)])
    assert torch.equal(together, alone)
    a, b = (torch.autograd.grad(out.square().sum(), weights)[0] for out in (together, alone))
    assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("products", "rounded"), [("auto", True), ("bf16", True), ("tf32", False), (None, False)]
)
def test_chosen_with_the_products_of_a_run_and_put_back(processor, products, rounded):
    sizes = torch.ones(4096, 64), torch.ones(64, 64)
    assert not amx.usable(*sizes)
    with use_matmul_precision(products):
        assert amx.usable(*sizes) is rounded
        with pytest.raises(KeyError), use_matmul_precision("bf16"):
            raise KeyError
        assert amx.usable(*sizes) is rounded
    assert not amx.usable(*sizes)


def test_a_thread_has_a_setting_of_its_own(processor):
    sizes = torch.ones(4096, 64), torch.ones(64, 64)
    with amx.rounded_products(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(amx.usable, *sizes).result()


def test_a_compiler_does_not_look_at_the_setting(processor):
    def choose(x, weight):
        return x + 1 if amx.usable(x, weight) else x + 2

    compiled = torch.compile(choose, backend="eager", fullgraph=True)
    with amx.rounded_products():
        assert compiled(torch.zeros(4096, 64), torch.ones(64, 64)).unique().item() == 2


def test_off_where_the_processor_lacks_it(monkeypatch):
    monkeypatch.setattr(amx, "has_amx", lambda: False)
    with use_matmul_precision("bf16"):
        assert not amx.usable(torch.ones(4096, 64), torch.ones(64, 64))


@pytest.fixture
def asked_again():
    amx._is_right.cache_clear()
    yield
    amx._is_right.cache_clear()


def test_kernels_can_be_turned_off_and_on(monkeypatch):
    monkeypatch.setattr(amx, "_is_right", lambda: True)
    monkeypatch.setenv("SYMMETRIES_KERNELS", "0")
    assert not amx.has_amx()
    monkeypatch.delenv("SYMMETRIES_KERNELS")
    assert amx.has_amx()


def test_autocast_has_its_own_rules(processor):
    sizes = torch.ones(4096, 64), torch.ones(64, 64)
    with use_matmul_precision("bf16"):
        with torch.autocast("cpu", torch.bfloat16):
            assert not amx.usable(*sizes)
        assert amx.usable(*sizes)


@pytest.mark.parametrize(
    ("device", "precision"), [("cpu", "high"), ("cuda", "medium"), ("auto", "medium")]
)
def test_a_run_on_the_cpu_of_a_machine_with_cuda_leaves_its_products(
    monkeypatch, device, precision
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with use_matmul_precision("bf16", device):
        assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize(
    ("end", "survives"),
    [("pass", True), ("sys.exit(1)", False), ("os.kill(os.getpid(), 4)", False)],
)
def test_another_process_tries_first(monkeypatch, end, survives):
    monkeypatch.setattr(amx, "_PROBE", f"import os, sys; {end}")
    assert amx._survives() is survives


@pytest.mark.parametrize("python", ["", "no-such-program", None])
def test_off_where_no_process_can_be_started(monkeypatch, python):
    monkeypatch.setattr(sys, "executable", python)
    assert not amx._survives()


def test_off_where_products_are_wrong(asked_again, monkeypatch):
    monkeypatch.setattr(amx, "product", lambda a, b, **_: torch.zeros(96, 96))
    assert not amx.has_amx()


def test_only_large_float32_products_are_rounded(processor):
    with amx.rounded_products():
        large, weight = torch.ones(4096, 64), torch.ones(64, 64)
        assert amx.usable(large, weight)
        assert not amx.usable(large[:8], weight)
        assert not amx.usable(large.double(), weight.double())
    assert not amx.usable(large, weight)


def test_networks_use_them(processor):
    torch.manual_seed(0)
    net, x = MLP(64, (128, 32)), torch.randn(2048, 64)
    flow, context, eta = ConditionalFlow((1.0, 1.0), 64), torch.randn(2048, 64), torch.rand(2048, 2)
    with torch.no_grad():  # a new flow does not depend on its context
        for parameter in flow.couplings.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    exact = net(x), flow.log_prob(eta, context)
    with amx.rounded_products():
        found = net(x), flow.log_prob(eta, context)
    for a, b in zip(found, exact, strict=True):
        assert 0 < error(a, b.double()) < 10 * ERROR


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
