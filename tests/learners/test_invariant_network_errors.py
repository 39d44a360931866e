"""What an invariant network refuses, in one sentence, and what its files keep."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig
from symmetries.learners.invariant_network.posterior import cholesky

SHAPE = (1, 6, 6)
RUN = {"device": "cpu", "progress": False}


def pictures(count: int) -> torch.Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(0))


def small(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, outputs))


class InPlace(nn.Module):
    """Overwrites what the layer before needs for its gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


def test_a_module_that_cannot_be_handled_is_refused_in_one_sentence():
    def build(module, action="rotation", config="quick"):
        return InvariantNetwork(module, action, SHAPE, config)

    for module, message in (
        (nn.Sequential(small(), nn.Softmax(1)), "expected logits, got probabilities"),
        (nn.Sequential(small(), nn.Sigmoid()), "remove the sigmoid at its end"),
        (small().bfloat16(), r"float32 or float64, got '1.weight' in torch.bfloat16"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), "weights of known shapes"),
        (small(1), "at least two classes, got one output"),
        (nn.Flatten(0), r"parameters to train, got none"),
        (nn.Conv2d(1, 2, 3), r"outputs \(N, K\) for images"),
        (nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), small()), "GroupNorm"),
        (nn.Sequential(small(), nn.Threshold(9, math.nan)), "finite outputs"),
        (nn.Sequential(small(), nn.Sigmoid(), InPlace()), "network that torch can differentiate"),
    ):
        with pytest.raises(ValueError, match=message):
            build(module)
    with pytest.raises(ValueError, match="a group with continuous parameters"):
        build(small(), "c4")
    with pytest.raises(ValueError, match="that of a log-likelihood"):
        InvariantNetworkConfig(likelihood="hinge")
    x = pictures(9)
    with pytest.raises(ValueError, match="at least two classes, got one class only"):
        build(small()).fit((x, torch.zeros(9, dtype=torch.int64)), **RUN)
    with pytest.raises(ValueError, match=r"class numbers from 0 to 2"):
        build(small()).fit((x, torch.arange(9)), **RUN)


def test_curvature_that_is_not_finite_is_reported_in_one_sentence():
    with pytest.raises(ValueError, match="curvature: expected finite Jacobians"):
        cholesky(torch.full((2, 2), torch.nan).double())
    model = InvariantNetwork(small(), "rotation", SHAPE, "quick")
    with torch.no_grad():
        model.module[1].weight.fill_(torch.inf)
    with pytest.raises(ValueError, match="curvature: expected finite Jacobians"):
        model.evidence().posterior(pictures(2), torch.zeros(1, 1))


class OwnWeights(nn.Module):
    """Weights of a layer of one's own, one of them without axes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(36, 3, generator=torch.Generator().manual_seed(0)))
        self.gain = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * (x.flatten(1) @ self.weight)


def test_rows_of_weights_without_axes_are_their_derivatives():
    model = InvariantNetwork(OwnWeights(), "rotation", SHAPE, "quick")
    x = pictures(2)
    precision = {"": torch.tensor(1.0)}
    evidence = dataclasses.replace(model.evidence(), precision=precision, likelihood="gaussian")
    (rows,) = evidence.rows(x, torch.zeros(1, 1))
    for number, row in enumerate(rows):
        output = model.module(x)[number // 3, number % 3]
        slopes = torch.autograd.grad(output, list(model.module.parameters()))
        torch.testing.assert_close(row, torch.cat([slope.flatten() for slope in slopes]))


class Branching(nn.Module):
    """Looks at values, which torch.func cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.flatten(1) if float(x.sum()) > -1e9 else -x.flatten(1))


def test_a_network_that_branches_on_values_is_differentiated_one_example_at_a_time():
    model = InvariantNetwork(Branching(), "rotation", SHAPE, "quick")
    plain = InvariantNetwork(nn.Sequential(nn.Flatten(), model.module.last), "rotation", SHAPE)
    x, eta = pictures(5), torch.linspace(-1, 1, 3)[:, None]
    with pytest.warns(RuntimeWarning, match="one backward pass for each row"):
        (rows,) = model.evidence().rows(x, eta)
    (expected,) = plain.evidence().rows(x, eta)
    torch.testing.assert_close(rows, expected)
    mixed = torch.randn(5, 2, 3)
    (rows,) = model.evidence().rows(x, eta, mixed)  # and without another warning
    (expected,) = plain.evidence().rows(x, eta, mixed)
    torch.testing.assert_close(rows, expected)


class Detached(Branching):
    """Hides its weights from autograd."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).detach()


class Centred(Branching):
    """Looks at the other examples of a batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0))


class Noisy(Branching):
    """Draws noise in eval mode, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + torch.randn_like(x))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Detached, "outputs that depend on the weights, got detached ones"),
        (Centred, "one answer for each example in eval mode"),
        (Noisy, "one answer for each example in eval mode"),
    ],
)
def test_a_network_whose_curvature_would_be_wrong_is_refused(kind, message):
    with pytest.raises(ValueError, match=message):
        InvariantNetwork(kind(), "rotation", SHAPE, "quick")


def test_networks_that_learned_nothing_tell_no_width():
    x, y = pictures(30), torch.arange(30) % 3
    config = InvariantNetworkConfig(samples=2).replace(
        steps=5, search=2, batch_size=10, every=2, curvature_rows=90, lr=1e4
    )
    model = InvariantNetwork(small(), "rotation", SHAPE, config)
    with pytest.warns(RuntimeWarning, match="no width can be told; train longer or lower lr"):
        model.fit((x, y), **RUN)
    (profile,) = model.profiles
    assert max(profile.values) < profile.constant == pytest.approx(-30 * math.log(3))
    assert not profile.told


def test_a_saved_network_keeps_how_its_action_resamples(tmp_path):
    x = pictures(4)
    act = ImageAction(Affine2("rotation"), interpolation="bicubic", fill=0.3)
    module = small()
    model = InvariantNetwork(module, act, SHAPE, InvariantNetworkConfig(half_width=0.4))
    model.save(tmp_path)
    again = InvariantNetwork.load(tmp_path, small())
    assert torch.equal(again(x), model(x))
    assert (again.act.interpolation, again.act.fill) == ("bicubic", 0.3)
    with pytest.raises(ValueError, match="module: expected a network like the saved one"):
        InvariantNetwork.load(tmp_path, small(4))
