"""The orbit posterior against planted truths, and what it must not read or answer."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.groups.affine import Affine2
from symmetries.groups.names import parse_group
from symmetries.learners.orbit_posterior import (
    Network,
    OrbitConfig,
    OrbitPosterior,
    OrbitSummary,
    Reading,
    Training,
    Views,
    findings,
)
from symmetries.learners.orbit_posterior.cautions import about_training
from symmetries.learners.orbit_posterior.verdicts import Headline
from symmetries.training import save_model


def hooks(n, turn, seed=0, side=16, mirrored=False, shift=0.0):
    """Hooks (n, 1, side, side) of random sizes, drawn at angles within ``turn`` degrees."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.deg2rad(turn * (2 * torch.rand(n, generator=generator) - 1))
    tall, wide, thick = (0.4 + 0.2 * torch.rand(3, n, generator=generator)).unbind(0)
    axis = (torch.arange(side) * 2 + 1 - side) / side
    x, y = axis.expand(side, side), -axis[:, None].expand(side, side)
    x = x - shift * (2 * torch.rand(n, 1, 1, generator=generator) - 1)
    c, s = torch.cos(angle)[:, None, None], torch.sin(angle)[:, None, None]
    u, v = c * x + s * y, -s * x + c * y
    if mirrored:
        flip = (torch.rand(n, generator=generator) < 0.5).float()[:, None, None]
        u = u * (1 - 2 * flip)
    tall, wide, thick = (part[:, None, None] for part in (tall, wide, thick))
    stem = torch.hypot(u, (v.abs() - tall).clamp_min(0))
    arm = torch.hypot(v - tall, (u - wide / 2).abs().sub(wide / 2).clamp_min(0))
    distance = torch.minimum(stem, arm) - 0.25 * thick
    return (0.5 - distance * side / 3).clamp(0, 1)[:, None]


def small(steps=250, **others):
    parts = {
        "bins": 36,
        "check": False,
        "folds": 2,
        "network": Network(kind="mlp", features=96, dropout=0.05),
        "training": Training(steps=steps, rounds=1, batch_size=128),
        "reading": Reading(pictures=256, resamples=50, samples=256),
        "views": Views(readings=4),
    }
    return OrbitConfig(**{**parts, **others})


def fitted(images, group="rotation", config=None, **run):
    action = ImageAction(parse_group(group))
    model = OrbitPosterior(action, tuple(images.shape[1:]), config or small())
    model.fit(images, device="cpu", progress=False, **run)
    return model


@pytest.fixture(scope="module")
def turning():
    images = hooks(800, 60)
    return images, fitted(images)


def test_a_planted_turn_is_found(turning):
    images, model = turning
    found = model.summary(images)["rotation"]
    assert found.verdict == "partial"
    assert 0.85 * 108 < found.width90 < 1.2 * 108
    assert found.interval[0] <= found.width90 <= found.interval[1]
    assert found.share_told > 0.5
    assert found.calibration < 0.1


def test_a_single_round_is_not_said_to_have_settled(turning):
    model = turning[1]
    assert any("had not settled" in text for text in about_training(model, certain=False))
    assert about_training(model, certain=True) == []


def test_the_density_of_a_picture_is_where_its_poses_are(turning):
    model = turning[1]
    steep = hooks(64, 0)
    mass = model.densities(steep)[0].mass.mean(0)
    edges = torch.linspace(-180, 180, 37)
    inside = (edges[:-1] >= -70) & (edges[1:] <= 70)
    assert float(mass[inside].sum()) > 0.9


def test_new_versions_stay_within_the_poses_that_occur(turning):
    images, model = turning
    versions = model.sample(images[:16], 8, torch.Generator().manual_seed(0))
    assert versions.shape == (16, 8, 1, 16, 16)
    centre = model.densities(versions.flatten(0, 1))[0].centres()
    assert float((centre.abs() < math.radians(75)).float().mean()) > 0.85


def test_moves_go_as_far_as_shifts_do():
    images = hooks(800, 0, shift=0.25)
    action = ImageAction(Affine2("shift_x"))
    model = OrbitPosterior(action, (1, 16, 16), small(150), reach={"shift_x": 0.3})
    model.fit(images, device="cpu", progress=False)
    assert model.chart.reach["shift_x"] > 0.45  # poses within 0.25 need 0.5
    found = model.summary(images)["shift_x"]
    assert found.verdict == "partial"
    assert 0.8 < found.width90 / (0.9 * 0.5 * 8) < 1.25


