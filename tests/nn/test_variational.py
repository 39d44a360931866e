"""The Gaussian last layer: its KL, its moments, and its natural-gradient twin."""

import copy

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from symmetries.nn.natural_linear import NaturalLinear, _factor_by_halves, inverse_factor
from symmetries.nn.variational import VariationalLinear, sample_outputs
from symmetries.ops.full_moments import full_moments
from symmetries.ops.gaussian_kl import gaussian_kl
from symmetries.ops.triangular_adam import TriangularAdam

COVARIANCES = ["full", "diagonal"]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_layer(covariance, runs=1, inputs=5, outputs=3, **options):
    layer = VariationalLinear(inputs, outputs, covariance=covariance, runs=runs, **options)
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded(1)).double() * 0.5)
        if covariance == "full":
            layer.lower.tril_(-1)
    return layer


def covariance_of(layer, run=0):
    """The covariance matrices (outputs, D, D), written out from their definition."""
    scale = layer.log_diagonal[run].exp()
    if layer.covariance == "full":
        factor = torch.stack([layer.lower[run, c].tril(-1) for c in range(layer.outputs)])
        factor = factor + torch.diag_embed(scale)
        return factor @ factor.transpose(1, 2)
    return torch.diag_embed(scale.square())


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("prior_variance", [1.0, 0.3])
def test_kl_is_torch_s(covariance, prior_variance):
    layer = random_layer(covariance, runs=2, prior_variance=prior_variance)
    dim = layer.mean.shape[-1]
    prior = MultivariateNormal(torch.zeros(dim).double(), prior_variance * torch.eye(dim).double())
    for run in range(2):
        posterior = MultivariateNormal(layer.mean[run], covariance_of(layer, run))
        expected = kl_divergence(posterior, prior).sum()
        torch.testing.assert_close(layer.kl()[run], expected)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_kl_is_its_own_monte_carlo_estimate(covariance):
    layer = random_layer(covariance)
    posterior = MultivariateNormal(layer.mean[0], covariance_of(layer))
    prior = MultivariateNormal(torch.zeros(6).double(), torch.eye(6).double())
    torch.manual_seed(0)
    w = posterior.sample((100_000,))
    ratio = (posterior.log_prob(w) - prior.log_prob(w)).sum(-1)
    error = ratio.std() / len(w) ** 0.5
    assert abs(ratio.mean() - layer.kl()[0]) < 4 * error


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_outputs_have_the_moments_of_their_posterior(covariance):
    layer = random_layer(covariance)
    phi = torch.rand(4, 5, dtype=torch.float64, generator=seeded(3))
    mean, variance = layer(phi)
    rows = torch.cat((phi, torch.ones(4, 1).double()), 1)
    torch.testing.assert_close(mean, rows @ layer.mean[0].T)
    exact = torch.einsum("bi,cij,bj->bc", rows, covariance_of(layer), rows)
    torch.testing.assert_close(variance, exact)
    local = sample_outputs(mean, variance, 50_000, seeded())
    torch.testing.assert_close(local.var(0), variance, rtol=0.05, atol=0)
    torch.testing.assert_close(local.mean(0), mean, rtol=0, atol=0.05)


@pytest.mark.parametrize("covariance", [*COVARIANCES, "point"])
def test_runs_are_independent(covariance):
    both = VariationalLinear(4, 3, covariance=covariance, runs=2, scale=0.1)
    alone = VariationalLinear(4, 3, covariance=covariance, scale=0.1)
    phi = torch.rand(2, 6, 4)
    for run in range(2):
        for found, expected in zip(both(phi), alone(phi[run]), strict=True):
            torch.testing.assert_close(found[run], expected)
        torch.testing.assert_close(both.kl()[run], alone.kl()[0])


def test_runs_share_the_noise_of_their_outputs():
    mean, variance = torch.zeros(2, 6, 3), torch.ones(2, 6, 3)
    first, second = sample_outputs(mean, variance, 4, seeded()).unbind(1)
    assert torch.equal(first, second)
    assert first.std() > 0.5


def test_a_point_estimate_has_no_variance_and_no_kl():
    layer = VariationalLinear(4, 3, covariance="point")
    _, variance = layer(torch.rand(2, 4))
    assert variance.abs().max() == 0
    assert layer.kl().tolist() == [0.0]
    mean, variance = layer(torch.rand(2, 4))
    sample_outputs(mean, variance, 1, seeded()).square().sum().backward()
    assert torch.isfinite(layer.mean.grad).all()


def test_the_learned_prior_has_the_smallest_kl():
    layer = random_layer("full", learn_prior=True)
    fixed = random_layer("full")
    for alpha in torch.logspace(-1, 1, 21).double():
        fixed.prior_variance.fill_(alpha)
        assert layer.kl()[0] <= fixed.kl()[0] + 1e-9


def test_float32_is_stable_at_2048_features():
    """From a posterior far from the prior: against float64, and finite gradients."""
    layer = VariationalLinear(2048, 1, bias=False, scale=1e-3)
    with torch.no_grad():
        layer.log_diagonal.add_(torch.randn(layer.log_diagonal.shape, generator=seeded()))
        layer.lower.normal_(0, 1e-3, generator=seeded()).tril_(-1)
    phi = torch.randn(4, 2048, generator=seeded(1))
    _, variance = layer(phi)
    (layer.kl().sum() + variance.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())
    exact = layer.double()
    torch.testing.assert_close(variance.double(), exact(phi.double())[1], rtol=1e-4, atol=0)
    single = exact.kl()
    torch.testing.assert_close(layer.float().kl().double(), single, rtol=1e-5, atol=0)


