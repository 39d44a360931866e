import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.groups import Affine2, Cyclic, CyclicShift, Dihedral, Flip
from symmetries.nn.tied import (
    TiedConv2d,
    TiedLinear,
    TiedPool,
    group_permutations,
    pixel_permutations,
    tie,
)

GROUPS = [Cyclic(4), CyclicShift("x", 3), CyclicShift("y", 2), Dihedral(4), Flip("x")]


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_permutations_are_the_action(group):
    x = torch.randn(3, 2, 6, 6)
    table = pixel_permutations(group, (2, 6, 6))
    moved = x.flatten(1)[:, table].reshape(3, group.order, 2, 6, 6)
    assert torch.equal(moved, ImageAction(group).orbit(group.elements(), x))


@pytest.mark.parametrize("group", GROUPS, ids=repr)
@pytest.mark.parametrize("pool", ["max", "mean"])
def test_pooled_layer_is_invariant_and_sees_more_than_the_orbit_s_mean(group, pool):
    torch.manual_seed(0)
    layer = nn.Sequential(
        TiedLinear(pixel_permutations(group, (2, 6, 6)), 5), nn.ReLU(), TiedPool(pool)
    ).double()
    x = torch.randn(4, 2, 6, 6, dtype=torch.float64)
    orbit = ImageAction(group).orbit(group.elements(), x)
    out = torch.stack([layer(orbit[:, g]) for g in range(group.order)])
    torch.testing.assert_close(out, out[:1].expand_as(out), rtol=0, atol=1e-14)
    blurred = orbit.mean(1)  # has the same linear invariants, and nothing else
    assert (layer(blurred) - layer(x)).abs().max() > 1e-2


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_output_moves_along_the_group(group):
    torch.manual_seed(0)
    layer = TiedLinear(pixel_permutations(group, (1, 6, 6)), 3).double()
    x = torch.randn(4, 1, 6, 6, dtype=torch.float64)
    table = group_permutations(group, 3)
    for k in group.elements():
        moved = layer(ImageAction(group)(k, x)).flatten(1)
        torch.testing.assert_close(moved, layer(x).flatten(1)[:, table[k]])


def test_tied_layers_in_a_row_stay_equivariant():
    torch.manual_seed(0)
    group = Dihedral(4)
    net = nn.Sequential(
        TiedLinear(pixel_permutations(group, (1, 4, 4)), 3),
        nn.ReLU(),
        TiedLinear(group_permutations(group, 3), 5),
        nn.ReLU(),
        TiedPool("mean"),
    ).double()
    x = torch.randn(4, 1, 4, 4, dtype=torch.float64)
    for k in group.elements():
        torch.testing.assert_close(net(ImageAction(group)(k, x)), net(x))


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4), Flip("y")], ids=repr)
def test_tied_convolution_with_pooling_is_equivariant(group):
    torch.manual_seed(0)
    net = nn.Sequential(TiedConv2d(2, 3, 3, group, padding=1), nn.ReLU(), TiedPool("max"))
    x = torch.randn(2, 2, 6, 6)
    act = ImageAction(group)
    for k in group.elements():
        torch.testing.assert_close(net(act(k, x)), act(k, net(x)))


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4), Flip("y")], ids=repr)
@pytest.mark.parametrize("size", [{}, {"stride": 2}, {"dilation": 2}], ids=repr)
def test_tied_convolutions_in_a_row_are_equivariant(group, size):
    torch.manual_seed(0)
    first = TiedConv2d(2, 3, 3, group, padding=1, padding_mode="circular", **size)
    second = TiedConv2d(3, 4, 3, group, padding=1, lift=False)
    net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), TiedPool("max")).double()
    x = torch.randn(2, 2, 7, 7, dtype=torch.float64)
    act = ImageAction(group)
    for k in group.elements():
        torch.testing.assert_close(net(act(k, x)), act(k, net(x)))
    assert (net(act(group.elements()[1], x)) - net(x)).abs().max() > 1e-3


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(72, 5),
        nn.Linear(72, 5, bias=False),
        nn.Conv2d(2, 5, 3, padding=1),
        nn.Conv2d(2, 5, 3, padding="same", dilation=2, bias=False),
        nn.Conv2d(2, 5, 2, padding="valid", padding_mode="circular"),
        nn.Conv2d(2, 5, 4, stride=2),
    ],
    ids=repr,
)
def test_any_layer_can_be_tied(layer):
    group, x = Dihedral(4), torch.randn(3, 2, 6, 6, dtype=torch.float64)
    layer = layer.double()
    tied = tie(layer, group, (2, 6, 6))
    flat = isinstance(layer, nn.Linear)
    torch.testing.assert_close(tied(x)[:, :, 0], layer(x.flatten(1) if flat else x))
    pool, act = TiedPool("max"), ImageAction(group)
    for k in group.elements():
        moved, still = pool(tied(act(k, x))), pool(tied(x))
        torch.testing.assert_close(moved, still if flat else act(k, still))


def test_layers_that_cannot_be_tied():
    for layer, name in (
        (nn.Conv2d(2, 4, 3, groups=2), "one group of channels"),
        (nn.Conv2d(2, 4, (3, 1)), "the same size in both directions"),
        (nn.Conv2d(2, 4, 2, padding="same"), "odd filters"),
        (nn.Linear(7, 3), "shape: expected"),
    ):
        with pytest.raises(ValueError, match=name):
            tie(layer, Cyclic(4), (2, 6, 6))
    with pytest.raises(TypeError, match=r"nn\.Linear or an nn\.Conv2d"):
        tie(nn.ReLU(), Cyclic(4))
    for shape in (None, "abc", 36, (6, 6), (-1, -6, 6), (1.0, 6, 6)):
        with pytest.raises((ValueError, TypeError), match="shape: expected"):
            tie(nn.Linear(36, 3), Cyclic(4), shape)
    with pytest.raises(TypeError, match="group: expected a finite group"):
        tie(nn.Linear(36, 3), Affine2("rotation"), (1, 6, 6))
    with pytest.raises(TypeError, match="rotations or flips"):
        tie(nn.Conv2d(1, 2, 3), CyclicShift("x", 3))


def test_first_filter_is_the_weight():
    layer = TiedLinear(pixel_permutations(Cyclic(4), (1, 4, 4)), 3)
    assert torch.equal(layer.filters()[:, 0], layer.weight)
    x = torch.randn(2, 1, 4, 4)
    untied = nn.functional.linear(x.flatten(1), layer.weight, layer.bias)
    torch.testing.assert_close(layer(x)[:, :, 0], untied)


def test_gradients_reach_the_one_filter():
    layer = TiedLinear(pixel_permutations(Cyclic(4), (1, 4, 4)), 3).double()
    x = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda w: torch.func.functional_call(layer, {"weight": w}, x), layer.weight
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match="group: expected a group that permutes the pixels"):
        pixel_permutations(Cyclic(8), (1, 6, 6))
    with pytest.raises(ValueError, match="shape"):
        pixel_permutations(Cyclic(4), (6, 6))
    layer = TiedLinear(pixel_permutations(Cyclic(4), (1, 4, 4)), 3)
    with pytest.raises(ValueError, match="16 numbers"):
        layer(torch.rand(2, 1, 5, 5))
    with pytest.raises(ValueError, match="permutations"):
        TiedLinear(torch.rand(4, 16), 3)
    with pytest.raises(ValueError, match="how"):
        TiedPool("sum")
    with pytest.raises(ValueError, match=r"features, \|G\|"):
        TiedPool("max")(torch.rand(2, 3))