def test_still_pictures_are_absent():
    images = hooks(800, 0)
    found = fitted(images, config=small(300, bins=72)).summary(images)["rotation"]
    assert found.verdict == "absent"


def test_a_flip_is_found_where_it_was_planted():
    images = hooks(2000, 20, mirrored=True)
    config = small(150, check=True)
    assert fitted(images, "flip_x", config).summary(images)["flip_x"].verdict == "full"


def test_contents_that_occur_once_are_not_called_full():
    rough = torch.randn(600, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    images = (0.5 + 0.2 * F.avg_pool2d(rough, 5, stride=1, padding=2) * 5).clamp(0, 1)
    summary = fitted(images, "flip_x", small(20, check=True)).summary(images)
    assert summary["flip_x"].verdict == "cannot be told"
    assert any("no verdict" in text for text in summary.warnings)
    still = hooks(600, 20)
    found = fitted(still, "flip_x", small(150)).summary(still)["flip_x"]
    assert found.interval[0] >= 1  # an element at least
    assert found.verdict == "absent"
    assert found.width90 < 1.3


def test_the_self_test_recovers_what_it_planted(turning):
    images, model = turning
    from symmetries.learners.orbit_posterior.crossing import crossed
    from symmetries.learners.orbit_posterior.planting import Unseen, plant_and_recover
    from symmetries.learners.orbit_posterior.self_testing import centred_mean

    found = crossed(model, images, 0)
    density = found.reading[0]
    every = torch.ones(len(density.mass), dtype=torch.bool)
    first = found.rows[found.folds == 0]
    unseen = Unseen(first, (torch.ones(len(first), dtype=torch.bool),))
    mean = centred_mean(density, every, every)
    rows = plant_and_recover(model, images, [unseen], [mean], [math.radians(108)], 0)
    assert [row.visible for row in rows] == [True, True]
    assert rows[0].expected < rows[1].expected
    assert 0.75 < rows[0].ratio < 1.3


def test_a_saved_model_answers_alike(turning, tmp_path):
    images, model = turning
    model.save(tmp_path)
    again = OrbitPosterior.load(tmp_path)
    mass, other = (m.densities(images[:8], fold=1)[0].mass for m in (model, again))
    assert torch.equal(mass, other)
    summary = again.summary(images)
    assert OrbitSummary.from_dict(summary.to_dict()) == summary


def test_a_model_of_another_version_says_what_to_do(tmp_path):
    meta = OrbitPosterior("rotation", (1, 16, 16), small()).meta()
    save_model(tmp_path, nn.Linear(2, 2), meta)
    with pytest.raises(ValueError, match="or train it again"):
        OrbitPosterior.load(tmp_path)


@pytest.mark.parametrize("group", ["rotation", "rotation,translation"])  # one part, and two
def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path, group):
    images = hooks(200, 60, shift=0.2)
    config = small(8, training=Training(steps=8, rounds=2, batch_size=32, settled=0.0))
    often = {"checkpoint_every": 3}
    whole = fitted(images, group, config, out=tmp_path / "a", **often)

    class Stop(Exception):
        pass

    model = OrbitPosterior(ImageAction(parse_group(group)), (1, 16, 16), config)
    looks = 0
    forward = nn.Module.__call__

    def counted(self, *args, **kwargs):
        nonlocal looks
        if self is model.view:
            looks += 1
            if looks == 60:
                raise Stop
        return forward(self, *args, **kwargs)

    nn.Module.__call__ = counted
    try:
        with pytest.raises(Stop):
            model.fit(images, device="cpu", progress=False, out=tmp_path / "b", **often)
    finally:
        nn.Module.__call__ = forward
    assert list((tmp_path / "b").rglob("*.safetensors")), "it was stopped before it stored anything"
    again = fitted(images, group, config, out=tmp_path / "b", resume=True, **often)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_any_backbone_reads_pictures():
    class Mean(nn.Module):
        def forward(self, x):
            return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)

    action = ImageAction(Affine2("rotation"))
    config = small(3)
    model = OrbitPosterior(action, (3, 224, 224), config, backbone=Mean)
    images = torch.rand(66, 3, 28, 28).repeat_interleave(8, 2).repeat_interleave(8, 3)
    model.fit(images, device="cpu", progress=False)
    assert model.view.shape == (3, 64, 64)
    assert model.sample(images[:1], 2).shape == (1, 2, 3, 224, 224)


