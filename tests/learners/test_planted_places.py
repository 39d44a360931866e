"""Shifts that the self-test plants leave contents in the frame."""

import pytest
import torch

from symmetries.learners import OrbitPosterior
from symmetries.learners.orbit_posterior.canonical import moments
from symmetries.learners.orbit_posterior.cautions import self_test_sentence
from symmetries.learners.orbit_posterior.planted_places import placed
from symmetries.learners.orbit_posterior.planting import Planted, with_misses
from symmetries.learners.orbit_posterior.verdicts import Headline
from symmetries.learners.orbit_posterior.versions import moved


def blocks(count=80, side=24, wide=24):
    """Blocks of 5 x 3 pixels anywhere in the frame."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(1, side - 6, (count,), generator=generator)
    columns = torch.randint(1, wide - 4, (count,), generator=generator)
    images = torch.zeros(count, 1, side, wide)
    for image, row, column in zip(images, rows, columns, strict=True):
        image[0, row : row + 5, column : column + 3] = 0.8
        image[0, row + 1, column] = 0.8 + 0.2 * torch.rand((), generator=generator)
    return images


def drawn(model, images, share):
    chart = model.chart
    numbers = torch.rand(len(images), len(chart.names), generator=torch.Generator().manual_seed(1))
    return share * chart.draw(numbers)


@pytest.mark.parametrize("group", ["translation", "rotation,translation", "similarity"])
def test_contents_are_brought_to_known_places_and_stay_whole(group):
    images = blocks()
    model = OrbitPosterior(group, (1, 24, 24), "quick", reach={"shift_x": 0.9, "shift_y": 0.9})
    small = model.prepared(images)
    as_drawn = drawn(model, images, 0.2)
    u, ranges = placed(model, as_drawn, small)
    after = moved(model, u, small)
    j = model.chart.names.index("shift_x")
    assert ranges["shift_x"] == pytest.approx(float(as_drawn[:, j].abs().amax()), rel=1e-5)
    places = moments(after)[0]
    assert places[:, 0] == pytest.approx(as_drawn[:, j], abs=0.03)
    grown = 2 * as_drawn[:, model.chart.names.index("zoom")] if "zoom" in group else 0
    kept = after.sum((1, 2, 3)) / small.sum((1, 2, 3)) / torch.exp(torch.as_tensor(grown))
    assert float(kept.min()) > 0.9  # nothing is cut off
    on_top = moved(model, as_drawn, small).sum((1, 2, 3)) / small.sum((1, 2, 3))
    assert float(on_top.min()) < 0.5  # shifts on top of those that the data have cut contents off


def test_ranges_are_limited_by_the_room_in_the_frame():
    images = blocks(side=24, wide=12)
    model = OrbitPosterior("translation", (1, 24, 12), "quick", reach={"shift_x": 0.9})
    small = model.prepared(images)
    u, ranges = placed(model, drawn(model, images, 0.9), small)
    assert ranges["shift_x"] < 0.5 - 1.5 / 12  # the shorter side is half of the longer one
    after = moved(model, u, small)
    assert float((after.sum((1, 2, 3)) / small.sum((1, 2, 3))).min()) > 0.9


def test_pictures_without_a_background_and_turns_are_left_as_they_are():
    noise = torch.rand(80, 1, 24, 24, generator=torch.Generator().manual_seed(0))
    for group, images in (("translation", noise), ("rotation", blocks())):
        model = OrbitPosterior(group, (1, 24, 24), "quick")
        small = model.prepared(images)
        as_drawn = drawn(model, images, 0.5)
        u, ranges = placed(model, as_drawn, small)
        assert not ranges
        assert torch.equal(u, as_drawn)


def test_places_that_were_missed_widen_the_interval_by_their_ratio():
    line = Headline(0.9, 0.8, 0.97, torch.ones(3, dtype=torch.bool), 1.0)
    shift = OrbitPosterior("translation", (1, 8, 8), "quick").chart

    def row(ratio):
        return Planted("shift_x", "pixels", 1.0, 1.0, 1.0, ratio, 0.6, True, added=False)

    fine = with_misses(line, shift.coordinates[0], [row(1.05)])
    assert (fine.low, fine.high) == (0.8, 0.97)
    missed = with_misses(line, shift.coordinates[0], [row(0.7)])
    assert missed.high == pytest.approx(0.9 / 0.7 * 0.923, rel=0.01)


def test_shifts_without_room_in_the_frame_are_called_invisible():
    full = Planted("shift_x", "pixels", 0.0, 0.0, 1.0, 1e9, 0.0, visible=False, added=False)
    assert "would leave the frame" in self_test_sentence([full])
    images = torch.full((80, 1, 24, 24), 0.0)
    images[:, :, 1:-1, 1:-1] = torch.rand(80, 1, 22, 22, generator=torch.Generator().manual_seed(0))
    model = OrbitPosterior("translation", (1, 24, 24), "quick")
    small = model.prepared(images)
    assert model.frame.plain
    assert placed(model, drawn(model, images, 0.5), small)[1] == {"shift_x": 0.0, "shift_y": 0.0}
