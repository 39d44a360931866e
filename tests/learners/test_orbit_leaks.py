"""Views do not show, by anything but their content, how pictures were stretched or turned."""

import math

import pytest
import torch
import torch.nn.functional as F
from benchmarks.planted.planting import matrices, plant

from symmetries.actions import ImageAction
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitConfig, OrbitPosterior, reading
from symmetries.learners.orbit_posterior.calibrating import read_sets
from symmetries.learners.orbit_posterior.canonical import (
    eigen,
    matrix_of,
    moments,
    singular,
    turned,
    turns,
)
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.crossing import with_disagreement
from symmetries.learners.orbit_posterior.expected_widths import expected_widths, smallest_intervals
from symmetries.learners.orbit_posterior.heads import Histograms
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.numbers import place_numbers
from symmetries.learners.orbit_posterior.reading import Densities, smallest_set
from symmetries.learners.orbit_posterior.symmetric import contents_alike, contents_repeat
from symmetries.learners.orbit_posterior.verdicts import Headline


def prepared(content, size, count, planted, group, **views):
    """What was planted, a model that knows these pictures, and the pictures as it sees them."""
    found = plant(content, size, count, planted, seed=3)
    config = OrbitConfig.resolve("quick")
    config = config.replace(views=config.views.replace(**views))
    action = ImageAction(parse_group(group), fill=0.0)
    model = OrbitPosterior(action, tuple(found.images.shape[1:]), config)
    return found, model, model.prepared(found.images)


def seen(model, images, u):
    return model.view(images, u, place_numbers(5, torch.arange(len(images))))


def explained(pictures, values):
    """Share of the variance of values that squares of pictures' patterns tell of other pictures."""
    half, flat = len(pictures) // 2, pictures.flatten(1)
    away = flat - flat[:half].mean(0)
    _, scales, patterns = torch.linalg.svd(away[:half], full_matrices=False)
    z = away @ patterns[:30].T / scales[:30] * half**0.5
    every = [torch.ones(len(z), 1), z, *(z[:, i : i + 1] * z[:, i:] for i in range(12))]
    x = torch.cat(every, 1)
    gram = x[:half].T @ x[:half] + 3 * torch.eye(x.shape[1])
    told = x[half:] @ torch.linalg.solve(gram, x[:half].T @ values[:half])
    rest = values[half:]
    return float(1 - (told - rest).square().sum() / (rest - rest.mean()).square().sum())


def test_views_of_sheared_content_do_not_show_how_far_it_was_sheared():
    found, model, small = prepared("drops", 24, 4000, {"shear": 0.2}, "affine")
    # The turn of a canonical picture follows from the shear: it is undone, so as not to show it.
    matrix = matrices(found.planted | found.natural, len(small))[:, :2, :2].double()
    xx, yy, xy = moments(model.frame.content(small), model.poses.pixel)[1].double().unbind(-1)
    second = torch.stack((xx, xy, xy, yy), -1).unflatten(-1, (2, 2))
    back = torch.linalg.inv(matrix)
    own = (back @ second @ back.mT).mean(0)
    turn = power(second, -0.5) @ matrix @ power(own, 0.5)
    u = model.chart.identity(len(small))
    u[:, 0] = -torch.atan2(turn[:, 1, 0] - turn[:, 0, 1], turn[:, 0, 0] + turn[:, 1, 1]).float()
    asked, _, coarse = seen(model, small, u)
    shear = asked[:, model.chart.names.index("shear")]
    assert explained(coarse, shear) < 0.05
    assert explained(coarse, (shear - shear.mean()).square()) < 0.05


def power(matrices, exponent):
    values, vectors = torch.linalg.eigh(matrices)
    return vectors @ torch.diag_embed(values**exponent) @ vectors.mT


def test_random_stretches_have_axes_of_their_own():
    """Along those of the stretch that is asked for they would show its direction."""
    _, model, small = prepared("drops", 24, 1500, {"shear": 0.3}, "affine", noise=0.0)
    asked, picture, _ = seen(model, small, model.chart.identity(len(small)))
    names = model.chart.names
    own = {name: asked[:, names.index(name)] for name in ("scale_x", "scale_y", "shear")}
    angle = eigen(*matrix_of(own))[0]
    xx, yy, xy = moments(picture)[1].unbind(-1)
    shape = torch.complex((xx - yy) / (xx + yy), 2 * xy / (xx + yy))
    shape = shape - shape.mean()
    axes = torch.polar(torch.ones_like(angle), 4 * angle)
    along = (shape.square() * axes.conj()).mean().real / shape.abs().square().mean()
    assert abs(float(along)) < 0.15


