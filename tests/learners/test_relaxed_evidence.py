"""The experiment that learns omega' without lambda: what its bound is made of."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from symmetries.groups import Cyclic
from symmetries.nn.fourier import SHARE
from symmetries.nn.relaxation import relaxed_layers
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry

FOLDER = Path(__file__).parents[2] / "papers" / "relaxed-equivariance"


def script(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def evidence():
    return script("evidence")


def test_a_large_share_of_the_absolute_element_leaves_a_kernel_few_directions():
    """Why soft kernels start with a tenth of their variance from it; the numbers of the page."""
    rows = script("kernel_start")
    strict = rows.row("strict", None, None)
    half, tenth = (rows.row("soft", share, True) for share in (0.5, SHARE))
    assert half["dimensions"] < 0.6 * strict["dimensions"]
    assert tenth["dimensions"] > 0.8 * strict["dimensions"]
    assert tenth["constant"] < 0.08
    stored = json.loads((FOLDER / "results.json").read_text())["kernel_start"]["rows"]
    assert stored[0]["dimensions"] == pytest.approx(strict["dimensions"], rel=1e-3)


def network(omega):
    torch.manual_seed(0)
    options = {"hidden": 4, "features": 4}
    symmetry = Symmetry(Cyclic(4), "soft", {"rotation": omega}, True, options)
    return RelaxedCNN(1, 3, symmetry, width=2, kernel_size=3).eval()


def test_noise_is_seen_only_where_the_layers_are_relaxed(evidence):
    images = torch.rand(2, 1, 8, 8)
    posterior = evidence.Posterior(network(0.3), deviation=0.5)
    expected = network(0.3)(images)
    assert torch.allclose(posterior(images), expected, atol=1e-6)
    generator = torch.Generator().manual_seed(0)
    posterior.draw(generator)
    assert not torch.allclose(posterior(images), expected, atol=1e-3)
    for layer in relaxed_layers(posterior).values():
        layer.relaxed_frequency.data.zero_()
    assert torch.equal(posterior(images), posterior.draw(None) or posterior(images))


def test_the_divergence_is_that_of_torch(evidence):
    posterior = evidence.Posterior(network(0.3), deviation=0.2)
    expected = 0.0
    for kernel in posterior.kernels:
        mean = kernel.absolute_weight
        q = torch.distributions.Normal(mean, torch.full_like(mean, 0.2))
        p = torch.distributions.Normal(torch.zeros_like(mean), SHARE**0.5)
        expected += torch.distributions.kl_divergence(q, p).sum().item()
    assert posterior.kl().item() == pytest.approx(expected, rel=1e-4)


def test_it_runs(evidence):
    row = evidence.run("turn", 0, 2, 0.1, 1.0)
    assert row["loss"] > 0
    assert len(row["relaxation"]) == 3
