import math

import numpy as np
import pytest
import torch

from symmetries.data.rendering import HALF_SIDE, HEART_RADIUS, SEMI_AXES, SpriteFactors, render

AREAS = {  # of the unit shapes, in pixels of a 64 x 64 image
    0: (2 * HALF_SIDE * 32) ** 2,
    1: math.pi * SEMI_AXES[0] * SEMI_AXES[1] * 32**2,
    2: 3.6619 * (HEART_RADIUS * 32) ** 2,  # of the heart curve, by quadrature
}


def factors(shape, scale=1.0, orientation=0.0, x=0.5, y=0.5):
    parts = np.broadcast_arrays(
        np.asarray(shape, np.int64), *map(np.float64, (scale, orientation, x, y))
    )
    return SpriteFactors(*(np.atleast_1d(part).copy() for part in parts))


def centre(image):
    """Mean of the white pixels' places: x to the right and y up, in pixels from the middle."""
    steps = torch.arange(64) - 31.5
    total = image.sum()
    return float((image.sum(0) * steps).sum() / total), -float((image.sum(1) * steps).sum() / total)


@pytest.mark.parametrize("shape", [0, 1, 2])
@pytest.mark.parametrize("scale", [0.5, 0.8, 1.0])
def test_area(shape, scale):
    fine = render(factors(shape, scale, 0.3), supersample=16).sum()
    assert float(fine) == pytest.approx(AREAS[shape] * scale**2, rel=2e-3)
    coarse = render(factors(shape, scale, 0.3)).sum()
    assert float(coarse) == pytest.approx(AREAS[shape] * scale**2, rel=0.08)


def test_binary_as_published_and_grey_when_supersampled():
    some = factors([0, 1, 2], 0.8, 1.0)
    assert set(render(some).unique().tolist()) == {0.0, 1.0}
    grey = render(some, supersample=4)
    assert torch.equal((grey * 16).round(), grey * 16)
    assert len(grey.unique()) > 8


def test_a_pixel_is_white_where_its_centre_is_inside():
    """A slow oracle: every pixel on its own, in plain Python."""
    some = factors([0, 1, 2], [0.7, 0.9, 1.0], [0.4, 2.0, 5.0], [0.1, 0.5, 0.9], [0.8, 0.3, 0.0])
    images = render(some)[:, 0]
    for n in range(3):
        cx, cy = ((v[n] - 0.5) * 31 / 32 for v in (some.x, some.y))
        cos, sin = math.cos(some.orientation[n]), math.sin(some.orientation[n])
        for row in range(64):
            for column in range(64):
                x, y = (column + 0.5) / 32 - 1 - cx, 1 - (row + 0.5) / 32 - cy
                u = (cos * x + sin * y) / some.scale[n]
                v = (cos * y - sin * x) / some.scale[n]
                if n == 0:
                    white = max(abs(u), abs(v)) <= HALF_SIDE
                elif n == 1:
                    white = (u / SEMI_AXES[0]) ** 2 + (v / SEMI_AXES[1]) ** 2 <= 1
                else:
                    u, v = u / HEART_RADIUS, v / HEART_RADIUS
                    white = (u * u + v * v - 1) ** 3 <= u * u * v**3
                assert bool(images[n, row, column]) == white


def test_positions_step_by_one_pixel_right_and_up():
    low, high = render(factors([0, 0], 0.5, 0.0, [0, 1], [0, 1]))[:, 0]
    assert centre(low) == (-15.5, -15.5)
    assert centre(high) == (15.5, 15.5)
    one, two = render(factors([0, 0], 0.5, 0.0, [3 / 31, 4 / 31], 0.0))[:, 0]
    assert torch.equal(two, one.roll(1, 1))
    one, two = render(factors([0, 0], 0.5, 0.0, 0.0, [3 / 31, 4 / 31]))[:, 0]
    assert torch.equal(two, one.roll(-1, 0))


def test_orientation_is_counter_clockwise():
    """A quarter turn of the heart moves its point from below to the right."""
    upright, turned = render(factors([2, 2], 1.0, [0.0, math.pi / 2]), supersample=8)[:, 0]
    torch.testing.assert_close(turned, upright.rot90(1), rtol=0, atol=0.02)
    assert upright[45:].sum(1).max() < upright[20].sum()  # the point is below
    quarter = render(factors(1, 1.0, math.pi / 4), supersample=4)[0, 0]
    assert quarter[:32, 32:].sum() > 2 * quarter[:32, :32].sum()  # long axis up to the right


def test_every_sprite_stays_inside():
    corner = factors([0, 1, 2] * 8, 1.0, np.repeat(np.arange(8), 3), 1.0, 1.0)
    images = render(corner)[:, 0]
    assert images[:, 0].sum() == 0
    assert images[:, :, -1].sum() == 0


def test_other_sizes_show_the_same():
    big, small = (render(factors(2, 1.0, 0.7, 0.3, 0.6), size, 8)[0, 0] for size in (64, 16))
    down = torch.nn.functional.avg_pool2d(big[None], 4)[0]
    torch.testing.assert_close(small, down, rtol=0, atol=0.06)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scale": 1.5}, "scale"),
        ({"scale": 0.0}, "scale"),
        ({"x": -0.1}, "x"),
        ({"y": 1.1}, "y"),
        ({"orientation": np.nan}, "orientation"),
        ({"shape": 3}, "shape"),
    ],
)
def test_bad_factors_are_named(change, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        factors(**{"shape": 0, **change})


def test_bad_arguments_are_named():
    one = np.ones(1)
    with pytest.raises(ValueError, match="scale: expected a numpy array of shape"):
        SpriteFactors(np.zeros(1, np.int64), np.ones(2), one, one, one)
    with pytest.raises(ValueError, match="shape: expected"):
        SpriteFactors([0], one, one, one, one)
    with pytest.raises(ValueError, match="at least one sprite"):
        SpriteFactors(np.zeros(0, np.int64), *(np.zeros(0) for _ in range(4)))
    with pytest.raises(ValueError, match="size: expected"):
        render(factors(0), size=0)
    with pytest.raises(ValueError, match="supersample: expected"):
        render(factors(0), supersample=1.5)
