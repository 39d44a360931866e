"""Coloured backgrounds: networks see one value, pictures keep theirs."""

import pytest
import torch
from tests.learners.test_orbit_posterior import fitted, hooks, small

from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.frames import channel_offsets
from symmetries.learners.orbit_posterior.versions import moved_as_given

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
