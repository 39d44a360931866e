"""``symmetries fit``: metrics, methods, and models that load again."""

import json
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from symmetries._utils.config import presets_of
from symmetries.analysis import classifiers
from symmetries.auditing.estimate import wilson_interval
from symmetries.data import load
from symmetries.estimators import InvariantClassifier
from symmetries.learners import InvariantNetworkConfig
from symmetries.learners.invariant_network import candidates, evidence
from symmetries.report.fit_words import interval_text, reach_of
from symmetries.results import FitResult, Invariance


@pytest.fixture(autouse=True)
def small(monkeypatch):
    size = {"features": 48, "steps": 12, "batch_size": 200}
    monkeypatch.setitem(classifiers.INVARIANT_PRESETS, "quick", size)


def test_invariance_is_learned_and_the_model_loads_again(run, tmp_path):
    result = run("fit", "digits", "--group", "rotation", "--out", "out")
    assert result.exit_code == 0, result.output
    assert "invariant to rotation" in result.stdout
    found = FitResult.load(tmp_path / "out" / "metrics.json")
    low, high = found.accuracy_interval
    assert 0.5 < low < found.accuracy < high < 1
    assert found.invariance[0].unit == "degrees"
    assert found.training.half_width["rotation"][-1] == pytest.approx(
        found.invariance[0].half_width, rel=0.1
    )
    test = load("digits", "test")
    model = InvariantClassifier.load(tmp_path / "out" / "model")
    assert model.score(test.images.numpy(), test.labels.numpy()) == found.accuracy
    right = (model.module()(test.images).argmax(1) == test.labels).float().mean()
    assert float(right) == pytest.approx(found.accuracy, abs=0.02)
    assert "Classifying digits" in (tmp_path / "out" / "report.html").read_text()


def test_the_schema_of_metrics(run):
    found = json.loads(run("fit", "digits", "--quiet", "--json").stdout)
    assert isinstance(found["accuracy"], float)
    assert isinstance(found["elbo"], float)
    names = {"name", "unit", "half_width", "interval", "told", "gain", "gain_right"}
    assert set(found["invariance"][0]) == names


@pytest.mark.parametrize("method", ["plain", "augmented"])
def test_methods_without_learned_invariance(run, method):
    found = json.loads(run("fit", "digits", "--method", method, "--quiet", "--json").stdout)
    assert found["method"] == method
    assert found["invariance"][0]["half_width"] == 0
    assert found["accuracy"] > 0.5


@pytest.fixture
def quick_network(monkeypatch):
    """A function that makes networks learn quickly; what they learn is tested with the learner."""

    def shorten(**changes):
        preset = InvariantNetworkConfig.preset("quick")
        quick = preset.replace(search=3, samples=4, curvature_rows=64, **changes)
        monkeypatch.setitem(presets_of(InvariantNetworkConfig), "quick", quick)
        monkeypatch.setattr(evidence, "TRACED", 100)
        monkeypatch.setattr(evidence, "EXACT", {"cpu": (0, 0)})  # extrapolated, as for large sets

    return shorten


