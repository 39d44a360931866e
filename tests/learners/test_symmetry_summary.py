"""Widths and verdicts, against distributions whose answer is known."""

import math

import pytest
import torch

from symmetries.groups.affine import Affine2
from symmetries.groups.base import Parameter
from symmetries.groups.names import parse_group
from symmetries.learners.symmetry_model.coordinates import (
    content_centre,
    read_motions,
)
from symmetries.learners.symmetry_model.widths import (
    highest_density_width,
    small_sample_factor,
    verdict_of,
)

ANGLE = Parameter("rotation", "rad", math.pi, angle=True)
SHIFT = Parameter("shift_x", "half-image", 1.0)
SCALE = Parameter("scale_x", "log-factor", 1.0)


def rows(draw, n=4096, count=8):
    generator = torch.Generator().manual_seed(0)
    return torch.stack([draw(n, generator) for _ in range(count)])


def uniform(n, generator):
    return torch.rand(n, generator=generator)


def normal(n, generator):
    return torch.randn(n, generator=generator)


@pytest.mark.parametrize(
    ("draw", "period", "expected"),
    [
        (uniform, None, 0.9),
        (normal, None, 2 * 1.6449),
        (lambda n, g: 0.5 * uniform(n, g) + 2.0 * (uniform(n, g) > 0.5), None, 0.9),
        (lambda n, g: uniform(n, g), 1.0, 0.9),
        (lambda n, g: 0.2 * uniform(n, g) - 0.1, 1.0, 0.18),  # across the seam
        (lambda n, g: 0.2 * uniform(n, g) - 0.1 + 0.5 * (uniform(n, g) > 0.5), 1.0, 0.36),
    ],
)
def test_width_of_known_distributions(draw, period, expected):
    widths = highest_density_width(rows(draw), period)
    assert widths.shape == (8,)
    assert float(widths.mean()) == pytest.approx(expected, rel=0.06)


def test_width_does_not_depend_on_place_or_order_and_scales():
    samples = rows(normal)
    width = highest_density_width(samples)
    torch.testing.assert_close(highest_density_width(3 * samples.flip(-1) + 7), 3 * width)
    turned = highest_density_width(samples / 10 + 0.9, 1.0)
    torch.testing.assert_close(turned, width / 10, rtol=0.05, atol=0)


def test_one_value_has_no_width():
    assert float(highest_density_width(torch.ones(5, 100)).abs().max()) == 0.0


def test_small_samples_are_corrected():
    samples = rows(normal, 32, 500)
    width = small_sample_factor(32) * float(highest_density_width(samples).mean())
    assert width == pytest.approx(2 * 1.6449, rel=0.05)


@pytest.mark.parametrize(
    ("parameter", "width", "noise", "verdict"),
    [
        (ANGLE, math.radians(4.9), 0.0, "absent"),
        (ANGLE, math.radians(5.1), 0.0, "partial"),
        (ANGLE, math.radians(60), math.radians(31), "absent"),
        (ANGLE, math.radians(60), math.radians(29), "partial"),
        (ANGLE, math.radians(0.8 * 324 + 1), math.radians(5), "full"),
        (ANGLE, math.radians(0.8 * 324 - 1), math.radians(5), "partial"),
        (ANGLE, math.radians(0.8 * 324 - 1), math.radians(140), "absent"),
        (ANGLE, math.radians(300), math.radians(160), "full"),  # twice 160 do not fit
        (ANGLE, math.radians(300), math.radians(270), "absent"),  # f does not know the angle
        (SHIFT, 0.49 * 2 / 28, 0.0, "absent"),
        (SHIFT, 0.51 * 2 / 28, 0.0, "partial"),
        (SHIFT, 5.0, 0.0, "partial"),
        (SHIFT, 1.5, 0.76, "absent"),
        (SCALE, math.log(1.029), 0.0, "absent"),
        (SCALE, math.log(1.031), 0.0, "partial"),
    ],
)
def test_thresholds_of_the_verdict(parameter, width, noise, verdict):
    assert verdict_of(parameter, width, noise, side=28) == verdict


@pytest.mark.parametrize("name", ["rotation,translation,scale", "affine", "rotation,zoom", "zoom"])
def test_logarithm_in_the_groups_own_parameters(name):
    group = Affine2(*name.split(","))
    eta = 0.2 * torch.randn(20, group.dim, dtype=torch.float64)
    torch.testing.assert_close(group.named_log(group.exp(eta)), eta)


