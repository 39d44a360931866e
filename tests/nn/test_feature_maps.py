"""Random Fourier features and ReLU features, averaged over transformations."""

import math

import pytest
import torch

from symmetries.groups.affine import Affine2
from symmetries.nn.feature_maps import InvariantFeatures

IDENTITY = torch.eye(3)[None, None]


def test_fourier_features_approach_the_gaussian_kernel():
    sigma = 0.7
    phi = InvariantFeatures((1, 4, 4), 20_000, sigma=sigma)
    x = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    features = phi(x, IDENTITY)[0]
    distance = torch.cdist(x.flatten(1), x.flatten(1))
    kernel = torch.exp(-0.5 * (sigma * distance) ** 2)
    torch.testing.assert_close(features @ features.T, kernel, rtol=0, atol=0.03)


def test_full_rotation_makes_features_nearly_invariant():
    phi = InvariantFeatures((1, 12, 12), 64)
    angles = torch.linspace(-math.pi, math.pi, 65)[:-1, None]
    x = torch.zeros(1, 1, 12, 12)
    x[..., 3:9, 5:7] = 1.0
    turned = torch.rot90(x, 1, (2, 3))
    T = Affine2("rotation").exp(angles)[None]
    averaged = (phi(x, T) - phi(turned, T)).norm() / phi(x, T).norm()
    plain = (phi(x, IDENTITY) - phi(turned, IDENTITY)).norm() / phi(x, IDENTITY).norm()
    assert averaged < 1e-3 < 0.1 < plain


def test_what_is_learned_and_what_is_fixed():
    fourier, relu = (
        InvariantFeatures((1, 4, 4), 8, kind=kind, runs=2) for kind in ("fourier", "relu")
    )
    assert not any(p.requires_grad for p in fourier.parameters())
    assert all(p.requires_grad for p in relu.parameters())
    assert fourier.layer.weight.shape[0] == 1
    assert relu.layer.weight.shape[0] == 2
    T = IDENTITY.expand(2, 3, 3, 3)
    assert fourier(torch.rand(5, 1, 4, 4), T).shape == relu(torch.rand(5, 1, 4, 4), T).shape
    assert (relu(torch.rand(5, 1, 4, 4), T) >= 0).all()


def test_the_seed_fixes_the_weights():
    one, same, other = (InvariantFeatures((1, 4, 4), 8, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.layer.weight, same.layer.weight)
    assert not torch.equal(one.layer.weight, other.layer.weight)
    with pytest.raises(ValueError, match="kind: expected one of"):
        InvariantFeatures((1, 4, 4), 8, kind="sine")
