"""Commands look for the background at the borders, or take that of ``--fill`` or of a model."""

import json

import numpy as np
import pytest
import torch

from symmetries.analysis import classifiers
from symmetries.analysis.inputs import check_what_stays
from symmetries.data import ImageSet, load
from symmetries.estimators import InvariantClassifier, RelaxedClassifier


@pytest.fixture(autouse=True)
def small(monkeypatch):
    size = {"features": 48, "steps": 12, "batch_size": 200}
    monkeypatch.setitem(classifiers.INVARIANT_PRESETS, "quick", size)
    monkeypatch.setitem(
        classifiers.RELAXED_PRESETS, "quick", {"width": 2, "steps": 3, "batch_size": 32}
    )


@pytest.fixture
def sets(tmp_path):
    """The same digits on black, on grey, and in a colour."""
    found = load("digits").subset(range(200))
    dark = (found.images[:, 0] * 127).round().byte().numpy()
    np.savez(tmp_path / "black.npz", images=dark, labels=found.labels.numpy())
    np.savez(tmp_path / "grey.npz", images=dark + 128, labels=found.labels.numpy())
    rgb = np.stack((dark, dark + 64, dark + 128), 1)
    np.savez(tmp_path / "colour.npz", images=rgb, labels=found.labels.numpy())


