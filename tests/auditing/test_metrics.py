import math

import pytest
import torch
from torch import nn

from symmetries.auditing import (
    Estimate,
    distribution_error,
    distribution_invariance,
    logit_invariance,
    normalised_logit_error,
    saliency_similarity,
)
from symmetries.auditing.estimate import estimate
from symmetries.groups import Affine2, Colour, Cyclic, CyclicShift, Dihedral, Flip, Product


@torch.no_grad()
def by_hand(model, x, group, error):
    """Equation 2 as it stands, example by example."""
    turned = [torch.rot90(x, k, (2, 3)) for k in range(1, group.order)]
    pairs = [
        [error(model(x[i : i + 1]), model(t[i : i + 1])) for t in turned] for i in range(len(x))
    ]
    return torch.tensor([[float(e) for e in row] for row in pairs], dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture
def x():
    return torch.randn(10, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def test_logit_invariance_is_the_paper_s_equation(model, x):
    values = by_hand(model, x, Cyclic(4), lambda a, b: 0.5 * (a - b).square().sum())
    found = logit_invariance(model, x, Cyclic(4), batch_size=3)
    assert found.mean == pytest.approx(float(values.mean()), rel=1e-5)
    per_example = values.mean(1)
    assert found.standard_error == pytest.approx(float(per_example.std() / math.sqrt(10)), rel=1e-4)


def test_normalised_and_distribution_invariance(model, x):
    values = by_hand(model, x, Cyclic(4), lambda a, b: (a - b).square().sum() / a.square().sum())
    found = logit_invariance(model, x, Cyclic(4), normalised=True)
    assert found.mean == pytest.approx(float(values.mean()), rel=1e-5)

    def kl(a, b):
        u, q = a.softmax(1), b.softmax(1)
        return (u * (u / q).log()).sum()

    values = by_hand(model, x, Cyclic(4), kl)
    found = distribution_invariance(model, x, Cyclic(4))
    assert found.mean == pytest.approx(float(values.mean()), rel=1e-4)


def test_identity_counts_only_when_asked_for(model, x):
    without = logit_invariance(model, x, Cyclic(4)).mean
    with_it = logit_invariance(model, x, Cyclic(4), identity=True).mean
    assert with_it == pytest.approx(without * 3 / 4, rel=1e-5)


def test_zero_logit_error_means_zero_distribution_error_but_not_the_other_way(x):
    shifted = torch.arange(6.0)[:, None]
    logits = torch.randn(6, 4)
    assert float(distribution_error(logits, logits + shifted).abs().max()) < 1e-6
    assert float(normalised_logit_error(logits, logits + shifted).max()) > 0.1


def test_an_invariant_model_has_no_error(x):
    weights = torch.tensor([1.0, -2.0])

    def model(x):
        return x.square().sum((2, 3)) * weights

    shifts = Product(CyclicShift("x", 3), CyclicShift("y", 2))
    for group in (Cyclic(4), Dihedral(4), CyclicShift("x", 3), Flip("y"), shifts):
        assert logit_invariance(model, x, group).mean < 1e-9
        assert distribution_invariance(model, x, group).mean < 1e-6
        assert saliency_similarity(model, x, group).mean > 0.9999


def test_products_of_finite_groups_are_gone_through_whole(model, x):
    group = Product(Cyclic(4), Flip("x"))
    found = logit_invariance(model, x, group)
    values = []
    for k in range(4):
        for flip in range(2):
            if k or flip:
                moved = torch.rot90(x.flip(3) if flip else x, k, (2, 3))
                values.append(0.5 * (model(x) - model(moved)).square().sum(1).detach())
    assert found.mean == pytest.approx(float(torch.stack(values).mean()), rel=1e-5)


def test_sampled_elements_depend_on_the_seed_and_not_on_the_batch(model, x):
    group = Affine2("rotation")
    a = logit_invariance(model, x, group, samples=4, seed=3, batch_size=4)
    b = logit_invariance(model, x, group, samples=4, seed=3, batch_size=10)
    c = logit_invariance(model, x, group, samples=4, seed=4)
    assert a.mean == pytest.approx(b.mean, rel=1e-5)
    assert a.mean != pytest.approx(c.mean, rel=1e-3)


def test_the_standard_error_is_that_of_repeated_draws():
    # f(g x) - f(x) is a known random number: the stated error must be the spread over seeds.
    x = torch.zeros(64, 3, 2, 2) + 0.5
    x = x + torch.randn(64, 1, 1, 1, generator=torch.Generator().manual_seed(0)) / 20

    def model(x):
        return torch.stack((x.mean((1, 2, 3)) * 10, torch.zeros(len(x))), 1)

    found = [
        logit_invariance(model, x, Colour("value"), samples=2, half_width=0.3, seed=s)
        for s in range(40)
    ]
    spread = torch.tensor([f.mean for f in found]).std().item()
    stated = sum(f.standard_error for f in found) / len(found)
    assert spread == pytest.approx(stated, rel=0.35)


def test_half_widths_bound_the_sample(model, x):
    small = logit_invariance(model, x, Affine2("rotation"), half_width=0.0)
    assert small.mean < 1e-9
    with pytest.raises(ValueError, match="half_width: expected one number"):
        logit_invariance(model, x, Affine2("rotation"), half_width=[0.1, 0.2])


def test_interval_and_single_example():
    assert math.isnan(estimate(torch.tensor([1.0])).standard_error)
    low, high = Estimate.normal(0.0, 1.0).interval(0.6826894921370859)
    assert (low, high) == pytest.approx((-1, 1))
    with pytest.raises(ValueError, match="level"):
        Estimate.normal(0.0, 1.0).interval(95)
