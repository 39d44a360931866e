"""The image action: what the conventions say, the law of an action, and exactness on the grid."""

import math

import pytest
import torch

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.colour import Colour
from symmetries.groups.finite import Cyclic, CyclicShift, Dihedral, Flip
from symmetries.groups.product import Product
from symmetries.groups.se2 import SE2


def blob(x, y, spread=0.004, side=65):
    """A smooth spot at (x, y) in half-image units, y up."""
    axis = (2 * torch.arange(side, dtype=torch.float64) + 1 - side) / side
    return torch.exp(-(((axis - x) ** 2)[None, :] + ((-axis - y) ** 2)[:, None]) / spread)[
        None, None
    ]


def centre(image):
    side = image.shape[-1]
    axis = (2 * torch.arange(side, dtype=image.dtype) + 1 - side) / side
    weight = image[0, 0] / image[0, 0].sum()
    return (weight.sum(0) * axis).sum().item(), (weight.sum(1) * -axis).sum().item()


@pytest.mark.parametrize(
    ("name", "value", "tip"),
    [
        ("shift_x", 0.25, (0.75, 0.25)),  # right
        ("shift_y", 0.25, (0.5, 0.5)),  # up
        ("rotation", math.pi / 2, (-0.25, 0.5)),  # counter-clockwise
        ("scale_x", math.log(1.3), (0.65, 0.25)),  # wider
        ("scale_y", math.log(2), (0.5, 0.5)),  # taller
        ("zoom", math.log(1.3), (0.65, 0.325)),  # larger
        ("shear", 0.3, (0.5989, 0.4136)),  # towards the up-right diagonal
    ],
)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "bspline"])
def test_a_spot_moves_where_the_conventions_say(name, value, tip, interpolation):
    group = Affine2(name)
    T = group.exp(torch.tensor([value], dtype=torch.float64))
    moved = ImageAction(group, interpolation=interpolation)(T, blob(0.5, 0.25))
    assert centre(moved) == pytest.approx(tip, abs=2e-3)


def test_shear_moves_the_diagonal_outward():
    group = Affine2("shear")
    T = group.exp(torch.tensor([0.3], dtype=torch.float64))
    factor = math.exp(0.3)
    assert centre(ImageAction(group)(T, blob(0.4, 0.4))) == pytest.approx(
        (0.4 * factor, 0.4 * factor), abs=2e-3
    )


def test_rotation_is_a_rotation_on_images_that_are_not_square():
    """Distances on screen are kept: a spot right of the centre ends above it, as far away."""
    side = (41, 81)
    image = torch.zeros(1, 1, *side, dtype=torch.float64)
    image[0, 0, 20, 40 + 16] = 1.0
    group = Affine2("rotation")
    turned = ImageAction(group)(group.exp(torch.tensor([math.pi / 2], dtype=torch.float64)), image)
    assert divmod(int(turned.argmax()), side[1]) == (20 - 16, 40)


def test_compose_in_the_group_equals_acting_twice():
    group = Affine2()
    act = ImageAction(group, interpolation="bspline")
    generator = torch.Generator().manual_seed(0)
    a, b = group.exp(torch.randn(2, 6, dtype=torch.float64, generator=generator) * 0.1)
    x = blob(0.1, -0.2, spread=0.03)
    torch.testing.assert_close(act(group.compose(a, b), x), act(a, act(b, x)), rtol=0, atol=2e-4)
    # The other order is another picture.
    assert (act(group.compose(b, a), x) - act(a, act(b, x))).abs().max() > 1e-3


@pytest.mark.parametrize(
    "group",
    [Cyclic(4), Cyclic(2), Dihedral(4), Flip("x"), Flip("y"), CyclicShift("x", 3)],
    ids=repr,
)
def test_finite_groups_permute_pixels_exactly(group):
    act = ImageAction(group)
    x = torch.rand(group.order, 2, 6, 6)
    a, b = torch.cartesian_prod(group.elements(), group.elements()).T
    for i, j in zip(a, b, strict=True):
        assert act(group.compose(i, j), x).equal(act(i, act(j, x)))
    assert act(group.identity(), x).equal(x)
    each = act(group.elements(), x)
    for k in group.elements():
        assert each[k].equal(act(k, x[k : k + 1])[0])
    orbit = act.orbit(group.elements(), x)
    for k in group.elements():
        assert orbit[:, k].equal(act(k, x))


