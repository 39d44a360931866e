"""Canonical pictures do not show shifts and stretches, and views not how far they were moved."""

import math

import pytest
import torch
import torch.nn.functional as F
from benchmarks.planted.planting import plant

from symmetries.actions import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.blurring import blur_directed
from symmetries.learners.orbit_posterior.canonical import (
    Canonical,
    canonical_level,
    reach_of_content,
)
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.frames import Frame, find_frame
from symmetries.learners.orbit_posterior.numbers import picture_numbers
from symmetries.learners.orbit_posterior.views import View

AFFINE = Affine2("rotation", "shift_x", "shift_y", "scale_x", "scale_y", "shear")


def letters(size, planted, count=24, content="letters"):
    return plant(content, size, count, planted, seed=5).images


@pytest.mark.parametrize(
    ("level", "planted"),
    [
        ("place", {"shift_x": 0.2, "shift_y": 0.2}),
        ("size", {"shift_x": 0.1, "shift_y": 0.1, "zoom": 0.25}),
    ],
)
def test_canonical_pictures_do_not_show_places_and_sizes(level, planted):
    look = Canonical((1, 48, 48), 0, level)
    moved, still = letters(48, planted), letters(48, {})
    (one, first), (other, second) = look(moved), look(still)
    apart = (one - other).square().mean((1, 2, 3)) / other.var((1, 2, 3))
    before = (moved - still).square().mean((1, 2, 3)) / still.var((1, 2, 3))
    assert float(apart.median()) < 0.05 < 0.4 < float(before.median())
    assert float((first - second).abs().max()) > 0.1  # what was taken away is in the numbers


def test_canonical_pictures_of_stretched_content_differ_by_a_turn_only():
    look = Canonical((1, 48, 48), 0, "shape")
    stretched = look(letters(48, {"scale_x": 0.25, "scale_y": 0.25, "shear": 0.2}))[0]
    still = look(letters(48, {}))[0]
    turns = torch.linspace(-0.6, 0.6, 61)
    best = torch.full((len(still),), math.inf)
    for turn in turns:
        c, s = math.cos(turn), math.sin(turn)
        grid = F.affine_grid(
            torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]]).expand(len(still), 2, 3),
            still.shape,
            align_corners=False,
        )
        gap = (F.grid_sample(still, grid, align_corners=False) - stretched).square().mean((1, 2, 3))
        best = torch.minimum(best, gap / still.var((1, 2, 3)))
    assert float(best.median()) < 0.1


@pytest.mark.parametrize(
    ("names", "plain", "level"),
    [
        (("rotation",), True, "place"),
        (("rotation",), False, None),
        (("rotation", "shift_x", "shift_y"), True, "place"),
        (("rotation", "shift_x", "shift_y"), False, None),
        (("rotation", "zoom"), True, "size"),
        (("shear",), True, "shape"),
    ],
)
def test_what_is_taken_away_is_what_is_asked_for(names, plain, level):
    assert canonical_level(Chart(Affine2(*names), 72), plain) == level


def test_directed_blur_has_the_covariance_that_is_missing():
    x = torch.zeros(1, 1, 41, 41)
    x[0, 0, 20, 20] = 1
    stretched = torch.tensor([[[1.0, 0.5], [0.5, 1.0]]])
    found = blur_directed(x, torch.tensor([1.0]), 2.0, 2.0, stretched)[0, 0]
    y, x = torch.meshgrid(20 - torch.arange(41.0), torch.arange(41.0) - 20, indexing="ij")
    moments = [float((found * a * b).sum()) for a, b in ((x, x), (x, y), (y, y))]
    assert moments == pytest.approx([1 + 2 * (2 - 1), -2 * 0.5, 1 + 2 * (2 - 1)], abs=1e-3)


@pytest.mark.parametrize("stretch", [{"scale_x": 0.3}, {"scale_y": -0.3}, {"shear": 0.25}])
def test_views_are_as_sharp_whatever_the_stretch(stretch):
    """A point is as wide in all directions, and as wide as without a stretch."""
    chart = Chart(AFFINE, 72, {"scale_x": 0.3, "scale_y": 0.3, "shear": 0.3})
    config = Views(noise=0.0, least=0.5, most=0.5, jitter=0.0)
    x = torch.zeros(1, 1, 33, 33)
    x[0, 0, 16, 16] = 1.0
    action = ImageAction(AFFINE)
    view = View(action, chart, (1, 33, 33), Frame(True, 0.0, 0.6), config, 0.0, 1.0)

    def shape(u):
        shown = view(x, u, picture_numbers(0, x))[0, 0]
        weight = shown / shown.sum()
        side = shown.shape[-1]
        place = torch.arange(side) - (side - 1) / 2
        rows, columns = torch.meshgrid(place, place, indexing="ij")
        mean = [(weight * axis).sum() for axis in (columns, rows)]
        a, b = columns - mean[0], rows - mean[1]
        return torch.stack([(weight * p * q).sum() for p, q in ((a, a), (b, b), (a, b))])

    still, u = shape(chart.identity(1)), chart.identity(1)
    for name, value in stretch.items():
        u[:, chart.names.index(name)] = value
    assert shape(u).tolist() == pytest.approx(still.tolist(), abs=0.15)


def test_moves_reach_as_far_as_like_contents_differ_and_not_much_further():
    chart = Chart(Affine2("zoom", "shift_x", "shift_y"), 72)
    planted = {"zoom": 0.15, "shift_x": 0.15, "shift_y": 0.15}
    first, most = reach_of_content(letters(28, planted, 400, "hearts"), chart)
    for name in ("shift_x", "shift_y"):
        assert 0.28 < first[name] <= most[name] < 0.45
    assert 0.2 <= first["zoom"] <= most["zoom"]
    assert 0.4 < most["zoom"] < 0.8  # planted and natural: 0.5


def test_noisy_paper_is_a_background_and_a_texture_is_none():
    generator = torch.Generator().manual_seed(0)
    paper = 0.95 - 0.8 * letters(24, {}, 200)
    paper = (paper + 0.04 * torch.randn(paper.shape, generator=generator)).clamp(0, 1)
    frame = find_frame(paper, 0.95)
    assert frame.plain
    assert frame.radius < 0.8
    texture = plant("random fields", 24, 64, {}, seed=1).images
    assert not find_frame(texture, float(texture.median())).plain


def test_a_fit_keeps_the_reach_that_was_asked_for():
    model = OrbitPosterior("translation", (1, 16, 16), "quick", reach={"shift_x": 0.6})
    config = model.config
    model.config = config.replace(training=config.training.replace(steps=2, rounds=1))
    model.fit(letters(16, {"shift_x": 0.1, "shift_y": 0.1}, 80), device="cpu", progress=False)
    assert model.chart.reach["shift_x"] == 0.6
    assert 0.2 <= model.chart.reach["shift_y"] < 0.45
