"""Direct products: factor by factor."""

import pytest
import torch

from symmetries.actions.images import ImageAction
from symmetries.groups import SE2, Affine2, Colour, Cyclic, CyclicShift, Product
from symmetries.groups.product import check_learnable
from symmetries.learners.symmetry_model import SymmetryModel

GROUP = Product(SE2(), Colour("hue"))


def test_parameters_are_those_of_the_factors():
    assert GROUP.names == ("shift_x", "shift_y", "rotation", "hue")
    assert GROUP.dim == 4
    assert GROUP.angles == (False, False, True, True)
    assert repr(GROUP) == "Product(SE2(), Colour('hue'))"


def test_factor_by_factor():
    eta = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    motion, colour = GROUP.exp(eta)
    assert motion.equal(SE2().exp(eta[:, :3]))
    assert colour.equal(Colour("hue").exp(eta[:, 3:]))
    twice = GROUP.compose((motion, colour), (motion, colour))
    assert twice[0].equal(motion @ motion)
    assert twice[1].equal(2 * colour)
    back = GROUP.inverse((motion, colour))
    assert back[1].equal(-colour)
    torch.testing.assert_close(GROUP.log((motion, colour)), eta)


def test_finite_factors_give_whole_numbers_beside_real_ones():
    group = Product(Cyclic(4), Colour())
    index, colour = group.exp(torch.tensor([3.0, 0.5, 0.0, 0.0]))
    assert index.item() == 3
    assert group.log((index, colour)).tolist() == [-1.0, 0.5, 0.0, 0.0]


def test_closed_where_every_factor_is():
    assert Product(Affine2("similarity"), Colour()).closed
    assert not Product(Affine2("rotation", "scale"), Colour()).closed


def test_names_must_differ():
    with pytest.raises(ValueError, match="expected each name once, got rotation twice"):
        Product(SE2(), Cyclic(4))


def test_no_factor():
    with pytest.raises(ValueError, match="at least one group"):
        Product()


@pytest.mark.parametrize("method", ["log", "inverse"])
def test_elements_have_one_part_for_each_factor(method):
    with pytest.raises(ValueError, match="zip"):
        getattr(GROUP, method)((torch.eye(3),))


def test_what_does_not_commute_is_undone_in_reverse():
    act = ImageAction(Product(Cyclic(4), CyclicShift("x", 4)))
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    element = (torch.tensor([1, 2, 3]), torch.tensor([1, 0, 2]))
    assert act.undo(element, act(element, x)).equal(x)


def test_two_motions_cannot_be_learned_as_a_product():
    check_learnable(GROUP)
    with pytest.raises(ValueError, match="group: expected one factor that moves pixels"):
        SymmetryModel(Product(Affine2("rotation"), Affine2("shift_x")), (1, 16, 16), "quick")
