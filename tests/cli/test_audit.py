"""``symmetries audit``: every kind of model, and what is refused."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from symmetries.actions import ImageAction
from symmetries.analysis import classifiers
from symmetries.analysis.audit_pictures import orbit_tracks
from symmetries.auditing import AuditResult
from symmetries.data import ImageSet
from symmetries.groups import Cyclic


class ByRing(nn.Module):
    """Invariant to quarter turns: sees sums over the four rotations of the picture."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

    def forward(self, x):
        return sum(self.net(torch.rot90(x, k, (2, 3))) for k in range(4))


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((30, 8, 8)), labels=np.arange(30) % 3)
    return "a.npz"


def test_a_model_of_ours(run, tmp_path, monkeypatch):
    size = {"features": 24, "steps": 4, "batch_size": 200}
    monkeypatch.setitem(classifiers.INVARIANT_PRESETS, "quick", size)
    run("fit", "digits", "--out", "fitted", "--quiet")
    result = run("audit", "fitted/model", "digits", "--examples", 20, "--out", "out")
    assert result.exit_code == 0, result.output
    assert "saliency similarity" in result.stdout
    found = AuditResult.load(tmp_path / "out" / "audit.json")
    assert (found.group, found.elements, found.examples) == ("c4", 3, 20)
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Is it invariant to c4?" in html
    assert "Where it looks" in html


def test_no_image_is_scored_that_a_fit_has_seen(run, tmp_path, monkeypatch):
    monkeypatch.setitem(
        classifiers.INVARIANT_PRESETS, "quick", {"features": 200, "steps": 200, "batch_size": 48}
    )
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.random((60, 8, 8)), labels=rng.integers(0, 3, 60))
    run("fit", "a.npz", "--method", "plain", "--seed", 3, "--out", "fitted", "--quiet")
    run("audit", "fitted/model", "a.npz", "--out", "out", "--quiet")
    found = AuditResult.load(tmp_path / "out" / "audit.json")
    assert found.accuracy.mean < 0.6  # labels mean nothing: seen images only can be told


def test_an_exported_program(run, tmp_path, pictures):
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(
        ByRing().eval(), (torch.rand(4, 1, 8, 8),), dynamic_shapes={"x": {0: batch}}
    )
    torch.export.save(program, tmp_path / "net.pt2")
    result = run("audit", "net.pt2", pictures, "--trust", "--quiet", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["normalised_logit_invariance"]["mean"] < 1e-10
    assert "Yes, exactly" in (tmp_path / "out" / "audit-a" / "report.html").read_text()


def test_a_fixed_batch_is_refused_with_the_remedy(run, tmp_path, pictures):
    program = torch.export.export(ByRing().eval(), (torch.rand(4, 1, 8, 8),))
    torch.export.save(program, tmp_path / "net.pt2")
    result = run("audit", "net.pt2", pictures, "--trust", "--quiet")
    assert result.exit_code == 3
    assert "dynamic first axis" in result.stderr


def test_a_callable_and_a_continuous_group(run, tmp_path, pictures):
    (tmp_path / "mymodel.py").write_text(
        "import torch\n\nweight = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))\n"
        "\n\ndef net(x):\n    return x.flatten(1) @ weight\n\n\nclass Net:\n    pass\n"
    )
    arguments = ["--group", "rotation", "--quiet", "--json", "--examples", 6, "--drift", pictures]
    result = run("audit", "mymodel:net", pictures, *arguments)
    assert result.exit_code == 0, result.output
    html = (tmp_path / "out" / "audit-a" / "report.html").read_text()
    assert "Drift to other data" in html
    assert json.loads(result.stdout)["exhaustive"] is False
    assert "make an instance" in run("audit", "mymodel:Net", pictures, "--overwrite").stderr
    assert "a callable 'mymodel:nut'" in run("audit", "mymodel:nut", pictures, "--overwrite").stderr


def test_weights_without_a_network_are_named(run, tmp_path, pictures):
    torch.save(ByRing().state_dict(), tmp_path / "weights.pt")
    torch.save(ByRing(), tmp_path / "whole.pth")
    for options in ([], ["--trust"]):
        weights = run("audit", "weights.pt", pictures, "--quiet", *options)
        assert weights.exit_code == 3
        assert "expected a model, got a state_dict" in weights.stderr
        assert "module:callable" in weights.stderr
        assert "safetensors" in weights.stderr
        assert "got a pickled module" in run("audit", "whole.pth", pictures, *options).stderr


def test_torchscript_only_if_trusted(run, tmp_path, pictures, recwarn):
    torch.jit.trace(ByRing().eval(), torch.rand(2, 1, 8, 8)).save(tmp_path / "net.pt")
    refused = run("audit", "net.pt", pictures, "--quiet")
    assert (refused.exit_code, "--trust" in refused.stderr) == (3, True)
    result = run("audit", "net.pt", pictures, "--trust", "--quiet", "--json")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.onnx", b"x", "expected an ONNX file"),
        ("net.txt", b"x", "expected an .onnx, .pt2"),
        ("net.pt2", b"x", "a file that is safe to load"),
    ],
)
def test_other_files_are_refused(run, tmp_path, pictures, name, content, message):
    (tmp_path / name).write_bytes(content)
    result = run("audit", name, pictures, "--quiet")
    assert (result.exit_code, message in result.stderr) == (3, True), result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_model(run, pictures):
    assert "an existing model" in run("audit", "nothing", pictures).stderr


def test_curves_average_images_of_all_classes():
    """Also where images are sorted by class, as those of a folder for each class are."""
    pictures = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    images = ImageSet(pictures, torch.arange(8) // 4)
    act = ImageAction(Cyclic(4))

    def first(x):
        return torch.tensor([30.0, 0.0]).expand(len(x), 2)

    (track,) = orbit_tracks(first, images, act, [0], torch.device("cpu"), None, 4)
    assert track.probability == pytest.approx([0.5] * 4)