def found(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("method", ["invariant", "augmented"])
def test_fits_over_any_background_are_the_same(run, sets, tmp_path, method):
    options = ["--method", method, "--quiet", "--json"]
    black, grey = (
        found(run("fit", f"{name}.npz", *options, "--out", name)) for name in ("black", "grey")
    )
    assert grey["elbo"] == pytest.approx(black["elbo"], abs=1e-3)
    wrong = found(run("fit", "grey.npz", "--fill", 0, *options, "--out", "wrong"))
    assert abs(wrong["elbo"] - black["elbo"]) > 1e-3
    assert "--fill 0" in wrong["run"]["command"]
    assert InvariantClassifier.load(tmp_path / "grey" / "model").fill_ == pytest.approx(128 / 255)


def test_relaxed_layers_have_it(run, sets, tmp_path):
    run("fit", "grey.npz", "--method", "relaxed", "--out", "out", "--quiet")
    assert RelaxedClassifier.load(tmp_path / "out" / "model").fill_ == pytest.approx(128 / 255)


def test_orbits_over_any_background_are_the_same(run, sets):
    black, grey, wrong = (
        found(
            run("orbit", data, "--group", "rotation", "--quiet", "--json", "--out", out, *options)
        )
        for data, out, options in [
            ("black.npz", "a", []),
            ("grey.npz", "b", []),
            ("grey.npz", "c", ["--fill", 0]),
        ]
    )
    changes = [np.array(one["transformations"][0]["change"]) for one in (black, grey, wrong)]
    np.testing.assert_allclose(changes[0], changes[1], atol=0.01)  # clipped at 0 and 1
    assert (changes[2] > changes[1] + 0.02).any()


def test_an_audit_has_the_background_of_its_model(run, sets, tmp_path):
    run("fit", "grey.npz", "--fill", 0.25, "--out", "fitted", "--quiet")
    options = ["--group", "rotation", "--examples", 10, "--quiet", "--json", "--overwrite"]
    own, given, other = (
        found(run("audit", "fitted", "grey.npz", *options, *more))["logit_invariance"]["mean"]
        for more in ([], ["--fill", 0.25], ["--fill", 0.5])
    )
    assert own == given
    assert own != other


def test_audits_of_other_models_look_for_it(run, sets, tmp_path):
    (tmp_path / "sums.py").write_text(
        "import torch\n"
        "def net(x):\n"
        "    total = x.mean((1, 2, 3))\n"
        "    return torch.stack([total * k for k in range(1, 11)], 1)\n"
        "def on_grey(x):\n"
        "    return net(x - 128 / 255)\n"
    )
    options = ["--group", "rotation", "--examples", 10, "--quiet", "--json", "--overwrite"]
    black, grey, wrong = (
        found(run("audit", f"sums:{model}", data, *options, *more))
        for model, data, more in [
            ("net", "black.npz", ["--drift-to", "black.npz"]),
            ("on_grey", "grey.npz", ["--drift-to", "grey.npz"]),
            ("on_grey", "grey.npz", ["--fill", 0]),
        ]
    )
    for name in ("logit_invariance", "saliency_similarity"):
        assert grey[name]["mean"] == pytest.approx(black[name]["mean"], rel=1e-3)
        assert grey["drift"][1][name]["mean"] == pytest.approx(
            black["drift"][1][name]["mean"], rel=1e-3
        )
    assert wrong["logit_invariance"]["mean"] > 10 * grey["logit_invariance"]["mean"]


@pytest.mark.parametrize("command", ["discover", "fit", "orbit"])
def test_a_background_that_was_found_is_said(run, tiny, sets, command):
    said = {}
    for data, options in (("grey", ()), ("black", ()), ("grey", ("--fill", 0.5))):
        result = run(command, f"{data}.npz", "--group", "rotation", "--overwrite", *options)
        assert result.exit_code == 0, result.output
        said[data, len(options)] = "background 0.502, found at the borders" in result.stderr
    assert said == {("grey", 0): True, ("black", 0): False, ("grey", 2): False}


@pytest.mark.parametrize("command", ["fit", "orbit"])
def test_a_coloured_background_is_told(run, tiny, sets, command):
    result = run(command, "colour.npz", "--group", "rotation", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning: the background has a colour (0, 0.251, 0.502") == 1
    told = run(command, "colour.npz", "--group", "rotation", "--quiet", "--fill", 0, "--overwrite")
    assert "has a colour" not in told.stderr


@pytest.mark.parametrize("command", ["fit", "orbit"])
def test_constant_images_only(run, tmp_path, command):
    images = np.full((20, 8, 8), 7, np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 2)
    result = run(command, "a.npz", "--group", "rotation", "--quiet")
    assert (result.exit_code, "constant ones only" in result.stderr) == (3, True)


def test_some_constant_images(run, tmp_path):
    images = np.zeros((20, 8, 8), np.uint8)
    images[:15, 2:5, 3:6] = np.random.default_rng(0).integers(1, 255, (15, 3, 3))
    np.savez(tmp_path / "a.npz", images=images, labels=(np.arange(20) > 14).astype(int))
    left = run("orbit", "a.npz", "--group", "rotation", "--quiet", "--json")
    assert "5 images of one colour were left out" in left.stderr
    assert found(left)["data"]["count"] == 15
    assert found(run("fit", "a.npz", "--quiet", "--json"))["data"]["count"] == 16  # a class of them


def scenes(light):
    """Spots in random places, over a light that is given for every picture."""
    generator = torch.Generator().manual_seed(0)
    pictures = light.expand(100, 1, 16, 16).clone()
    for picture, (y, x) in zip(
        pictures, torch.randint(4, 10, (100, 2), generator=generator), strict=True
    ):
        picture[:, y : y + 3, x : x + 2] = 1
    return ImageSet((pictures + 0.02 * torch.rand(pictures.shape, generator=generator)).clamp(0, 1))


ACROSS = torch.linspace(-1, 1, 16)
NOISE = torch.rand(100, 1, 16, 16, generator=torch.Generator().manual_seed(1))
ROUND = ((ACROSS[:, None] ** 2 + ACROSS**2) < 1).float()
STAMP = torch.zeros(16, 16).index_put((torch.tensor([15]), torch.arange(10, 14)), torch.ones(()))


@pytest.mark.parametrize("light", [0.25 + 0.2 * ACROSS, STAMP], ids=["light", "stamp"])
def test_what_stays_at_the_border_brings_a_warning(run, tiny, tmp_path, light):
    pictures = (255 * scenes(light).images[:, 0]).byte().numpy()
    np.savez(tmp_path / "mine.npz", images=pictures)
    done = run("discover", "mine.npz", "--group", "rotation", "--no-check", "--out", "out")
    assert done.exit_code == 0, done.output
    warnings = json.loads((tmp_path / "out" / "symmetries.json").read_text())["warnings"]
    assert any("nearly the same in all pictures" in text for text in warnings)


@pytest.mark.parametrize(
    "light",
    [torch.tensor(0.4), ROUND, ROUND * NOISE],
    ids=["plain", "window", "textures"],
)
def test_other_borders_bring_none(light, recwarn):
    check_what_stays(scenes(light))
    assert not recwarn


@pytest.mark.parametrize(("colour", "warned"), [((0.2, 0.3, 0.6), True), ((0.4, 0.4, 0.4), False)])
def test_a_colour_that_stays_at_the_border_brings_a_warning(run, tiny, tmp_path, colour, warned):
    pictures = scenes(STAMP).images * torch.tensor(colour).view(3, 1, 1)
    pictures = pictures + 0.3 * torch.tensor(colour).view(3, 1, 1)
    np.savez(tmp_path / "mine.npz", images=(255 * pictures).byte().numpy())
    done = run("discover", "mine.npz", "--group", "hue", "--no-check", "--out", "out")
    assert done.exit_code == 0, done.output
    texts = json.loads((tmp_path / "out" / "symmetries.json").read_text())["warnings"]
    assert any("same colours in all pictures" in text for text in texts) == warned
    assert not any("reveals their poses" in text for text in texts)