def test_a_network_is_averaged_and_shown_beside_the_plain_one(run, tmp_path, quick_network):
    quick_network(steps=60, every=15)
    result = run("fit", "digits", "--network", "cnn", "--out", "out")
    assert result.exit_code == 0, result.output
    assert "without transformations" in result.stdout
    found = FitResult.load(tmp_path / "out" / "metrics.json")
    assert found.network == "cnn"
    assert min(found.accuracy, found.plain_accuracy) > 0.5
    (curve,) = found.evidence
    assert len(curve.half_width) == len(curve.log_evidence) >= 5
    assert (curve.half_width[0], curve.half_width[-1]) == pytest.approx((0, 180))
    low, high = found.invariance[0].interval
    assert low <= found.invariance[0].half_width <= high
    assert "--network cnn" in found.run.command
    test = load("digits", "test")
    model = InvariantClassifier.load(tmp_path / "out" / "model")
    assert model.score(test.images.numpy(), test.labels.numpy()) == found.accuracy
    logits = model.module()(test.images)
    assert float((logits.argmax(1) == test.labels).float().mean()) == pytest.approx(
        found.accuracy, abs=0.005
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "the same network without transformations" in page
    assert f"{100 * found.plain_accuracy:.1f} %" in page


def test_an_interrupted_search_of_a_network_is_resumed(run, tmp_path, monkeypatch, quick_network):
    quick_network(steps=8, every=4)  # bits are compared, not quality
    some = load("digits").subset(range(200))
    np.savez(tmp_path / "a.npz", images=some.images[:, 0].numpy(), labels=some.labels.numpy())
    words = ("fit", "a.npz", "--network", "cnn", "--quiet", "--json", "--device", "cpu")
    whole = json.loads(run(*words, "--out", "whole").stdout)
    asked, trained_at = [], candidates.trained_at

    def until_the_third(*given):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(trained_at(*given))
        return asked[-1]

    monkeypatch.setattr(candidates, "trained_at", until_the_third)
    stopped = run(*words, "--out", "parts")
    assert "--resume" in stopped.stderr
    assert (tmp_path / "parts.resume" / "search.json").is_file()
    monkeypatch.setattr(candidates, "trained_at", trained_at)
    resumed = json.loads(run(*words, "--out", "parts", "--resume").stdout)
    for name in ("accuracy", "plain_accuracy", "invariance", "evidence"):
        assert resumed[name] == whole[name], name
    assert not (tmp_path / "parts.resume").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--network", "vgg99"], "network: expected 'cnn' or 'resnet'"),
        (["--network", "cnn", "--method", "relaxed"], "network: expected none with --method"),
        (["--network", "cnn", "--group", "c4"], "a group with continuous parameters"),
    ],
)
def test_networks_that_cannot_be_handled_are_one_line(run, tmp_path, options, message):
    result = run("fit", "digits", "--quiet", "--device", "cpu", *options)
    assert result.exit_code == 3
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("out/*"))


def test_a_fifth_is_held_out_where_there_is_no_test_split(run, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((50, 8, 8)), labels=np.arange(50) % 2)
    found = json.loads(run("fit", "a.npz", "--quiet", "--json").stdout)
    assert (found["examples"], found["data"]["count"]) == (10, 40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magic"], "method: expected one of"),
        (["--half-width", "0.5"], "--half-width: expected"),
        (["--group", "hue"], "use --group with rotation, translation, scale"),
        (["--group", "c4"], "got 'c4'; use --group rotation, or --method relaxed for c4"),
        (["--group", "d4", "--method", "augmented"], "or --method relaxed for d4"),
        (["--group", "flip_x"], "use --group with rotation, translation, scale"),
    ],
)
def test_bad_options_are_one_line(run, tmp_path, options, message):
    result = run("fit", "digits", "--quiet", *options)
    assert result.exit_code == 3
    assert message in result.stderr
    assert not list(tmp_path.glob("out/*"))


def test_images_without_labels_are_refused(run, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((20, 8, 8)))
    assert "symmetries discover" in run("fit", "a.npy", "--quiet").stderr


@pytest.mark.parametrize(
    ("name", "unit", "text"),
    [
        ("rotation", "degrees", "±1° (95 %: 1° to 2°)"),
        ("shift_x", "pixels", "±1.4 px (95 %: 1.2 px to 1.6 px)"),
        ("scale_x", "factor", "×0.71 to ×1.40 (95 %: upper end ×1.20 to ×1.60)"),
        ("zoom", "factor", "×0.71 to ×1.40 (95 %: upper end ×1.20 to ×1.60)"),
    ],
)
def test_intervals_are_said_in_words_of_their_unit(name, unit, text):
    part = Invariance(name=name, unit=unit, half_width=1.4, interval=(1.2, 1.6))
    assert reach_of(part) + interval_text(part) == text


def test_wilson_against_a_published_example():
    low, high = wilson_interval(0.5, 10)
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson_interval(1.0, 50)[1] == 1.0


def test_augmented_keeps_the_originals_first():
    images, labels = torch.rand(3, 1, 8, 8), torch.arange(3)
    more, names = classifiers.augmented(images, labels, "rotation", (1.0,), 2, 0)
    assert torch.equal(more[:3], images)
    assert names.tolist() == [0, 1, 2] * 3


