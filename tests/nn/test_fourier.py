"""Random Fourier features and the kernel network: exact independence, norm, starting variance."""

import pytest
import torch

from symmetries.nn.fourier import KernelFunction, fourier_features


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_features_follow_equation_seven():
    a, directions = torch.randn(4, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    omega = torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64)
    features = fourier_features(a, directions, omega)
    for row, value in zip(a, features, strict=True):
        for d in range(5):
            phase = 2 * torch.pi * sum(directions[d, i] * row[i] * omega[i] for i in range(3))
            assert value[d] == pytest.approx(float(phase.cos()) / 5**0.5, abs=1e-12)
            assert value[5 + d] == pytest.approx(float(phase.sin()) / 5**0.5, abs=1e-12)


def test_norm_is_one_at_every_frequency():
    a, directions = torch.randn(100, 2), torch.randn(16, 2)
    for omega in (0.0, 0.1, 10.0):
        norm = fourier_features(a, directions, torch.full((2,), omega)).norm(dim=-1)
        assert torch.allclose(norm, torch.ones(100), atol=1e-5)


def test_wrong_number_of_frequencies_is_named():
    with pytest.raises(ValueError, match="one frequency for each coordinate"):
        fourier_features(torch.zeros(4, 3), torch.zeros(5, 3), torch.ones(2))


def test_frequency_zero_makes_the_kernel_constant():
    network = KernelFunction(3, 2, (2, 2), 1.0, generator=seeded())
    a, b = torch.randn(50, 3), torch.randn(50, 2)
    phi = network.features(a, torch.zeros(3), b, torch.zeros(2))
    assert torch.equal(phi, phi[:1].expand_as(phi))
    phi = network.features(a, torch.ones(3), b, torch.zeros(2))
    other = network.features(a, torch.ones(3), b.flip(0), torch.zeros(2))
    assert torch.equal(phi, other)
    assert not torch.equal(phi, phi[:1].expand_as(phi))


@pytest.mark.parametrize("absolute", [0, 2])
@pytest.mark.parametrize("omega", [0.1, 1.0, 10.0])
def test_variance_at_the_start(absolute, omega):
    """Over random weights, values have the variance asked for, whatever the frequency is."""
    a, b = torch.randn(20, 3, generator=seeded()), torch.randn(20, 2, generator=seeded(1))
    squares = []
    for seed in range(150):
        network = KernelFunction(3, absolute, (4, 4), 0.3, generator=seeded(seed))
        second = (b, torch.full((2,), omega)) if absolute else (None, None)
        phi = network.features(a, torch.full((3,), omega), *second)
        squares.append((phi @ network.output.flatten(0, 1).T).square().mean().item())
    mean = sum(squares) / len(squares)
    assert mean == pytest.approx(0.3, rel=0.15)


def test_same_generator_same_weights():
    one, two = (KernelFunction(2, 1, (3,), 1.0, generator=seeded(5)) for _ in range(2))
    assert all(torch.equal(one.state_dict()[k], two.state_dict()[k]) for k in one.state_dict())


@pytest.mark.parametrize("argument", ["features", "hidden"])
def test_empty_networks_are_refused(argument):
    with pytest.raises(ValueError, match=argument):
        KernelFunction(2, 0, (1,), 1.0, **{argument: 0})
