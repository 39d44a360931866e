"""Poses that can be computed: canonical pictures do not show them, and moves follow from them."""

import math

import pytest
import torch
import torch.nn.functional as F
from benchmarks.planted.planting import plant

from symmetries.actions import ImageAction
from symmetries.groups import parse_group
from symmetries.groups.affine import Affine2
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.blurring import blur_directed
from symmetries.learners.orbit_posterior.canonical import (
    canonical,
    computed,
    find_poses,
    matrix_of,
    moments,
    stretches,
    symmetric_exp,
)
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.config import Views
from symmetries.learners.orbit_posterior.frames import Frame, find_frame
from symmetries.learners.orbit_posterior.numbers import picture_numbers, place_numbers
from symmetries.learners.orbit_posterior.pose_views import PoseView, own_variance
from symmetries.learners.orbit_posterior.views import View

AFFINE = Affine2("rotation", "shift_x", "shift_y", "scale_x", "scale_y", "shear")


def letters(size, planted, count=24, content="letters"):
    return plant(content, size, count, planted, seed=5).images


def look(images, group):
    chart = Chart(parse_group(group), 72)
    return canonical(images, chart, find_poses(letters(48, {}), chart))


@pytest.mark.parametrize(
    ("group", "planted"),
    [
        ("translation", {"shift_x": 0.2, "shift_y": 0.2}),
        ("similarity", {"shift_x": 0.1, "shift_y": 0.1, "zoom": 0.25}),
        ("scale", {"scale_x": 0.2, "scale_y": 0.2}),
        ("shear", {"shear": 0.35}),
    ],
)
def test_canonical_pictures_do_not_show_what_is_computed(group, planted):
    moved, still = letters(48, planted), letters(48, {})
    one, other = look(moved, group), look(still, group)
    apart = (one - other).square().mean((1, 2, 3)) / other.var((1, 2, 3))
    before = (moved - still).square().mean((1, 2, 3)) / still.var((1, 2, 3))
    assert float(apart.median()) < 0.06 < 0.15 < float(before.median())


def test_canonical_pictures_of_stretched_content_differ_by_a_turn_only():
    stretched = look(letters(48, {"scale_x": 0.25, "scale_y": 0.25, "shear": 0.2}), "affine")
    still = look(letters(48, {}), "affine")
    best = torch.full((len(still),), math.inf)
    for turn in torch.linspace(-0.6, 0.6, 61):
        c, s = math.cos(turn), math.sin(turn)
        theta = torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]]).expand(len(still), 2, 3)
        grid = F.affine_grid(theta, still.shape, align_corners=False)
        gap = (F.grid_sample(still, grid, align_corners=False) - stretched).square().mean((1, 2, 3))
        best = torch.minimum(best, gap / still.var((1, 2, 3)))
    assert float(best.median()) < 0.1


@pytest.mark.parametrize(
    ("group", "plain", "found"),
    [("rotation", True, True), ("rotation", False, False), ("hue", True, False)],
)
def test_poses_are_computed_of_planar_moves_on_a_background(group, plain, found):
    assert computed(Chart(parse_group(group), 72), plain) == found


def pose_view(group, images, **config):
    chart, action = Chart(parse_group(group), 72), ImageAction(parse_group(group))
    views = Views(**config)
    own = own_variance(action, views, 1 / 12)
    poses = find_poses(images, chart, own, 1 / 12)
    frame = Frame(True, 0.0, 1.0)
    return PoseView(action, chart, tuple(images.shape[1:]), frame, views, 1.0, poses)