def test_singular_values_and_turns_make_the_matrix_again():
    matrix = torch.randn(50, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    u, factors, v = singular(matrix)
    torch.testing.assert_close(u @ torch.diag_embed(factors) @ v, matrix)
    torch.testing.assert_close(factors, torch.linalg.svdvals(matrix))
    torch.testing.assert_close(u @ u.mT, torch.eye(2, dtype=u.dtype).expand(50, 2, 2))


@pytest.mark.parametrize(("grain", "least", "most"), [(0.0, 0.06, 1.0), (0.1, -1.0, 0.03)])
def test_grain_hides_the_pixels_on_which_small_content_turned(grain, least, most):
    turns = {"rotation": 0.611, "zoom": 0.06}
    found, model, small = prepared("drops", 14, 8000, turns, "similarity", grain=grain)
    u = model.chart.identity(len(small))
    u[:, model.chart.names.index("rotation")] = -found.planted["rotation"]
    assert least < explained(seen(model, small, u)[1], found.planted["rotation"]) < most


def test_densities_of_computed_lines_begin_at_their_law():
    chart = Chart(parse_group("rotation,translation"), 72)
    head = Histograms(chart.coordinates, 8)
    generator = torch.Generator().manual_seed(0)
    u = torch.stack([0.05 + 0.1 * torch.randn(500, generator=generator) for _ in range(3)], -1)
    head.begin_at(u)
    context = torch.randn(500, 8, generator=generator)
    assert float(head.log_ratio(u, context, wanted=[0]).abs().max()) < 1e-5  # a turn is drawn
    sampled = head.sample(context[:1], 4000, place_numbers(0, torch.zeros(1).long()))[0, :, 1]
    assert float(sampled.median()) == pytest.approx(0.05, abs=0.02)
    assert float(sampled.quantile(0.84) - sampled.quantile(0.16)) == pytest.approx(0.2, rel=0.25)


def test_turns_beside_hues_are_read_from_a_picture_that_no_hue_changes():
    _, model, small = prepared("coloured letters", 20, 64, {}, "hue,rotation", noise=0.0, grain=0.0)
    u = model.chart.identity(len(small))
    network = model.fits[0]
    assert isinstance(network, PoseNetwork)
    before = network._pictures(seen(model, small, u)[1:])
    u[:, model.chart.names.index("hue")] = 2.0
    after = network._pictures(seen(model, small, u)[1:])
    assert [part.shape[1] for part in before] == [1, 3]
    torch.testing.assert_close(before[0], after[0], atol=0.02, rtol=0)
    assert float((before[1] - after[1]).abs().max()) > 0.2
    assert set(network.parts) == {"turns", "lines"}
    for group in ("hue", "hue,value"):
        assert not OrbitPosterior(group, (3, 16, 16), "quick").fits[0].strongest


def test_contents_repeat_in_other_turns_and_hues_at_once():
    planted = {"hue": math.pi, "rotation": math.pi}
    _, model, small = prepared("coloured letters", 20, 300, planted, "hue,rotation")
    assert contents_repeat(small, model.chart, model.frame)
    noise = F.avg_pool2d(torch.rand(300, 3, 40, 40, generator=torch.Generator().manual_seed(0)), 2)
    assert not contents_repeat(noise, model.chart, model.frame)


@pytest.mark.parametrize(("content", "alike"), [("hearts", True), ("letters", False)])
def test_one_content_in_other_poses_is_told_from_several(content, alike):
    planted = {"rotation": math.pi, "scale_x": 0.2}
    _, model, small = prepared(content, 24, 300, planted, "affine")
    assert contents_alike(small, model.chart, model.frame) == alike
    assert contents_repeat(small, model.chart, model.frame)


def test_an_interval_reaches_down_as_far_as_two_fits_disagree():
    chart = Chart(parse_group("affine"), 72)
    scale = chart.coordinates[chart.names.index("scale_x")]
    places = torch.arange(60)

    def densities(centres):
        mass = torch.exp(-0.5 * ((places - centres[:, None]) / 4).square())
        return Densities(scale, mass / mass.sum(1, keepdim=True))

    generator = torch.Generator().manual_seed(0)
    middle = torch.full((400,), 30.0)
    errors = 2 * torch.randn(2, 400, generator=generator)
    every = torch.ones(400, dtype=torch.bool)
    cell = scale.span / 60
    line = Headline(12 * cell, 11.5 * cell, 12.5 * cell, every, 1.0)
    agreed = with_disagreement(line, densities(middle), densities(middle), every)
    assert agreed == line
    apart = with_disagreement(line, *(densities(middle + error) for error in errors), every)
    assert apart.low == pytest.approx(cell * (12**2 - (3.29 * 2) ** 2) ** 0.5, rel=0.1)
    assert (apart.width, apart.high) == (line.width, line.high)


def test_shapes_are_calibrated_on_pictures_that_are_not_turned(monkeypatch):
    """A density that is blurred by a third of the law has the law's width in the data's frame."""
    planted = {"shear": 0.3}
    _, model, small = prepared("hearts", 24, 600, planted, "affine")
    own = model.view.pose(model.frame.content(small))[1]
    law = torch.stack([own[name] for name in own], -1)
    generator = torch.Generator().manual_seed(0)

    def blurred(model, network, x, count, seed, u=None, places=None):
        """The law of all pictures in the frame of each, with errors along every coordinate."""
        turn = torch.zeros(len(x), count) if u is None else u[:, :1].expand(-1, count)
        found = torch.zeros(len(x), count, len(model.chart.names))
        rows = torch.randint(len(law), (len(x), count), generator=generator)
        there = turned(dict(zip(own, law[rows].unbind(-1), strict=True)), turns(turn))
        for j, name in enumerate(model.chart.names):
            if name in there:
                found[..., j] = there[name]
        found += 0.03 * torch.randn(found.shape, generator=generator)
        found[..., model.chart.names.index("rotation")] += turn
        return model.view.moves(found, x, u)

    monkeypatch.setattr(reading, "sample_coordinates", blurred)
    _, sets = read_sets(model, model.fits[0], small[:200], 0)
    widths = {c.name: s.width() for c, s in zip(model.chart.coordinates, sets, strict=True)}
    for name, true in (("scale_x", 0.18), ("scale_y", 0.18), ("shear", 0.54)):
        assert widths[name] == pytest.approx(true, rel=0.1), name


def law(chart, halves):
    """Uniform densities of 60 cells within these halves, at one cell without."""
    means = []
    for c in chart.coordinates:
        middle = (torch.arange(60) + 0.5) / 60 * c.span - c.reach
        mean = (middle.abs() < max(halves.get(c.name, 0.0), 0.51 * c.span / 60)).float()
        means.append(mean / mean.sum())
    return means


def test_expected_widths_of_turned_stretches_are_those_of_drawn_moves():
    chart = Chart(parse_group("affine"), 72, {"scale_x": 0.5, "scale_y": 0.5, "shear": 0.5})
    means = law(chart, {"scale_x": 0.2, "scale_y": 0.02})
    widths = dict(zip(chart.names, expected_widths(chart, means, 0.4, 0), strict=True))
    alone = dict(zip(chart.names, expected_widths(chart, means, 0.01, 0), strict=True))
    own = float(smallest_set(means[chart.names.index("scale_x")])) / 60
    assert alone["scale_x"] == pytest.approx(own, rel=0.1)
    assert widths["scale_x"] > 1.3 * alone["scale_x"]
    # Turned by up to 72 degrees, a stretch along x is one along y, and a shear, as well.
    assert widths["scale_y"] > 0.7 * widths["scale_x"]
    shears = Chart(parse_group("scale"), 72, {"scale_x": 0.5, "scale_y": 0.5})
    plain = expected_widths(shears, law(shears, {"scale_x": 0.2}), 0.4, 0)
    assert plain[1] == pytest.approx(0.9 * 2 * 0.4 * 0.5, rel=0.1)  # nothing else turns into it


def test_expected_widths_of_what_commutes_with_stretches_add_up():
    chart = Chart(parse_group("hue,affine"), 72)
    widths = expected_widths(chart, law(chart, {}), 0.4, 0)
    for name in ("hue", "shift_x", "shift_y"):
        c = chart.coordinates[chart.names.index(name)]
        assert widths[chart.names.index(name)] == pytest.approx(0.9 * 0.4 * c.span, rel=0.1)


def test_shortest_intervals_close_up_around_a_circle():
    turn = Chart(parse_group("rotation"), 72).coordinates[0]
    values = torch.linspace(math.pi - 0.5, math.pi + 0.5, 1001)
    values = torch.remainder(values + math.pi, 2 * math.pi) - math.pi
    assert float(smallest_intervals(values[None], turn)) == pytest.approx(0.9, abs=0.01)
