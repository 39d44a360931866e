"""The conditional flow: a density, its samples, and that it learns."""

import math

import pytest
import torch

from symmetries.distributions import flow as flow_module
from symmetries.distributions.categorical import ConditionalCategorical
from symmetries.distributions.flow import ConditionalFlow, _base_law


def shaken(*args, seed=0, std=0.3, **kwargs):
    """A flow in double precision that is far from its starting point."""
    torch.manual_seed(seed)
    flow = ConditionalFlow(*args, **kwargs).double().eval()
    for parameter in flow.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return flow


CASES = [
    ((1.5,), None),
    ((math.pi,), (True,)),
    ((0.25, math.pi), None),
    ((0.25, math.pi), (False, True)),
    ((0.25, 0.3, math.pi, 0.2, 0.25), (False, False, True, False, False)),
]


@pytest.mark.parametrize(("bounds", "circular"), CASES)
def test_log_prob_is_base_density_times_the_jacobian_of_sampling(bounds, circular):
    """An independent way: differentiate the sampler by autograd."""
    flow = shaken(bounds, 4, circular=circular, layers=3, hidden=8, base=(8,), std=0.2)
    context = torch.randn(1, 4, dtype=torch.float64)
    noise = torch.Generator().manual_seed(3)
    dim, straight = len(bounds), flow.straight
    mean = scale = None
    if straight:
        mean, scale = (part[:, 0] for part in _base_law(flow.base(context), 1))
    z = torch.empty(dim, dtype=torch.float64)
    log_base = 0.0
    for i in range(dim):
        if i in straight:
            j = straight.index(i)
            z[i] = mean[j] + 0.7 * scale[j]
            normal = torch.distributions.Normal(mean[j], scale[j])
            log_base += float(normal.log_prob(z[i]).detach())
        else:
            z[i] = 6 * torch.rand((), generator=noise, dtype=torch.float64) - 3
            log_base -= math.log(6)

    def push(z):
        u = z[:, None].unbind(0)
        projected = torch.nn.functional.linear(context, flow.project.weight)
        parts = zip(
            projected.split(flow.hidden, -1), flow.project.bias.split(flow.hidden), strict=True
        )
        for layer, part in reversed(list(zip(flow.couplings, parts, strict=True))):
            u, _ = layer(u, *part, inverse=True)
        return torch.cat(u) * flow.bounds / 3

    jacobian = torch.autograd.functional.jacobian(push, z)
    expected = log_base - float(torch.linalg.slogdet(jacobian).logabsdet)
    found = flow.log_prob(push(z)[None], context).detach()
    assert float(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("bounds", "circular"), CASES[:4])
def test_density_integrates_to_one(bounds, circular):
    flow = shaken(bounds, 4, circular=circular, layers=4, hidden=8, base=(8,), std=0.2)
    context = torch.randn(1, 4, dtype=torch.float64)
    axes, cell = [], 1.0
    for i, bound in enumerate(bounds):
        reach = bound if i in flow.around else 4 * bound
        points = 1200 if len(bounds) == 1 else 240
        step = 2 * reach / points
        axes.append(torch.arange(points, dtype=torch.float64) * step - reach + step / 2)
        cell *= step
    grid = torch.cartesian_prod(*axes).reshape(1, -1, len(bounds))
    total = float(flow.log_prob(grid, context).exp().sum()) * cell
    assert total == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize(("bounds", "circular"), CASES)
def test_samples_follow_the_density(bounds, circular):
    """E[log p] over samples is minus the entropy, and so is the sum over base and Jacobian."""
    flow = shaken(bounds, 4, circular=circular, layers=3, hidden=8, base=(8,), std=0.2)
    context = torch.randn(3, 4, dtype=torch.float64)
    eta = flow.sample(context, 1000, torch.Generator().manual_seed(0))
    assert eta.shape == (3, 1000, len(bounds))
    log_p = flow.log_prob(eta, context)
    each = torch.stack([flow.log_prob(eta[:, i], context) for i in range(3)], 1)
    torch.testing.assert_close(log_p[:, :3], each)
    if len(bounds) == 1:  # importance weights of a uniform grid give the same mean
        reach = bounds[0] if flow.around else 4 * bounds[0]
        grid = torch.linspace(-reach, reach, 4001, dtype=torch.float64)
        on_grid = flow.log_prob(grid.expand(3, -1)[..., None], context)
        expected = torch.trapezoid(on_grid.exp() * on_grid, grid, dim=-1)
        torch.testing.assert_close(log_p.mean(1), expected, rtol=0, atol=0.15)


