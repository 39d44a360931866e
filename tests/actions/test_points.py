"""Point sets and vectors under matrix groups."""

import math

import pytest
import torch

from symmetries.actions.points import PointAction
from symmetries.groups import SE2, Affine2, Cyclic, Dihedral, Flip
from symmetries.testing import assert_action


def points(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("group", [Affine2(), Affine2("rotation", "scale"), SE2()], ids=repr)
@pytest.mark.parametrize("shape", [(6, 5, 2), (6, 2)], ids=["sets", "vectors"])
def test_matrix_groups_act(group, shape):
    etas = 0.8 * points(6, group.dim).clamp(-1, 1)
    assert_action(PointAction(group), etas, points(*shape), tolerance=1e-13)


@pytest.mark.parametrize("group", [Cyclic(4), Cyclic(5), Flip("y"), Dihedral(3)], ids=repr)
def test_finite_groups_act(group):
    etas = group.log(group.elements())
    data = points(group.order, 7, 2)
    assert_action(PointAction(group), etas, data, tolerance=1e-14)


def test_points_move_as_a_loop_says():
    group, data = Affine2(), points(3, 4, 2)
    elements = group.exp(0.5 * points(3, 6))
    moved = PointAction(group)(elements, data)
    for n in range(3):
        for p in range(4):
            expected = elements[n] @ torch.cat((data[n, p], torch.ones(1, dtype=torch.float64)))
            torch.testing.assert_close(moved[n, p], expected[:2])


def test_one_element_for_all():
    group, data = SE2(), points(3, 4, 2)
    element = group.exp(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
    act = PointAction(group)
    torch.testing.assert_close(act(element, data), act(element.expand(3, 3, 3), data))
    torch.testing.assert_close(act(element, data[:, 0]), act(element, data)[:, 0])


def test_matrices_of_the_same_side_are_linear():
    """A group of one's own, whose number of coordinates is not known, decides by its matrices."""
    points, element = torch.randn(2, 4, 3).double(), torch.randn(2, 3, 3).double()

    class Own(SE2):
        coordinates = None

    moved = PointAction(Own())(element, points)
    torch.testing.assert_close(moved, torch.einsum("nij,npj->npi", element, points))


def test_quarter_turns_are_exact():
    act = PointAction(Cyclic(4))
    assert act(torch.tensor([1, 2]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [
        [-2.0, 1.0],
        [-3.0, -4.0],
    ]


def test_gradients():
    group = SE2()
    eta = torch.tensor([0.1, -0.2, math.pi / 3], dtype=torch.float64, requires_grad=True)
    data = points(2, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda e, x: PointAction(group)(group.exp(e), x), (eta, data))


@pytest.mark.parametrize("data", [torch.rand(2), torch.rand(1, 2, 3, 2), torch.ones(3, 2).long()])
def test_bad_points(data):
    with pytest.raises(
        ValueError, match=r"points: expected floating-point \(N, P, D\) or \(N, D\)"
    ):
        PointAction(SE2())(torch.eye(3), data)


@pytest.mark.parametrize("shape", [(2, 3, 3), (1, 3, 3), (4, 4), (3, 1, 3, 3), (3, 2)])
def test_bad_elements(shape):
    with pytest.raises(ValueError, match="element: expected matrices of side 2 or 3, one or 3"):
        PointAction(SE2())(torch.ones(shape), torch.rand(3, 5, 2))
