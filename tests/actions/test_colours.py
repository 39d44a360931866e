"""Colours against Python's colorsys, and gradients where hue and saturation are undefined."""

import colorsys
import math

import pytest
import torch

from symmetries.actions.colours import ColourAction, clip_straight_through, hsv_to_rgb, rgb_to_hsv
from symmetries.groups import Colour
from symmetries.testing import assert_action

ACT = ColourAction()
# Colours where something is undefined or tied: black, grey, white, primaries, and nearly so.
SPECIAL = [
    (0, 0, 0),
    (0.5, 0.5, 0.5),
    (1, 1, 1),
    (1, 0, 0),
    (0, 1, 0),
    (0, 0, 1),
    (1, 1, 0),
    (0, 1, 1),
    (1, 0, 1),
    (0.5, 0.5, 0.2),
    (1e-30, 0, 0),
    (1e-42, 0, 1e-42),
    (0.5, 0.5, 0.5 + 1e-7),
    (0.5 - 1e-7, 0.5, 0.5),
]


def pixels(colours, dtype=torch.float64):
    """Colours as one image of one row."""
    return torch.tensor(colours, dtype=dtype).T[None, :, None]


def random_images(n=4, low=0.0, high=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return low + (high - low) * torch.rand(n, 3, 5, 4, generator=generator, dtype=dtype)


def oracle(element, images):
    """Equation 25, pixel by pixel, with colorsys."""
    turn, stretch, gain = element
    out = torch.empty_like(images)
    for n, _, i, j in torch.cartesian_prod(*(torch.arange(s) for s in images.shape)).tolist():
        h, s, v = colorsys.rgb_to_hsv(*images[n, :, i, j].tolist())
        h = (h + turn / (2 * math.pi)) % 1
        s, v = min(s * math.exp(stretch), 1), min(v * math.exp(gain), 1)
        out[n, :, i, j] = torch.tensor(colorsys.hsv_to_rgb(h, s, v), dtype=images.dtype)
    return out


@pytest.mark.parametrize(
    "element", [(0, 0, 0), (1.0, 0, 0), (-2.5, 0, 0), (9.0, 0.3, -0.2), (0.5, 3, 3), (0, -4, 0.5)]
)
@pytest.mark.parametrize("images", [random_images(2), pixels(SPECIAL)], ids=["random", "special"])
def test_action_is_that_of_colorsys(element, images):
    moved = ACT(torch.tensor(element, dtype=torch.float64), images)
    torch.testing.assert_close(moved, oracle(element, images), atol=1e-13, rtol=0)


def test_hsv_is_that_of_colorsys():
    images = torch.cat((random_images(2).reshape(1, 3, 1, -1), pixels(SPECIAL[:10])), -1)
    hsv = rgb_to_hsv(images)[0, :, 0].T.tolist()
    for (h, s, v), colour in zip(hsv, images[0, :, 0].T.tolist(), strict=True):
        expected = colorsys.rgb_to_hsv(*colour)
        assert -math.pi <= h < math.pi
        assert h / (2 * math.pi) % 1 == pytest.approx(expected[0], abs=1e-14)
        assert (s, v) == pytest.approx(expected[1:], abs=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_there_and_back(dtype):
    images = torch.cat(
        (random_images(dtype=dtype).reshape(1, 3, 1, -1), pixels(SPECIAL, dtype)), -1
    )
    back = hsv_to_rgb(rgb_to_hsv(images))
    torch.testing.assert_close(back, images, atol=8 * torch.finfo(dtype).eps, rtol=0)


def test_the_law_holds_where_nothing_is_clipped():
    # Saturation and value stay below 0.5 e^0.6 < 1.
    hsv = random_images(6) * torch.tensor([6.0, 0.5, 0.5]).reshape(1, 3, 1, 1)
    generator = torch.Generator().manual_seed(1)
    etas = 2 * torch.rand(6, 3, generator=generator, dtype=torch.float64) - 1
    etas = etas * torch.tensor([9.0, 0.3, 0.3])
    assert_action(ACT, etas, hsv_to_rgb(hsv), tolerance=1e-13)


def test_the_law_fails_where_something_is_clipped():
    etas = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], dtype=torch.float64)
    with pytest.raises(AssertionError, match="compatibility"):
        assert_action(ACT, etas, random_images(2))


def test_results_stay_in_range():
    images = random_images(dtype=torch.float32)
    for element in ([0.3, 5.0, 5.0], [2.0, -5.0, 5.0], [-3.0, 5.0, -5.0]):
        moved = ACT(torch.tensor(element), images)
        assert moved.min() >= 0
        assert moved.max() <= 1


