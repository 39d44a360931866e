"""Networks compared by their evidence: layers, flips, and what labels of each kind allow."""

import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups.names import as_group
from symmetries.learners.invariant_network import (
    InvariantNetwork,
    InvariantNetworkConfig,
    NetworkComparison,
    choose_layers,
    compare_networks,
)

SIDE = 12
RUN = {"device": "cpu", "progress": False}
CONFIG = InvariantNetworkConfig(samples=8).replace(
    steps=150, batch_size=50, every=15, curvature_rows=150, search=4, lr=1e-2
)


def sprites(count: int = 150) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Discs of random place, size and hue, and labels that tell one of these each."""
    u = torch.rand(count, 4, generator=torch.Generator().manual_seed(0))
    shift_x, shift_y = 1.2 * (u[:, 0] - 0.5), 0.4 * (u[:, 1] - 0.5)
    axis = (torch.arange(SIDE) + 0.5) * 2 / SIDE - 1
    dx, dy = axis - shift_x[:, None, None], -axis[:, None] - shift_y[:, None, None]
    form = torch.sigmoid(8 - 32 * (dx**2 + dy**2).sqrt() / 3 ** u[:, 2, None, None])
    angle = 2 * math.pi * (u[:, 3, None] + torch.arange(3) / 3)
    images = form[:, None] * (0.5 + 0.4 * angle.cos())[:, :, None, None]
    labels = {
        "place": (shift_x > 0).long(),
        "size": (u[:, 2] > 0.5).long(),
        "hue": (3 * u[:, 3]).long(),
    }
    return images, labels


def small(outputs: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(144, outputs),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "label", "at_most"),
    [
        ("hue", "hue", math.radians(75)),  # three colours: 60 degrees to each side
        ("hue", "place", None),
        ("zoom", "size", 0.75),
        ("zoom", "hue", None),
        ("shift_x", "place", 0.5),
        ("shift_y", "place", None),
    ],
)
def test_labels_limit_the_width_of_what_they_tell_and_of_nothing_else(group, label, at_most):
    images, labels = sprites()
    targets = labels[label]
    network = small(int(targets.max()) + 1)
    model = InvariantNetwork(network, as_group(group), tuple(images.shape[1:]), CONFIG)
    model.fit((images, targets), **RUN)
    (profile,) = model.profiles
    high = profile.interval[1]
    if at_most is None:
        assert high == pytest.approx(profile.bound)
    else:
        assert high < at_most
        assert profile.best < at_most


class Averaged(nn.Module):
    """A network averaged over a finite group."""

    def __init__(self, module: nn.Module, group: str) -> None:
        super().__init__()
        self.module, self.act = module, ImageAction(group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        views = self.act.orbit(self.act.group.elements(), x)
        return self.module(views.flatten(0, 1)).unflatten(0, views.shape[:2]).mean(1)


@pytest.mark.slow
def test_flips_are_averaged_over_unless_labels_tell_the_side():
    images, labels = sprites()
    for label, allowed in (("place", False), ("hue", True)):
        targets = labels[label]
        outputs = int(targets.max()) + 1
        networks = {
            "plain": lambda seed, k=outputs: small(k, seed),
            "flips": lambda seed, k=outputs: Averaged(small(k, seed), "flip_x"),
        }
        found = compare_networks(networks, (images, targets), CONFIG, seeds=2, **RUN)
        gain, doubt = found.advantage(["flips"])
        assert gain > -doubt if allowed else gain < -doubt - 2, (label, found)


def test_a_network_that_is_better_in_every_seed_is_preferred_and_a_lucky_one_is_not():
    zeros = [[0.0, 0.0]] * 3
    clear = NetworkComparison(["a", "b"], [[-9, -20], [-12, -21], [-10, -22]], zeros)
    assert clear.prefers(["a"])
    assert not clear.prefers(["b"])
    lucky = NetworkComparison(["a", "b"], [[-9, -20], [-22, -19], [-10, -22]], zeros)
    assert lucky.best == "a"
    assert not lucky.prefers(["a"])
    unsure = NetworkComparison(["a", "b"], clear.values, [[30.0, 0.0]] * 3)
    assert not unsure.prefers(["a"])


def test_layers_and_networks_that_cannot_be_compared_are_refused():
    x, y = torch.rand(8, 1, 8, 8), torch.arange(8) % 2
    with pytest.raises(ValueError, match="at least two kinds of layers"):
        choose_layers((x, y), kinds=("dense", "recurrent"))
    with pytest.raises(ValueError, match="sides of at least 16"):
        choose_layers((x, y), channels=(2, 2, 2, 2), **RUN)
    with pytest.raises(ValueError, match="networks: expected at least two"):
        compare_networks({"one": lambda seed: small(2)}, (x, y))