def test_a_frozen_backbone_stays_as_it_is():
    def frozen():
        torch.manual_seed(3)
        net = nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        return net.requires_grad_(False)

    images = hooks(150, 40)
    action = ImageAction(Affine2("rotation"))
    model = OrbitPosterior(action, (1, 16, 16), small(30), backbone=frozen)
    model.fit(images, device="cpu", progress=False)
    first = frozen().state_dict()
    for fit in model.fits:
        for name, value in fit.backbone.state_dict().items():
            assert torch.equal(value, first[name])
    head = model.fits[0].head.parts[0][4].weight
    assert float(head.abs().max()) > 0


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 15), (1, 40, 24)])
def test_small_and_oblong_pictures_are_read(shape):
    images = torch.rand(80, *shape, generator=torch.Generator().manual_seed(0))
    model = OrbitPosterior("rotation,translation", shape, small(5))
    model.fit(images, device="cpu", progress=False)
    assert all(torch.isfinite(d.mass).all() for d in model.densities(images[:4]))
    assert model.sample(images[:2], 2).shape == (2, 2, *shape)


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (torch.zeros(100, 1, 16, 16), "100 of 100 of one colour"),
        (torch.rand(1, 1, 16, 16).repeat(100, 1, 1, 1), "1 different ones of 100"),
        (torch.rand(2, 1, 16, 16), "2 different ones of 2"),
        (0.25 + 1e-5 * torch.rand(100, 1, 16, 16), "1 different ones of 100"),
        (torch.rand(100, 1, 16, 15), "shape"),
        (torch.rand(100, 1, 16, 16) * math.nan, "finite"),
        (torch.rand(100, 1, 16, 16) * 255, "values in"),
    ],
)
def test_what_tells_nothing_is_refused(images, match):
    model = OrbitPosterior(ImageAction(Affine2("rotation")), (1, 16, 16), small(3))
    with pytest.raises(ValueError, match=match):
        model.fit(images, device="cpu", progress=False)


def test_no_width_of_a_class_is_larger_than_that_of_the_uniform_law(monkeypatch):
    images = hooks(100, 60)
    wide = Headline(5.7, -0.1, 6.2, torch.ones(50, dtype=torch.bool), 1.0)  # 8 % more than uniform
    monkeypatch.setattr(findings, "headline", lambda *_: wide)
    found = fitted(images, config=small(3)).findings(images, torch.arange(100) % 2)
    assert found.per_class["rotation"]["1"] == pytest.approx((324, 0, 324))


def test_points_are_refused_by_name():
    with pytest.raises(ValueError, match="action: expected an action on images, got PointAction"):
        OrbitPosterior(PointAction(Affine2("rotation")), (1, 30, 2))
    with pytest.raises(ValueError, match="shape: expected at least 8 x 8 pixels"):
        OrbitPosterior(ImageAction(Affine2("rotation")), (1, 30, 2))


def test_families_that_do_not_compose_are_refused():
    with pytest.raises(ValueError, match="transformations that compose"):
        OrbitPosterior(ImageAction(Affine2("rotation", "scale")), (1, 16, 16))
    with pytest.raises(ValueError, match="a flip beside planar motions"):
        OrbitPosterior(ImageAction(parse_group("translation,c4")), (1, 16, 16))


def test_fits_side_by_side_have_the_bits_of_fits_in_turn(monkeypatch):
    images = hooks(150, 60)
    config = small(15, training=Training(steps=15, rounds=2, batch_size=32, settled=0.0))
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("symmetries.training.side_by_side.available_cores", lambda n=cores: n)
        model = fitted(images, config=config)
        found.append((model.state_dict(), model.gains, model.rises, model.history.metrics["loss"]))
    first, second = found
    assert all(torch.equal(value, second[0][name]) for name, value in first[0].items())
    assert first[1:] == second[1:]