def test_quarter_turn_is_rot90_and_agrees_with_resampling():
    x = torch.rand(3, 1, 8, 8, dtype=torch.float64)
    turned = ImageAction(Cyclic(4))(torch.tensor(1), x)
    assert turned.equal(torch.rot90(x, 1, (-2, -1)))
    group = Affine2("rotation")
    warped = ImageAction(group)(group.exp(torch.tensor([math.pi / 2], dtype=torch.float64)), x)
    torch.testing.assert_close(warped, turned)
    assert ImageAction(Flip("x"))(torch.tensor(1), x).equal(x.flip(-1))
    assert ImageAction(Flip("y"))(torch.tensor(1), x).equal(x.flip(-2))
    assert ImageAction(CyclicShift("x", 4))(torch.tensor(1), x).equal(x.roll(2, -1))
    assert ImageAction(CyclicShift("y", 4))(torch.tensor(1), x).equal(x.roll(-2, -2))


def test_eighth_turns_resample():
    x = blob(0.5, 0.0)
    turned = ImageAction(Cyclic(8))(torch.tensor(1), x)
    assert centre(turned) == pytest.approx((0.5 * math.sqrt(0.5),) * 2, abs=2e-3)


def test_orbits_agree_with_single_moves():
    x = torch.rand(3, 3, 10, 10, dtype=torch.float64)
    for group in (Affine2(), SE2(), Colour(), Product(Affine2(), Colour())):
        act = ImageAction(group, fill=0.5)
        eta = torch.randn(3, 4, group.dim, dtype=torch.float64) * 0.2
        orbit = act.orbit(group.exp(eta), x)
        shared = act.orbit(group.exp(eta[0]), x)
        for s in range(4):
            torch.testing.assert_close(orbit[:, s], act(group.exp(eta[:, s]), x))
            torch.testing.assert_close(shared[:, s], act(group.exp(eta[0, s]), x))


def test_product_with_colour_acts_on_both():
    group = Product(Affine2("shift_x"), Colour("hue"))
    image = torch.zeros(1, 3, 8, 8)
    image[0, 0, 4, 2] = 1.0  # red
    element = group.exp(torch.tensor([0.5, 2 * math.pi / 3]))
    moved = ImageAction(group)(element, image)
    expected = torch.zeros_like(image)
    expected[0, 1, 4, 4] = 1.0  # green, half a half-image to the right
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-5)


def test_under_compile_and_vmap():
    group = Affine2("rotation")
    act = ImageAction(group)
    x, eta = torch.rand(4, 1, 8, 8), torch.randn(4, 1)
    expected = act(group.exp(eta), x)
    compiled = torch.compile(lambda e, x: act(group.exp(e), x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(eta, x), expected)
    single = torch.func.vmap(lambda e, x: act(group.exp(e), x[None])[0])
    torch.testing.assert_close(single(eta, x), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, x: a(torch.eye(3), x[0]), "images: expected shape"),
        (lambda a, x: a(torch.eye(3).expand(5, 3, 3), x), "one for each of 2 images"),
        (lambda a, x: a(torch.eye(3).expand(1, 3, 3), x), "one for each of 2 images"),
        (lambda a, x: a(torch.zeros(2, 6), x), r"matrices \(\.\.\., 3, 3\)"),
        (lambda a, x: a("rotation", x), "use group.exp"),
        (lambda a, x: a.orbit(torch.eye(3), x), r"leading shape \(S,\)"),
        (lambda a, x: a.orbit(torch.eye(3).expand(3, 4, 3, 3), x), r"or \(2, S\)"),
        (lambda a, x: ImageAction(a.group, fill=float("nan")), "fill: expected"),
        (lambda a, x: ImageAction(a.group, interpolation="nearest"), "interpolation: expected"),
        (lambda a, x: ImageAction(CyclicShift("x", 3))(torch.tensor(1), x), "divisible by 3"),
        (lambda a, x: ImageAction(Colour())(torch.zeros(3), x), "channel"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(ImageAction(Affine2()), torch.rand(2, 1, 4, 4))


@pytest.mark.parametrize("group", [Cyclic(4), Flip("x"), CyclicShift("x", 2), Affine2()])
def test_no_images_stay_no_images(group):
    act, none = ImageAction(group), torch.zeros(0, 1, 8, 8)
    element = group.exp(torch.zeros(0, group.dim))
    assert act(element, none).shape == (0, 1, 8, 8)
    assert act.orbit(group.exp(torch.zeros(3, group.dim)), none).shape == (0, 3, 1, 8, 8)


@pytest.mark.parametrize("fill", [0.0, 0.5, 1.0])
def test_colours_change_the_background_wherever_images_are_moved(fill):
    act = ImageAction(Product(Affine2("rotation", "shift_x"), Colour("value")), fill=fill)
    page = torch.full((1, 3, 8, 8), fill)
    element = act.group.exp(torch.tensor([[0.5, 0.7, -0.4]]))
    moved = act(element, page)
    torch.testing.assert_close(moved, page * math.exp(-0.4))
    torch.testing.assert_close(act.orbit(element, page)[0], moved)
    torch.testing.assert_close(act.undo(element, moved), page)