@pytest.mark.parametrize(
    "group", ["translation", "scale", "shear", "similarity", "affine", "rotation,flip_x"]
)
def test_moves_take_a_picture_to_the_poses_that_were_found(group):
    """What is asked of T_u x, told of T_u x, leads back: the moves found are u."""
    images = letters(64, {}, 16)
    view = pose_view(group, images)
    chart = view.chart
    generator = torch.Generator().manual_seed(0)
    u = chart.draw(torch.rand(16, len(chart.coordinates), generator=generator))
    for j, c in enumerate(chart.coordinates):
        u[:, j] *= {"line": 0.2, "circle": 1.0, "finite": 1.0}[c.kind]
    matrix = chart.matrix(u)
    moved = ImageAction(Affine2(), interpolation="bicubic")(matrix, images)
    assert torch.allclose(
        chart.coordinates_of(matrix[:, :2, :2], matrix[:, :2, 2], u), u, atol=1e-4
    )
    turned = u.clone()  # what is shown of x is Q x, with the Q that brings T_u x there
    own = view.pose(images)[1]
    there = view.pose(moved)
    if "rotation" in chart.names or chart.finite is not None:
        q = _orthogonal(view, matrix, own, there[1])
        turned[:, chart.names.index("rotation")] = torch.atan2(
            *(q @ _flip(chart, u))[:, (1, 0), (0, 0)].unbind(-1)
        )
    asked = view(images, turned, picture_numbers(0, images))[0]
    found = view.moves(asked[:, None], moved)[:, 0]
    error = (found - u).abs()
    for j, c in enumerate(chart.coordinates):
        if c.kind == "circle":
            error[:, j] = (error[:, j] + math.pi).remainder(2 * math.pi) - math.pi
    assert float(error.abs().median()) < 0.01
    assert float(error.abs().max()) < 0.06


def _flip(chart, u):
    if chart.finite is None:
        return torch.eye(2)
    return chart.finite.matrix(u[:, 0].long(), u.dtype)[:, :2, :2]


def _orthogonal(view, matrix, own, there):
    """A_y^-1 M A_x: an orthogonal matrix, as moments follow M."""
    block = matrix[:, :2, :2]
    if not own:
        return block
    a_x = symmetric_exp(*matrix_of(own))
    a_y = symmetric_exp(*(-entry for entry in matrix_of(there)))
    return a_y @ block @ a_x


def test_stretches_add_up():
    content = letters(64, {}, 16)
    moved = ImageAction(Affine2("scale_x", "scale_y"), interpolation="bicubic")(
        torch.diag(torch.tensor([math.exp(0.2), math.exp(-0.1), 1.0])).expand(16, 3, 3), content
    )
    names = ("scale_x", "scale_y")
    before, after = (stretches(moments(x)[1], names) for x in (content, moved))
    assert float((after["scale_x"] - before["scale_x"] - 0.2).abs().median()) < 0.015
    assert float((after["scale_y"] - before["scale_y"] + 0.1).abs().median()) < 0.015


def test_coarse_pictures_hide_how_large_content_was():
    """Sizes of one content cannot be predicted from what sizes are read from."""
    images = letters(32, {"zoom": 0.3}, 800, "hearts")
    view = pose_view("zoom", images)
    rows = torch.arange(len(images))
    asked, shown = view(images, view.chart.identity(len(images)), place_numbers(1, rows))[:2]
    size, x = asked[:, 0] - asked[:, 0].mean(), shown.flatten(1) - shown.flatten(1).mean(0)

    def told(x, size):
        half = len(x) // 2
        gram = x[:half].T @ x[:half]
        ridge = 0.03 * gram.diagonal().mean() * torch.eye(len(gram))
        guess = x[half:] @ torch.linalg.solve(gram + ridge, x[:half].T @ size[:half])
        return float(1 - (guess - size[half:]).square().mean() / size[half:].var())

    assert told(x, size) < 0.1
    assert told((images - images.mean(0)).flatten(1), size) > 0.9


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
        shown = view(x, u, picture_numbers(0, x))[1][0, 0]
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
    assert 0.1 <= model.chart.reach["shift_y"] < 0.45


@pytest.mark.parametrize("group", ["zoom", "translation", "shift_y"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_pictures_in_any_precision_have_the_densities_of_those_in_single(group, dtype):
    images = letters(16, {"shift_x": 0.1, "shift_y": 0.1}, 80).to(dtype)
    model = OrbitPosterior(group, (1, 16, 16), "quick")
    config = model.config
    model.config = config.replace(check=False, training={"steps": 2, "rounds": 1})
    model.fit(images, device="cpu", progress=False)
    (width, *_) = model.summary(images).parameters
    assert math.isfinite(width.width90)
    pairs = zip(model.densities(images[:3]), model.densities(images[:3].float()), strict=True)
    assert all(torch.equal(given.mass, single.mass) for given, single in pairs)
    assert model.sample(images[:1], 2).dtype == dtype
