"""Groups of space: against matrix exponentials, at half turns, with gradients, drawn uniformly."""

import math

import pytest
import torch

from symmetries.groups import E3, O3, SE3, SO3, Lorentz, Permutation, Scale1, as_group, group_name
from symmetries.groups.rotations import cross_matrix

F64 = torch.float64


def generators(group, eta):
    """The Lie algebra element as a plain matrix, written independently of the closed forms."""
    n = len(eta)
    if isinstance(group, SO3):
        return cross_matrix(eta)
    k = torch.zeros(n, 4, 4, dtype=F64)
    if isinstance(group, SE3):
        k[:, :3, :3], k[:, :3, 3] = cross_matrix(eta[:, 3:]), eta[:, :3]
    else:
        k[:, 1:, 1:] = cross_matrix(eta[:, 3:])
        k[:, 0, 1:] = k[:, 1:, 0] = eta[:, :3]
    return k


def drawn(group, n=200, size=1.0, seed=0):
    return size * torch.randn(
        n, group.dim, generator=torch.Generator().manual_seed(seed), dtype=F64
    )


@pytest.mark.parametrize("group", [SO3(), SE3(), Lorentz()], ids=repr)
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.3, 1.0, 2.0])
def test_exp_is_the_matrix_exponential(group, size):
    eta = drawn(group, size=size)
    expected = torch.matrix_exp(generators(group, eta))
    torch.testing.assert_close(group.exp(eta), expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("group", [SO3(), O3(), SE3(), E3(), Lorentz()], ids=repr)
@pytest.mark.parametrize("angle", [0.0, 1e-8, 1e-4, 1.0, 3.0, math.pi - 1e-4, math.pi - 1e-9])
def test_logarithms_up_to_half_turns(group, angle):
    generator = torch.Generator().manual_seed(1)
    axis = torch.randn(100, 3, generator=generator, dtype=F64)
    axis = torch.cat((axis, torch.eye(3, dtype=F64), -torch.eye(3, dtype=F64)))
    axis = axis / axis.norm(dim=1, keepdim=True)
    eta = torch.zeros(len(axis), group.dim, dtype=F64)
    first = group.names.index("rotation_x")
    eta[:, first : first + 3] = angle * axis
    if first:
        eta[:, :3] = torch.randn(len(axis), 3, generator=generator, dtype=F64) * 0.5
    if group.names[-1] == "inversion":
        eta[::2, -1] = 1
    found = group.log(group.exp(eta))
    # At a half turn the logarithm is as exact as the angle's distance to pi can be.
    torch.testing.assert_close(found, eta, atol=1e-6 if angle > 3.1 else 1e-10, rtol=0)


def test_exact_half_turns_come_back():
    eta = math.pi * torch.eye(3, dtype=F64)
    eta = torch.cat((eta, math.pi * torch.tensor([[0.6, 0.0, 0.8]], dtype=F64)))
    again = SO3().exp(SO3().log(SO3().exp(eta)))
    torch.testing.assert_close(again, SO3().exp(eta), atol=1e-12, rtol=0)
    exact = torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=F64))
    assert SO3().log(exact).abs().tolist() == pytest.approx([0, 0, math.pi])


@pytest.mark.parametrize("group", [SO3(), SE3(), Lorentz(), Scale1()], ids=repr)
@pytest.mark.parametrize("size", [0.0, 1e-6, 0.5, 1.2])
def test_gradients_against_differences(group, size):
    eta = drawn(group, 3, seed=2)
    eta = (size * eta / eta.norm(dim=1, keepdim=True)).requires_grad_()
    assert torch.autograd.gradcheck(group.exp, (eta,))
    assert torch.autograd.gradcheck(lambda e: group.log(group.exp(e)), (eta,))


def test_gradients_near_a_half_turn():
    eta = torch.tensor([[0.0, math.pi - 1e-3, 0.0], [2.2, 2.2, 0.3]], dtype=F64).requires_grad_()
    assert torch.autograd.gradcheck(lambda e: SO3().log(SO3().exp(e)), (eta,))


def test_lorentz_keeps_the_metric_and_the_direction_of_time():
    element = Lorentz().exp(drawn(Lorentz()))
    metric = torch.diag(torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=F64))
    torch.testing.assert_close(
        element.mT @ metric @ element, metric.expand_as(element), atol=1e-9, rtol=0
    )
    assert bool((element[:, 0, 0] >= 1).all())
    assert torch.linalg.det(element).tolist() == pytest.approx([1.0] * len(element))


def test_signs_of_rotations_and_boosts():
    """Counter-clockwise seen from the tip of the axis; a boost adds momentum along its axis."""
    for axis in range(3):
        eta = torch.zeros(3)
        eta[axis] = math.pi / 2
        turned = SO3().exp(eta)[:, (axis + 1) % 3]
        assert turned.round().tolist() == torch.eye(3)[(axis + 2) % 3].tolist()
        boost = torch.zeros(6)
        boost[axis] = 0.5
        moved = Lorentz().exp(boost)[:, 0]
        assert float(moved[axis + 1]) == pytest.approx(math.sinh(0.5))


def test_uniform_rotations():
    """Haar: the mean matrix is 0, and angles have the density (1 - cos) / pi."""
    turns = SO3().haar(20_000, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert float(turns.mean(0).abs().max()) < 0.02
    angles = SO3().log(turns).norm(dim=1)
    for a in (0.5, 1.5, 2.5):
        expected = (a - math.sin(a)) / math.pi
        assert float((angles < a).double().mean()) == pytest.approx(expected, abs=0.012)
    assert float((torch.linalg.det(O3().haar(4_000)) < 0).float().mean()) == pytest.approx(
        0.5, abs=0.04
    )


def test_permutations_are_drawn_uniformly_and_compose_as_functions():
    group = Permutation(3)
    found = group.haar(6_000, generator=torch.Generator().manual_seed(0))
    _, counts = found.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 850
    a, b = found[0], found[1]
    assert group.compose(a, b).tolist() == [int(a[int(b[i])]) for i in range(3)]
    with pytest.raises(ValueError, match=r"element: expected places \(\.\.\., 3\)"):
        group.inverse(torch.arange(4))


@pytest.mark.parametrize("name", ["so3", "o3", "se3", "e3", "lorentz", "scale1", "s5"])
def test_names(name):
    assert group_name(as_group(name)) == name
    assert as_group(name) == as_group(name)


def test_float32_is_as_exact_as_it_can_be():
    for group in (SO3(), SE3(), Lorentz()):
        eta = drawn(group, size=0.8).float()
        exact = group.exp(eta.double())
        torch.testing.assert_close(group.exp(eta).double(), exact, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(group.log(group.exp(eta)), eta, atol=2e-5, rtol=1e-4)
