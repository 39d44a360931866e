"""Brightness is drawn also where poses are computed: it is widened, calibrated, and left alone."""

import pytest
import torch

from symmetries.learners.orbit_posterior import OrbitPosterior, fitting
from symmetries.learners.orbit_posterior.numbers import place_numbers
from symmetries.learners.orbit_posterior.pose_views import PoseView
from symmetries.learners.orbit_posterior.reading import outer_mass, read_moved

SIDE = 24


def discs(count=80):
    generator = torch.Generator().manual_seed(0)
    centre = 0.1 * (2 * torch.rand(count, 2, 1, 1, generator=generator) - 1)
    axis = (torch.arange(SIDE) * 2.0 + 1 - SIDE) / SIDE
    away = torch.hypot(axis - centre[:, 0], axis[:, None] - centre[:, 1])
    return (away < 0.55).float()[:, None] * torch.tensor([0.4, 0.3, 0.2])[:, None, None]


def model_of(group, **config):
    model = OrbitPosterior(group, (3, SIDE, SIDE), "quick")
    model.config = model.config.replace(check=False, **config)
    return model


@pytest.mark.parametrize(
    ("group", "changed"),
    [("value", False), ("hue", True), ("value,translation", False), ("hue,translation", True)],
)
def test_pictures_are_made_stronger_or_weaker_only_where_brightness_is_not_asked_for(
    group, changed
):
    model, x = model_of(group, noise=0.0), discs()
    x = model.prepared(x)
    numbers = place_numbers(0, torch.arange(len(x)))
    middle = model.view(x, model.chart.identity(len(x)), numbers)[1].amax(1)[:, 12, 12]
    assert float(middle.min()) > 0
    assert (float(middle.max() / middle.min()) > 1.2) == changed


def test_brightness_beside_computed_places_is_widened_until_the_data_lie_within(monkeypatch):
    monkeypatch.setattr(fitting, "outer_mass", lambda *_: {"value": 0.5})
    model = model_of("value,translation", steps=1, rounds=1)
    model.fit(discs(), progress=False, device="cpu")
    assert isinstance(model.view, PoseView)
    assert model.chart.reach["value"] == model.view.coordinates[-1].reach == 4.0
    assert model.outer == {"value": 0.5}


def test_only_lines_that_are_drawn_are_moved_to_calibrate_and_have_an_end():
    model, x = model_of("value,translation"), discs()
    x = model.prepared(x)
    assert set(outer_mass(model, model.fits[0], x[:8])) == {"value"}
    truth = read_moved(model, model.fits[0], x[:40], seed=0)[1]
    assert model.chart.names == ("shift_x", "shift_y", "value")
    assert float(truth[:, :2].abs().max()) < 1e-6
    assert 0.1 < float(truth[:, 2].abs().mean()) < 0.15  # uniform over half of the reach of 0.5
