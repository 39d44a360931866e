"""The symmetry model as a user meets it: planted symmetries found, planted absences too."""

import math
import warnings

import pytest
import torch

from symmetries.data.base import ImageSet
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel, fitting
from symmetries.learners.symmetry_model.health import warn_if_collapsed, warn_if_overfit
from symmetries.training import Recipe, fit_many

SIDE = 16


def shapes(n, angle, shift, seed=0):
    """L-shaped pictures of varying proportions, turned within +-angle and moved within +-shift.

    Each turns about its own centre of mass, so that turning does not move it.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(most):
        return most * (2 * torch.rand(n, 1, 1, generator=generator) - 1)

    axis = (torch.arange(SIDE) + 0.5) / SIDE * 2 - 1
    y, x = -axis[:, None], axis[None, :]
    turn, dx, dy = uniform(angle), uniform(shift), uniform(shift)
    long, short = 0.5 + uniform(0.05), 0.3 + uniform(0.05)

    def bar(a, b, half_a, half_b):
        return torch.sigmoid(20 * (half_a - a.abs())) * torch.sigmoid(20 * (half_b - b.abs()))

    def drawn(u, v):
        upright = bar(u, v - long / 2, 0.12, long / 2 + 0.12)
        foot = bar(u - short / 2, v, short / 2 + 0.12, 0.12)
        return torch.maximum(upright, foot)

    upright = drawn(x + 0.08, y + 0.18)  # all of it within the frame
    weight = upright / upright.sum((1, 2), keepdim=True)
    centre_x = (weight * x).sum((1, 2), keepdim=True) + 0.08
    centre_y = (weight * y).sum((1, 2), keepdim=True) + 0.18
    u = torch.cos(turn) * (x - dx) + torch.sin(turn) * (y - dy) + centre_x
    v = torch.cos(turn) * (y - dy) - torch.sin(turn) * (x - dx) + centre_y
    return drawn(u, v)[:, None]


def small(**changes):
    """The quick preset, quicker still, and given the centre."""
    config = SymmetryConfig.preset("quick").replace(
        moments="centre",
        widths=(128, 64),
        features=(32,),
        layers=2,
        conditioner=32,
        base=(32,),
        inference=Recipe(steps=220, batch_size=64, lr=3e-3, warmup=0.1),
        generative=Recipe(steps=280, batch_size=128, lr=3e-3, warmup=0.1, final=0.03, clip=2.0),
    )
    return config.replace(**changes)


@pytest.fixture(scope="module")
def turned():
    """A model of shapes that turn within +-60 degrees and never move."""
    images = shapes(1000, math.radians(60), 0.0)
    group = "rotation,translation"
    model = SymmetryModel(group, (1, SIDE, SIDE), small(), bounds={"shift_x": 0.2, "shift_y": 0.2})
    histories = model.fit(images, progress=False, device="cpu").stages
    return model, images, histories


def test_planted_rotation_is_found_and_absent_shift_is_not(turned):
    model, images, _ = turned
    summary = model.summary(images, torch.arange(len(images)) % 2, most=200, n=512)
    rotation = summary["rotation"]
    assert rotation.verdict == "partial"
    assert rotation.width90 == pytest.approx(108, rel=0.2)  # 90 % of 120 degrees
    assert rotation.noise_floor < 20
    assert summary["shift_x"].verdict == summary["shift_y"].verdict == "absent"
    assert set(summary.classes) == {"0", "1"}
    assert set(summary.classes["0"].width90) == {"shift_x", "shift_y", "rotation"}
    assert summary.content_kept > 0.9
    steps = torch.tensor(rotation.histogram.edges).diff()
    assert float((steps * torch.tensor(rotation.histogram.density)).sum()) == pytest.approx(
        1.0, abs=1e-4
    )
    assert rotation.unit == "degrees"
    assert summary["shift_x"].unit == "pixels"


def test_prototypes_of_an_orbit_agree(turned):
    model, images, _ = turned
    x = images[:16]
    angles = torch.linspace(-math.pi, math.pi, 9)[:-1]
    eta = torch.nn.functional.pad(angles[:, None], (2, 0))
    versions = model.act.orbit(model.group.exp(eta), x)
    prototypes = model.prototype(versions.flatten(0, 1), refine=1).unflatten(0, (16, 8))
    within = float(prototypes.var(1).mean())
    assert within < 0.1 * float(versions.var(1).mean())
    assert float((model.prototype(x) - x).abs().mean()) > 0


def test_samples_are_natural_and_upside_down_is_not(turned):
    model, images, _ = turned
    x = images[:32]
    generator = torch.Generator().manual_seed(0)
    assert model.sample(x, 3, generator).shape == (32, 3, 1, SIDE, SIDE)
    assert model.augment(x, generator).shape == x.shape
    eta = model.infer(x)
    own = model.log_prob(x, eta)
    half_turn = torch.tensor([0.0, 0.0, math.pi])
    upside_down = model.act(model.group.exp(half_turn.expand(32, 3)), x)
    far = model.log_prob(x, model.infer(upside_down))
    assert float((own - far).mean()) > 2
    edges, density = model.marginals(x, bins=20, n=256)
    assert density.shape == (32, 3, 20)
    total = (density * edges.diff(dim=1)).sum(-1)
    torch.testing.assert_close(total, torch.ones(32, 3))


def test_the_same_seed_gives_the_same_samples(turned):
    model, images, _ = turned
    first = model.sample(images[:2], 2, torch.Generator().manual_seed(1))
    assert torch.equal(first, model.sample(images[:2], 2, torch.Generator().manual_seed(1)))


def test_saved_and_loaded_it_is_the_same(turned, tmp_path):
    model, images, _ = turned
    model.save(tmp_path)
    again = SymmetryModel.load(tmp_path)
    assert again.config == model.config
    assert again.bounds == model.bounds
    assert torch.equal(again.infer(images[:4]), model.infer(images[:4]))
    eta = torch.zeros(4, 3)
    assert torch.equal(again.log_prob(images[:4], eta), model.log_prob(images[:4], eta))


def test_histories_show_learning(turned):
    _, _, histories = turned
    assert list(histories) == ["inference", "generative"]
    agreement = histories["inference"]["agreement"]
    assert agreement[-1] < 0.2 * agreement[0]


@pytest.mark.parametrize(
    ("group", "channels", "size"),
    [
        ("affine", 1, (8, 8)),
        ("rotation,translation,scale", 1, (9, 12)),
        ("zoom", 1, (8, 8)),
        ("hue", 3, (8, 8)),
        ("colour", 3, (8, 8)),
        ("rotation,colour", 3, (10, 8)),
        ("se2", 2, (8, 8)),
        ("c4", 1, (8, 8)),
        ("d4", 3, (8, 8)),
        ("flip_x", 1, (8, 9)),
        ("t4", 1, (8, 8)),
    ],
)
def test_every_group_of_images_runs(group, channels, size):
    torch.manual_seed(0)
    images = torch.rand(12, channels, *size)
    stage = Recipe(steps=2, batch_size=4)
    config = small(widths=(16,), features=(16,), inference=stage, generative=stage)
    model = SymmetryModel(group, (channels, *size), config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # noise has no frame to stay in
        model.fit(images, progress=False, device="cpu")
    x = images[:3]
    eta = model.infer(x)
    assert eta.shape == (3, model.group.dim)
    assert model.prototype(x, refine=2).shape == x.shape
    assert model.sample(x, 2).shape == (3, 2, *x.shape[1:])
    assert torch.isfinite(model.log_prob(x, eta)).all()
    assert torch.isfinite(model.sample_eta(x, 4).float()).all()
    summary = model.summary(x, n=64)
    assert all(t.verdict in ("absent", "partial", "full") for t in summary.transformations)
    assert all(math.isfinite(t.width90) for t in summary.transformations)


def test_a_finite_group_learns_which_elements_occur():
    images = shapes(400, 0.1, 0.0)
    stage = Recipe(steps=120, batch_size=64, lr=3e-3, warmup=0.1)
    config = small(samples=1, inference=stage, generative=stage)
    found = {}
    for name, data in (
        ("upright", images),
        ("halves", torch.cat((images[:200], images[200:].rot90(2, (2, 3))))),
    ):
        model = SymmetryModel("c4", (1, SIDE, SIDE), config)
        model.fit(data, progress=False, device="cpu")
        found[name] = model.summary(data, most=100).transformations[0]
    assert found["upright"].verdict == "absent"
    assert found["halves"].verdict == "partial"
    assert found["halves"].width90 == pytest.approx(2, abs=0.3)
    assert found["upright"].noise_floor < 1.2


def test_stages_resume_apart(tmp_path):
    images = shapes(64, 1.0, 0.0)
    stage = Recipe(steps=6, batch_size=16)
    config = small(widths=(16,), features=(16,), inference=stage, generative=stage)
    whole = SymmetryModel("rotation", (1, SIDE, SIDE), config)
    whole.fit(images, progress=False, device="cpu")
    parts = SymmetryModel("rotation", (1, SIDE, SIDE), config)
    parts.fit(images, progress=False, device="cpu", out=tmp_path, stages=("inference",))
    again = SymmetryModel("rotation", (1, SIDE, SIDE), config)
    again.fit(images, progress=False, device="cpu", out=tmp_path, resume=True)
    assert (tmp_path / "inference" / "metrics.csv").exists()
    assert (tmp_path / "generative" / "metrics.csv").exists()
    parts.fit(images, progress=False, device="cpu", stages=iter(("generative",)))
    for a, b, c in zip(whole.parameters(), again.parameters(), parts.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_a_run_goes_on_with_its_own_settings_only(tmp_path):
    images, stage = shapes(32, 1.0, 0.0), Recipe(steps=2, batch_size=8)
    config = small(widths=(16,), features=(16,), inference=stage, generative=stage)
    shape, run = (1, SIDE, SIDE), {"progress": False, "device": "cpu", "out": tmp_path}
    SymmetryModel("rotation", shape, config).fit(images, **run)
    for name, other in (
        ("fill", SymmetryModel("rotation", shape, config, fill=0.5)),
        ("bounds", SymmetryModel("rotation", shape, config, bounds=[1.0])),
        ("samples", SymmetryModel("rotation", shape, config.replace(samples=1))),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected .* as in the checkpoint"):
            other.fit(images, resume=True, **run)
    models = [SymmetryModel("rotation", shape, config, fill=fill) for fill in (0.0, 0.5)]
    with pytest.raises(ValueError, match="config: expected equal settings"):
        fit_many(models, images, progress=False)


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
@pytest.mark.parametrize("group", ["rotation,translation", "c4"])
def test_other_precisions_train_and_leave_the_model_as_it_was(group, precision):
    stage = Recipe(steps=2, batch_size=8)
    config = small(widths=(16,), features=(16,), inference=stage, generative=stage)
    model, images = SymmetryModel(group, (1, SIDE, SIDE), config), shapes(32, 1.0, 0.0)
    model.fit(images, progress=False, device="cpu", precision=precision)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.summary(images, n=64).images == 32


def test_an_image_set_and_a_cnn():
    images = shapes(32, 1.0, 0.0)
    data = ImageSet(images, torch.arange(32) % 2, "shapes", ("a", "b"))
    stage = Recipe(steps=2, batch_size=8)
    config = small(kind="cnn", widths=(16,), features=(16,), inference=stage, generative=stage)
    model = SymmetryModel("rotation", (1, SIDE, SIDE), config)
    model.fit(data, progress=False, device="cpu")
    assert set(model.summary(data, n=64).classes) == {"a", "b"}


def test_collapse_is_said_with_the_remedy():
    images = shapes(16, 1.0, 0.0)
    model = SymmetryModel("translation", (1, SIDE, SIDE), small())
    with torch.no_grad():
        model.inference.head.bias[0] = 20.0  # prototypes far out of the frame
    with pytest.warns(RuntimeWarning, match="collapsed; raise invertibility to 1") as said:
        warn_if_collapsed(model, images)
    assert "blur" not in str(said[0].message)  # does not help: the study of collapse
    assert model.content_kept(images) < 0.05


def test_too_few_images_are_said(monkeypatch):
    with pytest.warns(RuntimeWarning, match=r"too few images \(24\).*by 2.0 nats"):
        warn_if_overfit(-3.0, -1.0, 24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_overfit(-2.0, -1.0, 24)
    asked = []
    monkeypatch.setattr(fitting, "warn_if_overfit", lambda *numbers: asked.append(numbers))
    for steps in (2, 3):  # 18 images are learned from, 8 in a step
        stage = Recipe(steps=steps, batch_size=8)
        config = small(
            widths=(16,), features=(16,), holdout=0.25, inference=stage, generative=stage
        )
        model = SymmetryModel("rotation", (1, SIDE, SIDE), config)
        model.fit(shapes(24, 1.0, 0.0), progress=False, device="cpu")
    with pytest.warns(RuntimeWarning, match=r"too few images \(1\) to hold one out"):
        model.fit(shapes(1, 1.0, 0.0), progress=False, device="cpu")
    ((learned, held_out, count),) = asked
    assert math.isfinite(learned)
    assert math.isfinite(held_out)
    assert count == 24


def test_edges_that_are_steps_are_said():
    config = small(inference=Recipe(steps=2, batch_size=8))
    soft = shapes(16, math.pi / 4, 0.0)
    for images, said in (((soft > 0.5).float(), True), (soft, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = SymmetryModel("rotation", (1, 16, 16), config)
            model.fit(images, stages=("inference",), progress=False)
        assert any("edges are sharp steps" in str(w.message) for w in caught) == said


def test_bounds_that_leave_the_frame_are_said():
    images = shapes(64, 1.0, 0.0)
    stage = Recipe(steps=1, batch_size=8)
    config = small(widths=(16,), features=(16,), inference=stage, generative=stage)
    model = SymmetryModel("translation", (1, SIDE, SIDE), config, bounds=(1.5, 1.5))
    with pytest.warns(RuntimeWarning, match="out of its frame"):
        model.fit(images, progress=False, device="cpu")


def test_bad_input():
    good = torch.rand(4, 1, SIDE, SIDE)
    model = SymmetryModel("rotation", (1, SIDE, SIDE), "quick")
    with pytest.raises(ValueError, match="sides of at least 8"):
        SymmetryModel("rotation", (1, 7, 16))
    with pytest.raises(ValueError, match="one of 'default', 'paper', 'quick'"):
        SymmetryModel("rotation", (1, 8, 8), "fast")
    with pytest.raises(ValueError, match="bounds: expected names among rotation"):
        SymmetryModel("rotation", (1, 8, 8), bounds={"zoom": 1.0})
    with pytest.raises(ValueError, match="bounds: expected 1 numbers"):
        SymmetryModel("rotation", (1, 8, 8), bounds=(1.0, 2.0))
    with pytest.raises(ValueError, match="bounds: expected a number in"):
        SymmetryModel("rotation", (1, 8, 8), bounds=(4.0,))
    with pytest.raises(ValueError, match=r"bounds: expected a number in \(0, inf\) for shift_x"):
        SymmetryModel("shift_x", (1, 8, 8), bounds=(float("inf"),))
    with pytest.raises(ValueError, match="fill: expected a number"):
        SymmetryModel("rotation", (1, 8, 8), fill=float("nan"))
    with pytest.raises(ValueError, match="no finite factor in a product"):
        SymmetryModel("rotation,flip_x", (1, 8, 8))
    with pytest.raises(ValueError, match="1 of 4 constant"):
        model.fit(torch.cat((good[:3], torch.zeros(1, 1, SIDE, SIDE))), progress=False)
    with pytest.raises(ValueError, match="finite values"):
        model.fit(good / 0, progress=False)
    with pytest.raises(ValueError, match="x: expected images of shape"):
        model.infer(torch.rand(4, 3, SIDE, SIDE))
    with pytest.raises(ValueError, match="stages: expected"):
        model.fit(good, stages=("inference", "prior"), progress=False)
    with pytest.raises(TypeError, match=r"stages: expected names.*try \('inference',\)"):
        model.fit(good, stages="inference", progress=False)
    with pytest.raises(ValueError, match="x: expected at least one image"):
        model.summary(good[:0])
    with pytest.raises(ValueError, match="x: expected finite values"):
        model.summary(good / 0)
    with pytest.raises(ValueError, match="labels: expected 4 class numbers"):
        model.summary(good, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="n: expected a whole number of at least 2"):
        model.summary(good, n=1)
    with pytest.raises(ValueError, match="bins: expected a whole number"):
        model.marginals(good, 0)
    open_family = SymmetryModel("rotation,scale", (1, SIDE, SIDE), "quick")
    with pytest.raises(ValueError, match="is not closed"):
        open_family.infer(good, refine=1)
