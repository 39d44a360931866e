"""Actions on points of space, nodes with features, four-momenta, items, sequences and volumes."""

import math

import pytest
import torch

from symmetries.actions import (
    NodeAction,
    PermutationAction,
    PointAction,
    SequenceAction,
    VolumeAction,
)
from symmetries.groups import (
    E3,
    O3,
    SE2,
    SE3,
    SO3,
    Affine2,
    Cyclic,
    CyclicShift,
    Flip,
    Lorentz,
    Permutation,
    Scale1,
)
from symmetries.testing import assert_action

F64 = torch.float64


def drawn(group, n, seed=0):
    eta = 2 * torch.rand(n, group.dim, generator=torch.Generator().manual_seed(seed), dtype=F64) - 1
    step = torch.tensor([unit == "step" for unit in group.units])
    return torch.where(step, (eta > 0).double(), eta)


@pytest.mark.parametrize("group", [Affine2(), SE2(), Cyclic(4)], ids=repr)
def test_groups_of_the_plane_refuse_points_of_space(group):
    """Their 3 x 3 matrices are affine maps of the plane, not linear maps of space."""
    points = torch.rand(2, 5, 3)
    element = group.identity(2)
    with pytest.raises(ValueError, match=r"points: expected 2 coordinates.*use SO3, SE3"):
        PointAction(group)(element, points)
    PointAction(group)(element, points[..., :2])


@pytest.mark.parametrize(
    ("group", "d"), [(SO3(), 3), (O3(), 3), (SE3(), 3), (E3(), 3), (Lorentz(), 4), (Scale1(), 5)]
)
def test_points_move_by_the_matrix(group, d):
    eta, points = drawn(group, 4), torch.rand(4, 6, d, dtype=F64)
    assert_action(PointAction(group), eta, points)
    moved = PointAction(group)(group.exp(eta), points)
    for i, matrix in enumerate(group.exp(eta)):
        for j, point in enumerate(points[i]):
            whole = torch.cat((point, torch.ones(1, dtype=F64)))
            by_hand = {
                1: lambda m, w: m[0, 0] * w[:-1],
                d: lambda m, w: m @ w[:-1],
                d + 1: lambda m, w: (m @ w)[:-1],
            }[len(matrix)](matrix, whole)
            torch.testing.assert_close(moved[i, j], by_hand)
    if d != 5:
        with pytest.raises(ValueError, match=f"points: expected {d} coordinates"):
            PointAction(group)(group.exp(eta), torch.rand(4, 6, d - 1, dtype=F64))


def test_invariants_of_four_momenta():
    momenta = torch.rand(5, 3, 4, dtype=F64)
    moved = PointAction(Lorentz())(Lorentz().exp(drawn(Lorentz(), 5)), momenta)
    metric = torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=F64)
    mass = (momenta.square() * metric).sum(-1)
    torch.testing.assert_close((moved.square() * metric).sum(-1), mass)


def test_features_move_in_their_own_ways():
    group = E3()
    act = NodeAction(group, ("point", "vector", "pseudovector", "tensor", "scalar"))
    eta, nodes = drawn(group, 6), torch.rand(6, 4, 19, dtype=F64)
    assert bool((eta[:, -1] == 1).any())
    assert_action(act, eta, nodes)
    element = group.exp(eta)
    moved = act(element, nodes)
    a, t = element[:, :3, :3], element[:, :3, 3]
    for n in range(6):
        for p in range(4):
            row = nodes[n, p]
            sign = torch.linalg.det(a[n])
            tensor = a[n] @ row[9:18].reshape(3, 3) @ a[n].T
            parts = (a[n] @ row[:3] + t[n], a[n] @ row[3:6], sign * a[n] @ row[6:9])
            expected = torch.cat((*parts, tensor.flatten(), row[18:]))
            torch.testing.assert_close(moved[n, p], expected)


def test_cross_products_of_vectors_are_pseudovectors():
    act = NodeAction(O3(), ("vector", "vector", "pseudovector"))
    u, v = torch.rand(2, 8, 3, dtype=F64)
    rows = torch.cat((u, v, torch.linalg.cross(u, v)), -1)
    moved = act(O3().exp(drawn(O3(), 8)), rows)
    torch.testing.assert_close(torch.linalg.cross(moved[:, :3], moved[:, 3:6]), moved[:, 6:])