def test_one_full_natural_step_is_bayesian_linear_regression():
    """Gaussian noise: rate 1 gives the exact posterior, whatever came before."""
    layer = NaturalLinear(4, 2, bias=False, prior_variance=0.7, learn_prior=False).double()
    x = torch.randn(50, 4, generator=seeded()).double()
    y = torch.randn(50, 2, generator=seeded(1)).double()
    noise = 0.3
    for _ in range(2):
        mean, _ = layer(x[None])
        curvature = torch.full_like(mean, 1 / noise**2)
        layer.update(x[None], curvature * mean + (y - mean) / noise**2, curvature, 1.0)
    precision = x.T @ x / noise**2 + torch.eye(4).double() / 0.7
    expected = torch.linalg.solve(precision, x.T @ y / noise**2).T
    torch.testing.assert_close(layer.mean[0], expected)
    covariance = layer.root[0, 0].T @ layer.root[0, 0]
    torch.testing.assert_close(covariance, torch.linalg.inv(precision))


def test_both_layers_agree_on_one_posterior():
    natural = NaturalLinear(3, 2, bias=True, learn_prior=False).double()
    x = torch.randn(1, 20, 3, generator=seeded()).double()
    h = torch.rand(1, 20, 2, generator=seeded(1)).double()
    natural.update(x, h, h, 0.5)
    twin = VariationalLinear(3, 2).double()
    factor = torch.linalg.cholesky(natural.root.transpose(-1, -2) @ natural.root)
    with torch.no_grad():
        twin.mean.copy_(natural.mean)
        twin.lower.copy_(factor.tril(-1))
        twin.log_diagonal.copy_(factor.diagonal(dim1=-2, dim2=-1).log())
    torch.testing.assert_close(natural.kl(), twin.kl())
    for a, b in zip(natural(x), twin(x), strict=True):
        torch.testing.assert_close(a, b)


def test_factors_are_inverted_by_halves():
    factor = torch.randn(2, 130, 130, generator=seeded()).double().tril() + 20 * torch.eye(130)
    precision = factor @ factor.transpose(1, 2)
    inverse = _factor_by_halves(precision)
    torch.testing.assert_close(inverse, inverse_factor(precision))
    torch.testing.assert_close(inverse @ factor, torch.eye(130).double().expand(2, -1, -1))


def test_a_precision_that_is_none_gives_nan():
    precision = torch.stack((torch.eye(3), -torch.eye(3)))
    inverse = inverse_factor(precision)
    assert torch.equal(inverse[0], torch.eye(3))
    assert inverse[1].isnan().any()


def test_the_gradient_of_a_full_covariance():
    """Written out by hand, against numerical differences; the upper triangle is left alone."""
    layer = random_layer("full", runs=2, inputs=3, outputs=2, bias=False)
    phi = torch.rand(2, 4, 3, dtype=torch.float64, generator=seeded(3)).requires_grad_()

    def below(phi, mean, diagonal, lower):
        return full_moments(phi, mean, diagonal, lower.tril(-1))

    assert torch.autograd.gradcheck(below, (phi, layer.mean, layer.log_diagonal, layer.lower))
    _, variance, kl = layer.moments_and_kl(phi)
    torch.testing.assert_close(kl, layer.kl())
    (variance.sum() + kl.sum()).backward()
    assert torch.equal(layer.lower.grad, layer.lower.grad.tril(-1))
    assert layer.lower.grad.tril(-1).abs().max() > 0


def test_a_full_covariance_takes_rounded_features_under_autocast():
    layer = VariationalLinear(6, 3)
    features = torch.randn(4, 6).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mean, variance = layer(features)
    (mean.sum() + variance.sum()).backward()
    exact, _ = layer(features.float())
    assert torch.allclose(mean.float(), exact)
    assert layer.lower.grad.isfinite().all()


def test_a_full_covariance_is_not_rounded_by_autocast():
    layer = random_layer("full", inputs=3, outputs=2, bias=False).float()
    phi = torch.rand(4, 3, generator=seeded(3), requires_grad=True)
    exact = layer(phi)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = layer(phi)
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0)
    rounded[1].sum().backward()
    assert phi.grad.dtype == layer.lower.grad.dtype == torch.float32


def test_kl_of_the_prior_is_zero_and_bad_arguments_are_named():
    assert gaussian_kl(torch.tensor(1.4), torch.log(torch.tensor(0.7)) * 2, 2, None).item() == (
        pytest.approx(0, abs=1e-6)
    )
    with pytest.raises(ValueError, match="covariance: expected one of"):
        VariationalLinear(2, 2, covariance="kronecker")
    with pytest.raises(ValueError, match="prior_variance: expected a positive"):
        VariationalLinear(2, 2, prior_variance=0)
    with pytest.raises(ValueError, match=r"features: expected shape \(2, B, 3\)"):
        VariationalLinear(3, 2, runs=2)(torch.rand(4, 3))


def test_a_copied_optimiser_has_streams_of_its_own(monkeypatch):
    """Copies do not go through __init__."""
    parameter = torch.nn.Parameter(torch.zeros(2, 2))
    optimizer = TriangularAdam([parameter])
    made = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or object())
    device = torch.device("cpu")
    side = optimizer._side(device)
    assert optimizer._side(device) is side
    other = copy.deepcopy(TriangularAdam([parameter]))
    assert other._side(device) is not side
    assert made == [device, device]
