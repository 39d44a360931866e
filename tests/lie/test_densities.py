"""Symmetries of unlabelled data: score matching, the test along the flow, what is not claimed."""

import math

import pytest
import torch

import symmetries
from symmetries.lie.densities import (
    choose_density_degree,
    fit_log_density,
    flow_structure,
    monomial_derivatives,
    score_losses,
)
from symmetries.lie.fields import monomial_values, monomials


def normal(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def ring(n, folds=0, depth=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.rand(4 * n, generator=generator, dtype=torch.float64)
    kept = torch.rand(4 * n, generator=generator) < (1 + depth * torch.cos(folds * angle)) / 2
    angle = angle[kept][:n]
    radius = 1 + 0.2 * normal(n, 1, seed + 1)[:, 0]
    return torch.stack((radius * angle.cos(), radius * angle.sin()), 1)


def test_derivatives_of_monomials_are_those_of_automatic_differentiation():
    x, exponents = normal(5, 3), monomials(3, 4)
    slopes, second = monomial_derivatives(x, exponents)

    def values(point):
        return monomial_values(point[None], exponents)[0]

    for i, point in enumerate(x):
        torch.testing.assert_close(slopes[i], torch.func.jacrev(values)(point))
        curved = torch.func.jacrev(torch.func.jacrev(values))(point)
        torch.testing.assert_close(second[i], curved.diagonal(dim1=1, dim2=2).sum(-1))


def test_the_log_density_of_a_normal_distribution_is_its_quadratic_form():
    mixing = torch.tensor([[1.0, 0.0], [0.8, 0.5]], dtype=torch.float64)
    x = normal(5000, 2) @ mixing.T + 3
    found = fit_log_density(x, 2)
    precision = torch.linalg.inv(torch.cov(x.T, correction=0))
    centred = x - x.mean(0)
    expected = -((centred @ precision) * centred).sum(1) / 2
    values = found(x)[:, 0]
    torch.testing.assert_close(values - values.mean(), expected - expected.mean())
    worse = fit_log_density(normal(5000, 2), 2)
    assert score_losses(found, x).mean() < score_losses(worse, x).mean()


def test_unlabelled_data_has_the_symmetries_of_its_distribution():
    found = symmetries.generators(normal(3000, 2), law="density", epsilon=0.3)
    assert (found.law, found.name, found.dimension) == ("density", "so(2)", (1, 1))
    assert "varies faster than polynomials of degree 4" in found.to_html()
    uneven = normal(3000, 2, seed=2)
    uneven[:, 1] += 0.5 * uneven[:, 1] ** 2
    assert symmetries.generators(uneven, law="density", epsilon=0.1, degree=4).dimension[0] == 0


def test_what_the_fit_does_not_see_the_test_along_the_flow_does():
    seen = symmetries.generators(ring(4000), law="density", epsilon=0.3, degree=4)
    assert seen.name == "so(2)"
    folds = symmetries.generators(
        ring(4000, folds=9, depth=0.9), law="density", epsilon=0.3, degree=4
    )
    assert "moved along the fields" in folds.answer
    x = normal(800, 2, seed=5)
    assert abs(flow_structure(x[:400], x[400:])) < 3.5


def test_densities_of_too_few_data_and_other_fields_are_refused():
    quality = choose_density_degree(normal(600, 2), torch.arange(300), None)
    assert (quality.needed, quality.degree) == (2, 4)
    assert quality.adequate(0.1)
    with pytest.raises(ValueError, match="at least"):
        symmetries.generators(normal(100, 3), law="density")
    with pytest.raises(ValueError, match="fields"):
        symmetries.generators(normal(3000, 2), fields="cubic", law="density")