def test_learns_two_modes_that_depend_on_the_context():
    torch.manual_seed(0)
    flow = ConditionalFlow((math.pi,), 2, circular=(True,), layers=2, hidden=16, base=(16,))
    optimiser = torch.optim.Adam(flow.parameters(), 1e-2)
    context = torch.eye(2)
    for _ in range(100):
        sign = 2.0 * torch.randint(0, 2, (128, 1)) - 1
        which = torch.randint(0, 2, (128,))
        centre = torch.where(which[:, None] == 0, 1.0, 2.8)  # the second near the seam
        eta = sign * centre + 0.1 * torch.randn(128, 1)
        loss = -flow.log_prob(eta, context[which]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    eta = flow.sample(context, 1000, torch.Generator().manual_seed(0))[..., 0]
    near = [(eta[i].abs() - centre).abs() < 0.4 for i, centre in enumerate((1.0, 2.8))]
    assert all(float(n.float().mean()) > 0.9 for n in near)
    share = (eta > 0).float().mean(1)
    assert ((share > 0.3) & (share < 0.7)).all()


def test_far_outside_the_interval_is_finite():
    flow = ConditionalFlow((0.25, 0.25), 3)
    eta = torch.tensor([[1e4, -1e4]])
    log_p = flow.log_prob(eta, torch.zeros(1, 3))
    assert torch.isfinite(log_p).all()
    log_p.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in flow.parameters())


def test_same_generator_same_samples():
    flow = shaken((1.0, math.pi), 3, circular=(False, True))
    context = torch.randn(2, 3, dtype=torch.float64)
    first = flow.sample(context, 5, torch.Generator().manual_seed(1))
    assert torch.equal(first, flow.sample(context, 5, torch.Generator().manual_seed(1)))
    assert not torch.equal(first, flow.sample(context, 5, torch.Generator().manual_seed(2)))


def test_bad_input():
    flow = ConditionalFlow((1.0, 1.0), 3)
    with pytest.raises(ValueError, match="context: expected shape"):
        flow.sample(torch.zeros(2, 4), 1)
    with pytest.raises(ValueError, match="eta: expected shape"):
        flow.log_prob(torch.zeros(3, 2), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="circular: expected 2 flags"):
        ConditionalFlow((1.0, 1.0), 3, circular=(True,))
    with pytest.raises(ValueError, match="layers: expected at least 1"):
        ConditionalFlow((1.0, 1.0), 3, layers=0)
    with pytest.raises(ValueError, match="bins: expected fewer than 1,000"):
        ConditionalFlow((1.0, 1.0), 3, bins=1500)


def test_no_points_have_no_densities():
    flow = ConditionalFlow((1.0, 1.0), 3)
    assert flow.log_prob(torch.zeros(5, 0, 2), torch.zeros(5, 3)).shape == (5, 0)


def test_categorical_counts_and_normalises():
    torch.manual_seed(0)
    p = ConditionalCategorical(4, 3, hidden=8)
    for parameter in p.parameters():
        torch.nn.init.normal_(parameter)
    context = torch.randn(2, 3)
    every = torch.arange(4).expand(2, 4)
    log_p = p.log_prob(every, context)
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(2))
    drawn = p.sample(context, 20_000, torch.Generator().manual_seed(0))
    share = torch.nn.functional.one_hot(drawn, 4).float().mean(1)
    torch.testing.assert_close(share, log_p.exp(), rtol=0, atol=0.02)
    with pytest.raises(ValueError, match="element: expected shape"):
        p.log_prob(torch.zeros(3, dtype=torch.long), context)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("learned", ["all", "context", "weights", "points", "but the projection"])
def test_gradients_do_not_depend_on_how_contexts_are_projected(samples, learned, monkeypatch):
    flow = shaken((0.25, math.pi, 0.3), 4, layers=3, hidden=8, base=(8,))
    context = torch.randn(5, 4, dtype=torch.float64, requires_grad=learned in ("all", "context"))
    eta = torch.randn(
        5, samples, 3, dtype=torch.float64, requires_grad=learned in ("all", "points")
    )
    flow.requires_grad_(learned in ("all", "weights", "but the projection"))
    flow.project.requires_grad_(learned in ("all", "weights"))
    inputs = [p for p in (context, eta, *flow.parameters()) if p.requires_grad]

    def found():
        density = flow.log_prob(eta, context)
        first = torch.autograd.grad(density.sin().sum(), inputs, create_graph=True)
        total = sum(part.square().sum() for part in first)
        second = torch.autograd.grad(total, inputs, allow_unused=True)
        plain = torch.autograd.grad(flow.log_prob(eta, context).sin().sum(), inputs)
        return *first, *second, *plain

    own = found()
    monkeypatch.setattr(flow_module, "is_followed", lambda *tensors: True)
    torch.testing.assert_close(own, found())
