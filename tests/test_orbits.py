"""Orbits: the curve of a known picture, and the yardstick."""

import math

import pytest
import torch

from symmetries.analysis.orbits import neighbour_distance, reach, study_orbits
from symmetries.groups import Affine2, parse_group


def bars(count=6, side=16):
    """Vertical bars at different places: a vertical shift changes their inside nowhere."""
    images = torch.zeros(count, 1, side, side)
    for index in range(count):
        images[index, :, :, 4 + index] = 1.0
    return images


def test_an_image_changes_not_at_all_in_the_middle_and_most_where_it_leaves():
    images = bars()
    study = study_orbits(images, Affine2("shift_x"), examples=images[:2], steps=33)
    curve = study.curves[0]
    assert curve.unit == "pixels"
    assert curve.values[0] == pytest.approx(-8.0)
    assert curve.change[16] == pytest.approx(0, abs=1e-6)
    # One pixel to the side: a bar leaves its column and fills another, 2 columns of 16 differ.
    assert curve.values[18] == pytest.approx(1.0)
    assert curve.change[18] == pytest.approx(math.sqrt(2 / 16), rel=1e-5)


def test_the_yardstick_is_the_distance_to_the_nearest_other_image():
    # Two bars never overlap: any two differ in 2 columns of 16.
    assert neighbour_distance(bars()) == pytest.approx(math.sqrt(2 / 16), rel=1e-5)


def test_frames_are_the_examples_moved():
    images = bars()
    study = study_orbits(images, Affine2("translation"), examples=images[:2], steps=5)
    assert {name: tuple(f.shape) for name, f in study.frames.items()} == {
        "shift_x": (2, 5, 1, 16, 16),
        "shift_y": (2, 5, 1, 16, 16),
    }
    torch.testing.assert_close(study.frames["shift_x"][:, 2], images[:2])
    # The bound is half a picture, eight pixels: the bar of column 4 ends in column 12.
    torch.testing.assert_close(study.frames["shift_x"][0, 4, 0, :, 12], torch.ones(16))


def test_the_same_seed_gives_the_same_study():
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    first, second, other = (
        study_orbits(
            images, Affine2("rotation"), examples=images[:1], steps=5, sample=10, seed=seed
        )
        for seed in (3, 3, 4)
    )
    assert first.curves == second.curves
    assert first.curves != other.curves


def test_many_images_are_taken_in_parts(monkeypatch):
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    whole = study_orbits(images, Affine2("rotation"), examples=images[:1], steps=5)
    monkeypatch.setattr("symmetries.analysis.orbits.PIXELS_AT_ONCE", 1)
    parts = study_orbits(images, Affine2("rotation"), examples=images[:1], steps=5)
    torch.testing.assert_close(
        torch.tensor(whole.curves[0].change), torch.tensor(parts.curves[0].change)
    )


def test_reach_is_none_where_nothing_reaches_the_level():
    assert reach((-1.0, 0.0, 1.0), (0.1, 0.0, 0.2), level=0.5) is None
    assert reach((-1.0, 0.0, 1.0), (0.1, 0.0, 1.0), level=0.5) == (-1.0, 0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": parse_group("c4")}, "group: expected continuous parameters, got c4"),
        ({"images": bars(1)}, "images: expected at least 2"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {"images": bars(), "group": Affine2("rotation"), "examples": bars(2), **changes}
    with pytest.raises(ValueError, match=message):
        study_orbits(arguments.pop("images"), arguments.pop("group"), **arguments)