def test_relaxed_layers(run, tmp_path, monkeypatch):

    monkeypatch.setitem(
        classifiers.RELAXED_PRESETS, "quick", {"width": 2, "steps": 6, "batch_size": 32}
    )
    result = run("fit", "digits", "--method", "relaxed", "--out", "out", "--quiet", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["group"], found["elbo"], found["invariance"]) == ("c4", None, [])
    assert {row["coordinate"] for row in found["relaxation"]} == {"rotation"}
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Layer by layer" in html
    assert "away from strict equivariance" in html
    assert "features.0" in html
    steps, curves = found["training"]["step"], found["training"]["relaxation"]
    assert set(curves) == {f"{row['layer']} {row['coordinate']}" for row in found["relaxation"]}
    for row in found["relaxation"]:
        curve = curves[f"{row['layer']} {row['coordinate']}"]
        assert (len(curve), steps[-1]) == (len(steps), 6)
        assert curve[-1] == pytest.approx(row["value"], abs=0.05)  # one step before
    assert len(found["training"]["loss"]) == len(steps)
    assert "How it was learned" in html
    assert not (tmp_path / "out.resume").exists()
    audited = run("audit", "out", "digits", "--examples", 10, "--quiet", "--json")
    assert audited.exit_code == 0, audited.output
    layers = json.loads(audited.stdout)["layers"]
    assert sum(layer["relaxation"] is not None for layer in layers) == len(found["relaxation"])


@pytest.mark.parametrize("method", ["invariant", "plain", "augmented"])
def test_an_interrupted_fit_goes_on(run, tmp_path, monkeypatch, method):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((40, 8, 8)), labels=np.arange(40) % 2)
    arguments = ["fit", "a.npz", "--method", method, "--quiet", "--json"]
    whole = json.loads(run(*arguments, "--out", "whole").stdout)
    real, steps = classifiers.progress_bar, []

    @contextmanager
    def bar(*given, **options):
        def advance(done):
            steps.append(done)
            if len(steps) == 5:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(classifiers, "progress_bar", bar)
    stopped = run(*arguments, "--out", "out")
    assert (stopped.exit_code, "--seed 0 --resume" in stopped.stderr) == (130, True)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(classifiers, "progress_bar", real)
    other = run(*arguments, "--out", "out", "--resume", "--seed", "3")
    assert "seed: expected 0 as in the checkpoint" in other.stderr
    assert "got 3; resume with that seed" in other.stderr
    resumed = json.loads(run(*arguments, "--out", "out", "--resume").stdout)
    for key in ("accuracy", "elbo", "invariance", "log_likelihood"):
        assert resumed[key] == whole[key]
    assert not (tmp_path / "out.resume").exists()


def test_an_interrupted_relaxed_fit_goes_on(run, tmp_path, monkeypatch):
    from symmetries.analysis import classifiers
    from symmetries.learners.relaxed import training as learner

    monkeypatch.setitem(
        classifiers.RELAXED_PRESETS, "quick", {"width": 2, "steps": 8, "batch_size": 8}
    )
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((40, 8, 8)), labels=np.arange(40) % 2)
    arguments = ["fit", "a.npz", "--method", "relaxed", "--quiet", "--json"]
    whole = json.loads(run(*arguments, "--out", "whole").stdout)
    real, calls = learner.relaxation_penalty, []

    def penalty(model):
        calls.append(model)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)  # Ctrl-C
        return real(model)

    monkeypatch.setattr(learner, "relaxation_penalty", penalty)
    stopped = run(*arguments, "--out", "out")
    assert stopped.exit_code == 130
    assert "interrupted; go on with: symmetries fit a.npz --method relaxed" in stopped.stderr
    assert "--seed 0 --resume" in stopped.stderr
    assert not (tmp_path / "out").exists()
    assert len(calls) == 5
    resumed = json.loads(run(*arguments, "--out", "out", "--resume").stdout)
    assert len(calls) == 8
    for key in ("accuracy", "relaxation", "log_likelihood", "training"):
        assert resumed[key] == whole[key]
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", "out", "whole"}


def test_relaxed_layers_need_rotations(run):
    assert "try 'c4' or 'd4'" in run("fit", "digits", "--method", "relaxed", "--group", "t3").stderr
