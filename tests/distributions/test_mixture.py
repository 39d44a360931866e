"""Mixtures of Gaussians: planted clusters, densities against torch, and what is refused."""

import pytest
import torch
from sklearn import mixture
from torch import distributions as td

from symmetries.distributions.mixture import GaussianMixture, fit_mixture, maximised


def clusters(places, n, scale=0.3):
    """Points around places, n of each."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor(places).repeat_interleave(n, 0)
    return centres + scale * torch.randn(centres.shape, generator=generator)


def test_two_clusters_are_drawn_from_and_nothing_between():
    points = clusters([[-3.0, 0.0], [3.0, 1.0]], 300)
    found = fit_mixture(points)
    assert len(found.mean) == 2 + 1  # of 1, 3, 10, 30, 100
    new = found.sample(2000, torch.Generator().manual_seed(0))
    assert float((new[:, 0].abs() < 1.5).float().mean()) < 0.002
    assert float((new[:, 0] < 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    between, at = found.log_prob(torch.tensor([[0.0, 0.5], [3.0, 1.0]]))
    assert float(at - between) > 20
    torch.testing.assert_close(new.mean(0), points.mean(0), atol=0.2, rtol=0)
    torch.testing.assert_close(new.std(0), points.std(0), atol=0.1, rtol=0)


def test_points_held_out_choose_how_many():
    angles = torch.arange(5) * (2 * torch.pi / 5)
    places = (4 * torch.stack((angles.cos(), angles.sin()), 1)).tolist()
    points = clusters(places, 200)
    assert len(fit_mixture(points, (1, 5, 60)).mean) == 5
    assert len(fit_mixture(points[:200], (1, 16)).mean) == 1
    assert len(fit_mixture(points, (100, 5)).mean) == 5  # 100 are too many for 1,000 points


def test_the_density_is_that_of_torch_and_of_the_samples():
    torch.manual_seed(0)
    found = GaussianMixture(3, 2)
    found.weight.copy_(torch.tensor([0.2, 0.5, 0.3]))
    found.mean.copy_(2 * torch.randn(3, 2))
    found.factor.copy_((torch.randn(3, 2, 2).tril() + 2 * torch.eye(2)) / 3)
    parts = td.MultivariateNormal(found.mean, scale_tril=found.factor)
    exact = td.MixtureSameFamily(td.Categorical(found.weight), parts)
    z = 3 * torch.randn(5, 1000, 2)
    torch.testing.assert_close(found.log_prob(z), exact.log_prob(z), atol=1e-4, rtol=1e-5)
    new = found.sample(20_000)
    torch.testing.assert_close(new.mean(0), exact.mean, atol=0.05, rtol=0)
    torch.testing.assert_close(new.var(0), exact.variance, atol=0.15, rtol=0)


def test_points_are_as_likely_as_by_another_implementation():
    points = clusters([[-1.0, 0.0, 0.5], [1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], 300, scale=0.6)
    rows = ((points - points.mean(0)) / points.std(0)).double()
    found = maximised(rows, 3, seed=0)
    peer = mixture.GaussianMixture(3, random_state=0, max_iter=500, tol=1e-6).fit(rows.numpy())
    torch.testing.assert_close(found.weight.sum(), torch.ones(()).double())
    assert float(found.log_prob(rows).mean()) == pytest.approx(peer.score(rows.numpy()), abs=0.02)


def test_scales_and_columns_without_spread():
    points = torch.cat((1e4 * clusters([[-3.0], [3.0]], 200), torch.ones(400, 1)), 1)
    found = fit_mixture(points, (1, 2))
    assert len(found.mean) == 2
    new = found.sample(100)
    torch.testing.assert_close(new[:, 1], torch.ones(100), atol=0.01, rtol=0)
    assert float(new[:, 0].abs().min()) > 1e4


def test_bad_input():
    points = torch.randn(50, 3)
    with pytest.raises(
        ValueError, match="points: expected at least 16 for each component, got 15;"
    ):
        fit_mixture(points[:15])
    assert len(fit_mixture(points[:16]).mean) == 1
    with pytest.raises(ValueError, match="got 50; draw more, or ask for fewer components"):
        fit_mixture(points, (10,))
    points[3, 1] = torch.nan
    with pytest.raises(ValueError, match="points: expected finite values, got 1 of 150"):
        fit_mixture(points)
    with pytest.raises(ValueError, match="components: expected a whole number of at least 1"):
        fit_mixture(torch.randn(50, 3), (0,))
    with pytest.raises(ValueError, match="components: expected at least one number to try"):
        fit_mixture(torch.randn(50, 3), ())
    for wrong in (3, "12", None):
        with pytest.raises(TypeError, match="components: expected whole numbers to try"):
            fit_mixture(torch.randn(50, 3), wrong)
    with pytest.raises(ValueError, match="seed: expected a whole number of at least 0"):
        fit_mixture(torch.randn(50, 3), seed=-1)
    found = GaussianMixture(2, 3)
    with pytest.raises(ValueError, match=r"z: expected floats \(..., 3\)"):
        found.log_prob(torch.zeros(5, 2))
    with pytest.raises(ValueError, match="n: expected a whole number of at least 1"):
        found.sample(0)
    with pytest.raises(TypeError, match="generator"):
        found.sample(3, 0)


def test_points_have_the_precision_of_the_mixture():
    points = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert fit_mixture(points, (1,)).double().sample(3).dtype == torch.float64
    assert GaussianMixture(2, 2).sample(3).dtype == torch.float32


def test_any_seed_will_do():
    points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    assert len(fit_mixture(points, (2,), seed=2**33).mean) == 2