def test_logarithm_in_a_product():
    group = parse_group("rotation,scale,hue")
    eta = 0.2 * torch.randn(20, group.dim, dtype=torch.float64)
    torch.testing.assert_close(group.named_log(group.exp(eta)), eta)


def motions(group, count, generator):
    """Rigid motions (200, count, 3, 3) to uniform places in [-0.5, 0.5] and angles."""
    place = torch.rand(200, count, 2, generator=generator) - 0.5
    angle = 2 * math.pi * torch.rand(200, count, generator=generator)
    turn = torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), -1)
    element = torch.eye(3).repeat(200, count, 1, 1)
    element[..., :2, :2], element[..., :2, 2] = turn.reshape(200, count, 2, 2), place
    return element


def test_planted_positions_keep_their_width_beside_full_rotation():
    # A perfect model: pictures at uniform places, turned at random. In the logarithm the shifts of
    # such motions spread over 1.6 times the planted width.
    group, generator = Affine2("rotation", "translation"), torch.Generator().manual_seed(0)
    start, new = motions(group, 1, generator), motions(group, 1000, generator)
    relative = group.compose(new, group.inverse(start).expand_as(new))
    found = read_motions(group, relative)
    widths = highest_density_width(found[..., 0])
    assert float(widths.mean()) == pytest.approx(0.9, rel=0.05)
    plain = group.named_log(relative)
    assert float(highest_density_width(plain[..., 0]).mean()) > 1.3
    torch.testing.assert_close(found[..., 2], plain[..., 2])


@pytest.mark.parametrize("name", ["rotation,translation", "affine", "hue,affine"])
def test_what_turns_about_a_point_does_not_shift(name):
    group = parse_group(name)
    eta = torch.zeros(4, 50, group.dim)
    eta[..., group.names.index("rotation")] = torch.rand(4, 50) - 0.5
    there = torch.zeros(4, 1, group.dim)
    there[..., group.names.index("shift_x")] = torch.tensor([-0.6, 0.0, 0.3, 0.7])[:, None]
    elements = (group.exp(sign * there.expand_as(eta)) for sign in (1, -1))
    about = group.compose(next(elements), group.exp(eta), next(elements))
    found = read_motions(group, about)
    columns = [group.names.index(n) for n in ("shift_x", "shift_y")]
    assert float(found[..., columns].abs().max()) < 0.01
    torch.testing.assert_close(found[..., group.names.index("rotation")], eta.sum(-1))


def test_shifts_alone_are_read_as_they_are():
    group = Affine2("translation")
    eta = torch.randn(3, 40, 2)
    torch.testing.assert_close(read_motions(group, group.exp(eta)), eta)


def test_content_that_only_turns_about_a_point_does_not_shift_and_other_content_does():
    group = Affine2("rotation", "translation")
    generator = torch.Generator().manual_seed(0)
    eta = torch.zeros(2, 400, 3)
    eta[..., 2] = math.pi * (2 * torch.rand(2, 400, generator=generator) - 1)
    turns = group.exp(eta)
    content = torch.tensor([[0.5, 0.0], [0.0, -0.3]])  # off the middle, about which all turns
    assert float(read_motions(group, turns, content)[..., :2].abs().max()) < 0.01
    # The same beside shifts: only where the content goes says how far it moves.
    eta[..., :2] = 0.6 * torch.rand(2, 400, 2, generator=generator)
    shifts = group.exp(torch.cat((eta[..., :2], torch.zeros(2, 400, 1)), -1))
    moved = group.compose(shifts, turns)
    points = torch.cat((content, torch.ones(2, 1)), -1)[:, None, :, None]
    places = (moved @ points)[..., :2, 0]
    found = read_motions(group, moved, content)[..., :2]
    torch.testing.assert_close(found, places - content[:, None])


def test_content_centre_is_where_the_picture_differs_from_its_background():
    images = torch.full((1, 3, 6, 8), 0.25)
    images[..., 4, 1] = 1.0
    found = content_centre(images, fill=0.25)
    torch.testing.assert_close(found, torch.tensor([[-5 / 8, -3 / 8]]))
