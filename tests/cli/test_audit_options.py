"""``symmetries audit``: how images are chosen, prepared and moved, and that it is all recorded."""

import numpy as np
import pytest
import torch
from PIL import Image

from symmetries import audit
from symmetries.analysis.inputs import resized
from symmetries.analysis.preprocessing import make_preprocessing, preprocessed
from symmetries.auditing import AuditResult
from symmetries.data import ImageSet, picture_folder

MODEL = """import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3), torch.nn.Softmax(1))
"""


@pytest.fixture
def colours(tmp_path):
    (tmp_path / "mymodel_of_colours.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "c.npz", images=rng.random((30, 8, 8, 3)))
    return "mymodel_of_colours:net", "c.npz"


def found_in(tmp_path, name="c"):
    return AuditResult.load(tmp_path / "out" / f"audit-{name}" / "audit.json")


def test_all_images_without_labels(run, tmp_path, colours, recwarn):
    result = run("audit", *colours, "--group", "rotation", "--range", "rotation=10")
    assert result.exit_code == 0, result.output
    found = found_in(tmp_path)
    assert (found.examples, found.accuracy, found.output) == (30, None, "probabilities")
    assert "same prediction when moved" in result.stdout
    assert "rotation \u221210° to +10°" in result.stderr
    page = (tmp_path / "out" / "audit-c" / "report.html").read_text()
    assert "rotation \u221210° to +10°" in page
    assert "logarithms are taken" in page
    assert "Salient by how much" in page
    options = "--group rotation --range rotation=10 --out out/audit-c --preset quick --seed 0"
    assert found.run.command == f"symmetries audit mymodel_of_colours:net c.npz {options}"


def test_fast_measures_outputs_only(run, tmp_path, colours, recwarn):
    result = run("audit", *colours, "--fast", "--normalize", "imagenet", "--channels", "bgr")
    assert result.exit_code == 0, result.output
    found = found_in(tmp_path)
    assert found.saliency_area is None
    assert not found.layers
    assert any("outputs only" in note for note in found.notes)
    assert (found.preprocessing.channels, found.preprocessing.mean[0]) == ("bgr", 0.485)
    assert "channels bgr; mean 0.485" in result.stderr
    assert "channels bgr" in (tmp_path / "out" / "audit-c" / "report.html").read_text()


def test_examples_mean_what_they_say(run, tmp_path, colours, recwarn):
    run("audit", *colours, "--fast", "--examples", 12)
    assert found_in(tmp_path).examples == 12
    more = run("audit", *colours, "--fast", "--examples", 1000, "--overwrite")
    assert "1,000 images were requested, there are 30" in more.stderr
    assert found_in(tmp_path).examples == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--normalize", "0.5"], "normalize: expected imagenet or mean/std"),
        (["--normalize", "0.5/0"], "normalize: expected imagenet or mean/std"),
        (["--channels", "gbr"], "channels: expected one of"),
        (["--fit", "squash"], "fit: expected one of"),
        (["--fit", "crop"], "fit: expected a size to fit images into, got 'crop' without one"),
        (["--group", "rotation", "--range", "rotation=400"], "range: expected for rotation"),
        (["--group", "hflip"], "did you mean flip_x"),
        (["--output", "boxes-or-so"], "output: expected a kind: logits, probabilities, embedding"),
        (["--output", "embeding"], "did you mean embedding?"),
        (["--output", "0:squares"], "output: expected one of"),
    ],
)
def test_bad_options_are_named(run, colours, options, message, recwarn):
    result = run("audit", *colours, *options)
    assert (result.exit_code, message in result.stderr) == (3, True), result.stderr


def test_a_model_sees_what_it_was_trained_on():
    x = torch.rand(4, 3, 5, 5)
    done = make_preprocessing("0.1,0.2,0.3/0.5,0.25,2", "bgr")
    seen = preprocessed(lambda x: x, done)(x)
    for place, (mean, std) in enumerate(((0.1, 0.5), (0.2, 0.25), (0.3, 2.0))):
        torch.testing.assert_close(seen[:, place], (x[:, 2 - place] - mean) / std)
    grey = preprocessed(torch.nn.Identity(), make_preprocessing("imagenet"))(x[:, :1])
    assert grey.shape == (4, 3, 5, 5)
    with pytest.raises(ValueError, match="normalize: expected images with 2 channels"):
        preprocessed(lambda x: x, make_preprocessing("0,0/1,1"))(x)


def test_images_are_moved_before_they_are_normalised():
    """The corners that a turn uncovers are black, not the mean: the model sees (0 - mean) / std."""
    seen = []

    def model(x):
        seen.append(x)
        return x.flatten(1)[:, :3]

    options = {"range": "rotation=45", "fill": 0.0, "fast": True, "normalize": "0.5/0.25"}
    audit(model, torch.ones(4, 1, 8, 8), "rotation", progress=False, **options)
    assert min(float(x.min()) for x in seen) == pytest.approx(-2.0)
    assert max(float(x.max()) for x in seen) == pytest.approx(2.0, abs=1e-4)


def test_a_model_of_ours_is_not_scored_on_what_it_has_seen(run, tmp_path, colours, recwarn):
    rng = np.random.default_rng(0)
    labels = np.arange(50) % 2
    images = rng.random((50, 8, 8)) * 0.5 + labels[:, None, None] * 0.4
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", images=images + (name == "b") * 0.01, labels=labels)
    run("fit", "a.npz", "--method", "plain", "--out", "fitted", "--quiet")
    result = run("audit", "fitted/model", "a.npz", "--fast")
    assert "10 of 50 images" in result.stderr, result.output
    assert found_in(tmp_path, "a").examples == 10
    run("audit", "fitted/model", "b.npz", "--fast")  # other data: all of it
    assert found_in(tmp_path, "b").examples == 50


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_pictures_of_other_shapes(tmp_path, fit):
    """A disc in a wide picture stays round unless it is stretched, in files and in arrays."""
    y, x = np.mgrid[:40, :80]
    disc = (((x - 39.5) ** 2 + (y - 19.5) ** 2) < 14**2) * np.uint8(255)
    Image.fromarray(disc).save(tmp_path / "one.png")
    read = picture_folder(tmp_path, size=(32, 32), fit=fit).images[0, 0]
    array = resized(ImageSet(torch.tensor(disc[None, None] / 255).float()), (32, 32), fit)
    assert read.shape == array.images.shape[-2:] == (32, 32)
    assert float((read - array.images[0, 0]).abs().mean()) < 0.01
    wide, high = int((read.amax(0) > 0.5).sum()), int((read.amax(1) > 0.5).sum())
    expected = {"stretch": (11, 22), "crop": (22, 22), "pad": (11, 11)}[fit]
    assert (wide, high) == pytest.approx(expected, abs=1)
