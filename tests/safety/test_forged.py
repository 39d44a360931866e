"""States whose hashes are right and whose content is not."""

import hashlib
import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from symmetries.estimators import InvariantClassifier
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.symmetry_model import SymmetryModel


def forge(folder, change):
    """Change the plain data of a state, with hashes that are right."""
    path = folder / "model.json"
    header = json.loads(path.read_text())
    header.pop("sha256")
    header["meta"] = change(header["meta"])
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    whole = {**header, "sha256": digest}
    path.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    images, labels = rng.random((30, 64)), np.arange(30) % 3
    return InvariantClassifier("rotation", features=16, steps=2, random_state=0).fit(images, labels)


@pytest.fixture
def pictures(tmp_path):
    images = np.random.default_rng(0).random((30, 8, 8))
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(30) % 3)
    return "a.npz"


def within(meta, part, **values):
    return {**meta, part: {**meta[part], **values}}


FORGED = {
    "a list": lambda meta: [1],
    "null": lambda meta: None,
    "parameters null": lambda meta: {**meta, "parameters": None},
    "no parameters": lambda meta: {k: v for k, v in meta.items() if k != "parameters"},
    "fitted a list": lambda meta: {**meta, "fitted": [1]},
    "many samples": lambda meta: within(meta, "parameters", samples=10**9),
    "many features": lambda meta: within(meta, "parameters", features=10**9),
    "no classes": lambda meta: within(meta, "fitted", classes_=None),
    "another method": lambda meta: within(meta, "fitted", _build=3),
    "no estimator": lambda meta: {**meta, "estimator": None},
    "a module": lambda meta: {**meta, "estimator": "saving"},
}


@pytest.mark.parametrize("name", sorted(FORGED))
def test_a_forged_classifier_is_refused_in_our_words(run, tmp_path, pictures, classifier, name):
    classifier.save(tmp_path / "model")
    forge(tmp_path / "model", FORGED[name])
    result = run("audit", "model", pictures, "--quiet")
    assert result.exit_code == 3, result.output
    assert "please report" not in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: [1],
        lambda meta: None,
        lambda meta: {**meta, "shape": None},
        lambda meta: {**meta, "shape": [1, 8]},
        lambda meta: {**meta, "config": []},
        lambda meta: {k: v for k, v in meta.items() if k != "bounds"},
    ],
)
def test_a_forged_symmetry_model_is_refused_in_our_words(run, tmp_path, pictures, change):
    SymmetryModel("rotation", (1, 8, 8), "quick").save(tmp_path / "model")
    forge(tmp_path / "model", change)
    result = run("augment", "model", pictures, "--quiet", "--out", "more.npz")
    assert result.exit_code == 3, result.output
    assert "please report" not in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: {**meta, "shape": None},
        lambda meta: {**meta, "shape": [1, 8]},
        lambda meta: {**meta, "shape": [1, 10**5, 10**5]},
        lambda meta: {**meta, "folds": 10**9},
        lambda meta: {**meta, "folds": "two"},
        lambda meta: {**meta, "config": []},
        lambda meta: {**meta, "frame": [1]},
        lambda meta: {**meta, "reach": {"rotation": "far"}},
        lambda meta: {**meta, "learner": "symmetry_model"},
        lambda meta: {k: v for k, v in meta.items() if k != "levels"},
    ],
)
def test_a_forged_orbit_posterior_is_refused_in_our_words(run, tmp_path, pictures, change):
    OrbitPosterior("rotation", (1, 8, 8), "quick").save(tmp_path / "model")
    forge(tmp_path / "model", change)
    result = run("augment", "model", pictures, "--quiet", "--out", "more.npz")
    assert result.exit_code == 3, result.output
    assert "please report" not in result.stderr


@pytest.mark.parametrize("command", ["audit", "wrap"])
@pytest.mark.parametrize("answer", ["None", "'text'", "x.flatten(1) * float('nan')"])
def test_a_model_that_answers_nothing_is_named(run, tmp_path, pictures, command, answer):
    np.savez(tmp_path / "b.npz", images=np.random.default_rng(0).random((240, 8, 8)))
    (tmp_path / "foreign.py").write_text(f"def net(x):\n    return {answer}\n")
    name = f"foreign{abs(hash((command, answer)))}"  # a module is imported once
    (tmp_path / "foreign.py").rename(tmp_path / f"{name}.py")
    done = run(command, f"{name}:net", "b.npz", "--group", "c4", "--out", "out", "--quiet")
    assert done.exit_code == 3, done.output
    assert done.output.startswith("error: model")


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("file", ["tensors", "header"])
def test_tensors_that_never_end(spawn, tmp_path, kind, file):
    """In a process with a limit of time and of memory."""
    model = tmp_path / "model"
    model.mkdir()
    save_file({"a": torch.zeros(2)}, str(model / "model-0000000000000000.safetensors"))
    header = {"format": "symmetries-state", "version": 1, "meta": {}, "tensors_sha256": "0" * 64}
    header["tensors"] = "model-0000000000000000.safetensors"
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
    text = json.dumps({**header, "sha256": digest}, indent=1, sort_keys=True) + "\n"
    (model / "model.json").write_text(text)
    path = model / ("model.json" if file == "header" else header["tensors"])
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    code = (
        "import resource, sys\nfrom symmetries.training import load_state\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "try:\n    load_state('model')\nexcept ValueError as error:\n    sys.exit(str(error))\n"
    )
    process = spawn(code=code)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1, said
    assert "no plain file" in said


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_config_that_never_ends(spawn, tmp_path, kind):
    path = tmp_path / "a.toml"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    code = (
        "import resource\nfrom symmetries.cli import app\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\napp()\n"
    )
    process = spawn("sweep", "a.toml", code=code)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 3, said
    assert "no plain file" in said
