"""Direct products: factor by factor."""

import pytest
import torch

from symmetries.groups import SE2, Affine2, Colour, Cyclic, Product

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
