"""The checks themselves: each must find the fault that it is there for."""

import math

import pytest
import torch

from symmetries.actions.points import PointAction
from symmetries.groups import SE2, Affine2, Colour, Cyclic, Product
from symmetries.testing import (
    action_error,
    assert_action,
    assert_equivariant,
    assert_group,
    assert_invariant,
    equivariance_error,
    group_error,
    invariance_error,
)


def etas(n=6, dim=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.rand(n, dim, generator=generator, dtype=dtype) - 1


class WrongIdentity(SE2):
    def identity(self, *batch, dtype=None, device=None):
        return super().identity(*batch, dtype=dtype, device=device) * 1.001


class WrongInverse(SE2):
    def inverse(self, element):
        return element.mT  # forgets the shift


class NotAssociative(Colour):
    def compose(self, *elements):
        first, *rest = elements
        for element in rest:
            first = (first + element) / 2
        return first


class WrongLog(SE2):
    def log(self, element):
        return torch.cat((element[..., :2, 2], super().log(element)[..., 2:]), -1)


class SaysItIsClosed(Affine2):
    @property
    def closed(self):
        return True  # so log drops the shear that composing makes


class NoExponential(Colour):
    def exp(self, eta):
        return torch.sinh(eta)

    def log(self, element):
        return torch.asinh(element)


class NotANumber(SE2):
    def inverse(self, element):
        return element * math.nan


BROKEN = [
    (WrongIdentity(), "identity"),
    (WrongInverse(), "inverse"),
    (NotAssociative(), "associativity"),
    (WrongLog(), "log"),
    (SaysItIsClosed("rotation", "scale"), "closure"),
    (NoExponential(), "homomorphism"),
    (NotANumber(), "inverse"),
    (Product(Colour("hue"), WrongInverse()), "inverse"),
    (Product(Colour("hue"), NotANumber()), "inverse"),
]


@pytest.mark.parametrize(("group", "law"), BROKEN, ids=lambda part: str(part))
def test_a_broken_group_is_found(group, law):
    rows = etas(dim=group.dim)
    error = group_error(group, rows)[law]
    assert math.isnan(error) or error > 1e-4
    with pytest.raises(AssertionError, match=f"not a group: broken .*{law} by"):
        assert_group(group, rows)
    with pytest.raises(AssertionError, match=f"not a group: broken {law} by"):
        assert_group(group, rows, laws=[law])


def test_a_closed_family_that_says_it_is_not_is_let_off_nothing_else():
    class Modest(WrongInverse):
        @property
        def closed(self):
            return False

    assert "log" not in group_error(Modest(), etas())
    with pytest.raises(AssertionError, match="inverse"):
        assert_group(Modest(), etas())


def test_a_good_group_passes_in_both_precisions():
    for dtype in (torch.float32, torch.float64):
        assert_group(SE2(), etas(dtype=dtype))
    assert max(group_error(SE2(), etas()).values()) < 1e-14


def test_angles_are_compared_up_to_turns():
    assert_group(Cyclic(4), torch.tensor([[2], [3], [-2], [7]]))
    assert_group(Colour("hue"), torch.tensor([[math.pi], [3.0]]), laws=["log"])


def test_a_wrong_finite_group_is_found():
    class Subtracts(Cyclic):
        def product(self, a, b):
            return (a - b) % self.order

    errors = group_error(Subtracts(5), torch.arange(5)[:, None])
    assert errors["associativity"] >= 1
    assert errors["identity"] >= 1


@pytest.mark.parametrize("shape", [(3,), (2, 2, 3), (0, 3), (4, 2)])
def test_etas_are_rows(shape):
    with pytest.raises(ValueError, match=r"etas?: expected shape"):
        group_error(SE2(), torch.zeros(shape))


def test_unknown_law():
    with pytest.raises(ValueError, match=r"laws: expected some of identity.*got commutativity"):
        assert_group(SE2(), etas(), laws=["commutativity"])


class WrongOrder(PointAction):
    """An action from the right: acts with the inverse."""

    def __call__(self, element, data):
        return super().__call__(self.group.inverse(element), data)


class Drifts(PointAction):
    def __call__(self, element, data):
        return super().__call__(element, data) + 0.01


class LosesNumbers(PointAction):
    def __call__(self, element, data):
        return super().__call__(element, data) * math.nan


def points(n=6):
    return torch.randn(n, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_good_action_passes():
    assert_action(PointAction(SE2()), etas(), points())
    assert max(action_error(PointAction(SE2()), etas(), points()).values()) < 1e-14


@pytest.mark.parametrize(
    ("action", "law"),
    [
        (WrongOrder(SE2()), "compatibility"),
        (Drifts(SE2()), "identity"),
        (Drifts(SE2()), "compatibility"),
        (LosesNumbers(SE2()), "identity"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_a_broken_action_is_found(action, law):
    error = action_error(action, etas(), points())[law]
    assert math.isnan(error) or error > 1e-3
    with pytest.raises(AssertionError, match=f"not an action: broken .*{law} by"):
        assert_action(action, etas(), points())


def test_an_action_needs_one_row_for_each_sample():
    with pytest.raises(ValueError, match="etas: expected one row for each of 6 samples"):
        action_error(PointAction(SE2()), etas(5), points())


ACT = PointAction(SE2())
MOTION = SE2().exp(etas())


def test_equivariance():
    def centre(x):
        return x.mean(1)

    def stretched(x):
        return x.mean(1) * torch.tensor([1.0, 2.0])

    assert equivariance_error(centre, ACT, ACT, MOTION, points()) < 1e-14
    assert_equivariant(centre, ACT, ACT, MOTION, points())
    assert equivariance_error(stretched, ACT, ACT, MOTION, points()) > 0.1
    with pytest.raises(AssertionError, match="f is not equivariant: broken equivariance by"):
        assert_equivariant(stretched, ACT, ACT, MOTION, points())
    assert_equivariant(stretched, ACT, ACT, MOTION, points(), tolerance=100.0)


def test_invariance():
    def distances(x):
        return torch.cdist(x, x)

    def lengths(x):
        return x.norm(dim=-1)

    assert invariance_error(distances, ACT, MOTION, points()) < 1e-14
    assert_invariant(distances, ACT, MOTION, points())
    assert invariance_error(lengths, ACT, MOTION, points()) > 0.1
    with pytest.raises(AssertionError, match="f is not invariant: broken invariance by"):
        assert_invariant(lengths, ACT, MOTION, points())


def test_errors_are_relative_to_the_output():
    def lengths(x):
        return 1e6 * x.norm(dim=-1)

    large = invariance_error(lengths, ACT, MOTION, points())
    plain = invariance_error(lambda x: x.norm(dim=-1), ACT, MOTION, points())
    assert large == pytest.approx(plain)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="equal shapes on both sides"):
        equivariance_error(lambda x: x, ACT, lambda _, x: x[:, :1], MOTION, points())


def test_a_function_that_is_zero_has_an_error_all_the_same():
    def switch(x):
        return torch.zeros(6) if x.equal(points()) else torch.ones(6)

    assert invariance_error(switch, ACT, MOTION, points()) == pytest.approx(math.sqrt(6))
