"""ONNX files: what was measured is what ONNX Runtime answers, and no file ends in a crash."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from symmetries.auditing.onnx_graph import load_onnx
from symmetries.auditing.onnx_operators import OPERATORS

sys.path.insert(0, str(Path(__file__).parents[2] / "campaign"))

import hostile_onnx


@pytest.fixture
def pictures(tmp_path):
    """Pictures with a dark corner, as long as they are not turned."""
    images = np.random.default_rng(0).random((40, 8, 8)).astype(np.float32)
    images[:, 0, 0] = 0
    images[:, -1, -1] = images[:, 0, -1] = images[:, -1, 0] = 1
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(40) % 3)
    return "a.npz"


def changed(path, images):
    """The share of predictions that a quarter turn changes, by ONNX Runtime alone."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def classes(x):
        return session.run(None, {"x": np.ascontiguousarray(x[:, None])})[0].argmax(1)

    turns = [np.rot90(images, k, (1, 2)) for k in (1, 2, 3)]
    return np.mean([classes(images) != classes(turn) for turn in turns])


@pytest.mark.parametrize("domain", ["evil", "ai.onnx.evil"])
def test_a_function_of_the_files_own_does_not_deceive(run, tmp_path, pictures, domain):
    path = hostile_onnx.own_function(tmp_path / "net.onnx", domain)
    result = run("audit", "net.onnx", pictures, "--json", "--quiet", "--examples", 8)
    assert result.exit_code == 0, result.output
    assert f"operators that are not converted: {domain}::Relu" in result.stderr
    found = json.loads(result.stdout)
    assert found["saliency_similarity"] is None
    images = np.load(tmp_path / pictures)["images"]
    assert changed(path, images) > 0.5
    assert found["logit_invariance"]["mean"] > 100, "the measured model is not the one in the file"


def test_a_conversion_that_differs_on_moved_pictures_is_not_used(tmp_path, monkeypatch):
    """An operator that is right on the pictures as they are, and wrong elsewhere."""
    images = torch.rand(6, 1, 8, 8)
    images[:, :, 0, 0] = 0.0
    flatten = OPERATORS["Flatten"]

    def wrong(inputs, given):
        flat = flatten(inputs, given)
        return torch.where(flat[:, :1] > 0, -flat, flat)

    monkeypatch.setitem(OPERATORS, "Flatten", wrong)
    path = hostile_onnx.perceptron(tmp_path / "net.onnx")
    _, problem = load_onnx(path, images)
    assert problem is not None
    assert "off by" in problem


@pytest.mark.parametrize("name", hostile_onnx.NODE_NAMES)
def test_any_name_of_a_node(run, tmp_path, pictures, name):
    hostile_onnx.perceptron(tmp_path / "net.onnx", name)
    result = run("audit", "net.onnx", pictures, "--quiet", "--json", "--examples", 4)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["saliency_similarity"] is not None


@pytest.mark.parametrize(
    "make", [hostile_onnx.text_constant, hostile_onnx.bfloat16_weight, hostile_onnx.constant_logits]
)
def test_ordinary_files_are_measured(run, tmp_path, pictures, make):
    make(tmp_path / "net.onnx")
    result = run("audit", "net.onnx", pictures, "--quiet", "--json", "--examples", 4)
    assert "please report" not in result.stderr
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("empty", [True, False])
def test_a_file_without_outputs_is_refused(run, tmp_path, pictures, empty):
    path = hostile_onnx.perceptron(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.ClearField("output")
    path.write_bytes(b"" if empty else model.SerializeToString())
    done = run("audit", "net.onnx", pictures)
    assert done.exit_code == 3
    assert "with an output" in " ".join(done.output.split())
