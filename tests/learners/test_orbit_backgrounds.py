"""Backgrounds: of colours networks see one value, and of noise nothing; pictures keep theirs."""

import pytest
import torch
from tests.learners.test_orbit_posterior import fitted, hooks, small

from symmetries.actions.images import ImageAction
from symmetries.groups.se2 import SE2
from symmetries.learners.orbit_posterior import OrbitPosterior, Views
from symmetries.learners.orbit_posterior.canonical import find_poses
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.fitting import shrunk
from symmetries.learners.orbit_posterior.frames import channel_offsets, find_frame
from symmetries.learners.orbit_posterior.numbers import picture_numbers
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.learners.orbit_posterior.versions import moved_as_given
from symmetries.learners.orbit_posterior.views import round_window

GROUND = torch.tensor([0.2, 0.5, 0.8])[:, None, None]
INK = torch.tensor([0.9, 0.1, 0.2])[:, None, None]


def coloured(pictures):
    return GROUND + (INK - GROUND) * pictures


def test_a_coloured_background_is_found_and_photographs_have_none():
    offsets = channel_offsets(coloured(hooks(100, 60)), 0.5)
    assert offsets == pytest.approx((-0.3, 0.0, 0.3), abs=1e-6)
    assert channel_offsets(torch.rand(50, 3, 16, 16), 0.5) == (0.0, 0.0, 0.0)
    assert channel_offsets(hooks(50, 60), 0.0) == (0.0,)


def test_the_width_on_a_coloured_background_is_that_on_black(tmp_path):
    plain = hooks(800, 60)
    model = fitted(coloured(plain), config=small())
    assert model.frame.plain
    found = model.summary(coloured(plain))["rotation"]
    assert 0.85 * 108 < found.width90 < 1.2 * 108
    model.save(tmp_path / "model")
    again = OrbitPosterior.load(tmp_path / "model")
    assert again.ground == model.ground
    x = coloured(plain[:4])
    torch.testing.assert_close(again.densities(x)[0].mass, model.densities(x)[0].mass)


def test_moved_pictures_keep_their_background():
    model = OrbitPosterior("rotation", (3, 16, 16), small())
    model.ground = tuple((GROUND[:, 0, 0] - model.frame.fill).tolist())
    x = coloured(hooks(4, 0))
    turned = moved_as_given(model, torch.full((4, 1), 0.7), x)
    corners = turned[..., (0, 0, -1, -1), (0, -1, 0, -1)]
    torch.testing.assert_close(corners, GROUND[:, 0].expand_as(corners), atol=1e-5, rtol=0)


def noisy(pictures, amount=0.04, seed=7):
    noise = torch.randn(pictures.shape, generator=torch.Generator().manual_seed(seed))
    return (0.95 - 0.8 * pictures + amount * noise).clamp(0, 1)


@pytest.mark.parametrize("side", [24, 32, 48])
def test_noise_is_no_content_at_any_scale(side):
    plain, wanted = shrunk(hooks(300, 60, side=side), 24), 0.95
    frame = find_frame(shrunk(noisy(hooks(300, 60, side=side)), 24), wanted)
    assert frame.plain
    assert abs(frame.radius - find_frame(plain, 0.0).radius) < 0.1


def test_paper_of_uneven_brightness_is_one_background_and_colours_of_their_own_are_none():
    generator = torch.Generator().manual_seed(3)
    ink = hooks(300, 60)
    paper = 0.9 + 0.02 * torch.randn(300, 1, 1, 1, generator=generator)
    frame = find_frame((paper * (1 - 0.8 * ink)).clamp(0, 1), 0.9)
    assert frame.plain
    assert abs(frame.radius - find_frame(ink, 0.0).radius) < 0.1
    grounds, colours = torch.rand(2, 300, 1, 1, 1, generator=generator)
    assert not find_frame(grounds + (colours - grounds) * ink, 0.5).plain


def test_noise_does_not_show_how_its_frame_was_moved():
    pictures = noisy(hooks(200, 60))
    frame = find_frame(pictures, 0.95)
    chart = Chart(SE2(), 36)
    poses = find_poses(frame.content(pictures), chart)
    view = PoseView(ImageAction(SE2()), chart, (1, 16, 16), frame, Views(noise=0.0), 1.0, poses)
    paper = noisy(torch.zeros(64, 1, 16, 16), seed=8)
    moves = chart.draw(torch.rand(64, 3, generator=torch.Generator().manual_seed(9)))
    assert view(paper, moves, picture_numbers(0, paper))[1].abs().max() < 1e-6
    shown = view(pictures[:64], moves, picture_numbers(0, paper))[1]
    assert bool((shown.abs().amax((1, 2, 3)) > 0.1).all())  # content is still seen


def test_few_pictures_are_cut_into_more_folds(monkeypatch):
    monkeypatch.setattr("symmetries.learners.orbit_posterior.model.fit_folds", lambda *_: None)
    for count, folds, share in ((350, 7, 2 / 3), (800, 4, 2 / 3), (1600, 2, 1 / 2)):
        model = OrbitPosterior("rotation", (1, 16, 16), small(folds=None))
        model.fit(hooks(count, 60))
        assert (model.fold_count, model.smaller_share) == (folds, share)


def test_contents_of_few_pixels_are_no_round_window():
    """Digits of 8 x 8 fill the middle of their frame, but not a disc."""
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(300, 1, 8, 8)
    x[:, :, 2:6, 2:6] = 0.4 + 0.6 * torch.rand(300, 1, 4, 4, generator=generator)
    ends = torch.rand(300, generator=generator) < 0.3
    x[ends, :, 0:2, 3:5] = 0.8
    assert find_frame(x, 0.0).plain
    big = torch.rand(300, 1, 24, 24, generator=generator) * 0.8 + 0.1
    disc = find_frame(big * round_window(24, 24, 1.0, 1.0), 0.0)
    assert not disc.plain
    assert 0.8 < disc.radius < 1


def test_pictures_of_which_nothing_stays_in_sight_are_refused():
    x = torch.rand(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    model = OrbitPosterior(
        "rotation,translation", (1, 8, 8), "quick", reach={"shift_x": 0.9, "shift_y": 0.9}
    )
    with pytest.raises(ValueError, match="stays in sight"):
        model.fit(x, device="cpu", progress=False)


def test_data_sorted_by_class_are_looked_at_as_a_whole():
    """The pictures of the last folder are shifted: the first thousands of pictures are not."""
    still = torch.zeros(4_400, 1, 12, 12)
    still[:, :, 4:8, 5:8] = 1.0
    shifted = torch.zeros(1_600, 1, 12, 12)
    shifted[:800, :, 4:8, 1:4] = 1.0
    shifted[800:, :, 4:8, 8:11] = 1.0
    model = OrbitPosterior("shift_x", (1, 12, 12), "quick")
    light = 0.5 + 0.5 * torch.rand(6_000, 1, 1, 1, generator=torch.Generator().manual_seed(0))
    model.prepared(torch.cat((still, shifted)) * light)
    assert model.poses.reach["shift_x"] > 0.5