def test_bad_layouts_and_shapes():
    with pytest.raises(ValueError, match="layout: expected some of point"):
        NodeAction(SO3(), ("place",))
    with pytest.raises(ValueError, match="group: expected one with a number of coordinates"):
        NodeAction(Scale1(), ("point",))
    with pytest.raises(ValueError, match=r"nodes: expected floating-point \(N, P, 4\)"):
        NodeAction(SO3(), ("point", "scalar"))(torch.eye(3), torch.rand(2, 5, 3))
    with pytest.raises(ValueError, match="group: expected a group of space"):
        VolumeAction("rotation")
    with pytest.raises(ValueError, match="data: expected 5 items along axis 1"):
        PermutationAction("s5")(torch.arange(5), torch.rand(2, 4))
    with pytest.raises(TypeError, match="group: expected a Permutation"):
        PermutationAction("c4")
    with pytest.raises(ValueError, match="T a multiple of 3"):
        SequenceAction("t3")(torch.tensor(1), torch.rand(2, 4))
    with pytest.raises(ValueError, match="group: expected shifts or a flip along x"):
        SequenceAction("t3y")


def test_items_and_graphs_are_permuted():
    group = Permutation(5)
    places = group.haar(3, generator=torch.Generator().manual_seed(0))
    items, graph = torch.rand(3, 5, 2), torch.rand(3, 5, 5)
    moved = PermutationAction(group)(places, items)
    turned = PermutationAction(group, (1, 2))(places, graph)
    for n in range(3):
        for i in range(5):
            assert torch.equal(moved[n, places[n, i]], items[n, i])
            for j in range(5):
                assert turned[n, places[n, i], places[n, j]] == graph[n, i, j]
    for act, data in ((PermutationAction(group), items), (PermutationAction(group, (1, 2)), graph)):
        assert_action(act, (places - torch.arange(5)).float(), data)


@pytest.mark.parametrize("group", [CyclicShift("x", 4), Flip("x")], ids=repr)
def test_sequences(group):
    tokens = torch.arange(24).reshape(3, 8)
    steps = torch.tensor([0, 1, 1])
    moved = SequenceAction(group)(steps, tokens)
    expected = tokens[1].roll(2) if group.order == 4 else tokens[1].flip(0)
    assert torch.equal(moved[0], tokens[0])
    assert torch.equal(moved[1], expected)
    assert_action(SequenceAction(group), steps[:, None], torch.rand(3, 8, 2))


def test_volumes_turn_like_points():
    """A bright voxel ends where the point at its centre goes."""
    group, side = SE3(), 9
    centre = torch.arange(side, dtype=F64) * 2 / side - 1 + 1 / side
    for axis in range(3):
        eta = torch.zeros(6, dtype=F64)
        eta[3 + axis] = math.pi / 2
        eta[axis] = 4 / side  # two voxels along the axis
        element = group.exp(eta)
        volume = torch.zeros(1, 1, side, side, side, dtype=F64)
        z, y, x = 3, 2, 5
        volume[0, 0, z, side - 1 - y, x] = 1  # y points up
        place = torch.stack((centre[x], centre[y], centre[z]))[None, None]
        goal = PointAction(group)(element, place)[0, 0]
        i, j, k = (((goal + 1) * side - 1) / 2).round().long().tolist()
        moved = VolumeAction(group)(element, volume)
        assert float(moved[0, 0, k, side - 1 - j, i]) == pytest.approx(1, abs=1e-6)


def test_volumes_of_unequal_sides_keep_angles():
    """On a box of 5 x 9 x 7 a quarter turn about z maps within the plane in voxels, not sides."""
    volume = torch.zeros(1, 1, 5, 9, 7, dtype=F64)
    volume[0, 0, 2, 4, 5] = 1  # two voxels right of the centre
    turned = VolumeAction("so3")(SO3().exp(torch.tensor([0, 0, math.pi / 2], dtype=F64)), volume)
    assert float(turned[0, 0, 2, 2, 3]) == pytest.approx(1, abs=1e-6)  # two voxels up


def test_a_background_that_is_not_black():
    volume = torch.ones(1, 2, 4, 4, 4)
    moved = VolumeAction("se3", fill=1.0)(SE3().exp(torch.rand(6)), volume)
    torch.testing.assert_close(moved, volume)