def test_positive_hue_goes_from_red_over_yellow_to_green():
    red, sixth = pixels([(1, 0, 0)]), torch.tensor([math.pi / 3, 0, 0])
    yellow = ACT(sixth, red)
    torch.testing.assert_close(yellow, pixels([(1, 1, 0)]), atol=1e-7, rtol=0)
    torch.testing.assert_close(ACT(sixth, yellow), pixels([(0, 1, 0)]), atol=1e-6, rtol=0)


def test_one_element_for_all_or_one_each():
    images = random_images(3)
    elements = torch.tensor([[0.1, 0.2, -0.3], [2.0, 0.0, 0.0], [0.0, -1.0, 0.0]]).double()
    each = ACT(elements, images)
    for i in range(3):
        torch.testing.assert_close(each[i : i + 1], ACT(elements[i], images[i : i + 1]))
    torch.testing.assert_close(ACT(elements[0], images)[0], each[0])


def test_part_of_the_group():
    group = Colour("value")
    images = random_images(2, high=0.5)
    brighter = ColourAction(group)(group.exp(torch.tensor([0.5]).double()), images)
    torch.testing.assert_close(brighter, images * math.exp(0.5))


@pytest.mark.parametrize("element", [(0.4, 0.2, -0.1), (0.0, 0.0, 0.0), (2.0, -0.5, 0.3)])
def test_derivatives_where_nothing_is_clipped(element):
    # One pixel in each sextant of hue, away from ties.
    hues = torch.arange(6).double() + 0.3
    hsv = torch.stack((hues * math.pi / 3, 0.2 + 0.05 * hues, 0.6 - 0.05 * hues))[None, :, None]
    images = hsv_to_rgb(hsv).requires_grad_()
    element = torch.tensor(element, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ACT, (element, images), atol=1e-7)
    assert torch.autograd.gradgradcheck(ACT, (element, images), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("element", [(0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (-2.0, -3.0, 2.0)])
def test_no_gradient_is_nan_or_infinite(dtype, element):
    images = pixels(SPECIAL, dtype).requires_grad_()
    element = torch.tensor(element, dtype=dtype, requires_grad=True)
    weights = torch.linspace(-1, 2, images.numel(), dtype=dtype).reshape(images.shape)
    (ACT(element, images) * weights).sum().backward()
    assert images.grad.isfinite().all()
    assert element.grad.isfinite().all()
    assert element.grad.all()


def test_no_second_derivative_is_nan_or_infinite():
    images = pixels(SPECIAL, torch.float32).requires_grad_()
    element = torch.tensor([0.5, 0.2, -0.2], requires_grad=True)
    loss = (ACT(element, images) ** 2).sum()
    first = torch.autograd.grad(loss, (element, images), create_graph=True)
    second = torch.autograd.grad(sum((g**2).sum() for g in first), (element, images))
    assert all(g.isfinite().all() for g in second)


def test_gradients_pass_through_the_clip():
    images = pixels([(0.9, 0.5, 0.1)])
    element = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    moved = ACT(element, images)
    assert moved.max() == 1.0  # clipped: 0.9 e > 1
    moved.max().backward()
    assert element.grad[2].item() == pytest.approx(0.9 * math.e)  # as if it were not


def test_clip_is_exact():
    x = torch.linspace(-3, 3, 1001)
    assert clip_straight_through(x).equal(x.clamp(0, 1))


def test_vmap_compile_and_meta():
    images, elements = random_images(3), torch.rand(3, 3, dtype=torch.float64)
    expected = ACT(elements, images)
    single = torch.func.vmap(lambda e, x: ACT(e, x[None])[0])(elements, images)
    torch.testing.assert_close(single, expected)
    compiled = torch.compile(ACT.__call__, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, images), expected)
    assert ACT(elements.to("meta"), images.to("meta")).shape == images.shape


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.rand(2, 1, 4, 4), r"expected shape \(N, 3, H, W\).*grey images have no colour"),
        (torch.rand(3, 4, 4), r"expected shape \(N, C, H, W\)"),
        (torch.ones(2, 3, 4, 4, dtype=torch.uint8), "floating-point"),
    ],
)
def test_bad_images(images, message):
    for function in (rgb_to_hsv, hsv_to_rgb, lambda x: ACT(torch.zeros(3), x)):
        with pytest.raises(ValueError, match=message):
            function(images)


@pytest.mark.parametrize("shape", [(4,), (3, 3), (1, 3), (2, 1, 3), ()])
def test_bad_elements(shape):
    with pytest.raises(ValueError, match=r"element: expected shape \(3,\) or \(2, 3\), got"):
        ACT(torch.zeros(shape), random_images(2))
