"""A run that goes on gives what it would have given undisturbed, or begins anew."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from symmetries.analysis import audits, augmentation
from symmetries.analysis.stored_models import load_classifier
from symmetries.cli.parts import Parts
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.training import TrainConfig, train


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.random((60, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(60) % 3)
    return "a.npz"


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(audits, "PART", 5)
    monkeypatch.setattr(augmentation, "AT_ONCE", 20)


def save_onnx(path, seed):
    weight = np.random.default_rng(seed).normal(size=(64, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["f"]),
            helper.make_node("MatMul", ["f", "w"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path
    )


def save_module(path, seed):
    """Weights that the module reads: nothing in the Python file changes."""
    path.with_suffix(".py").write_text(
        "import torch\nfrom pathlib import Path\n\n\ndef net(x):\n"
        "    seed = int((Path(__file__).parent / 'seed').read_text())\n"
        "    generator = torch.Generator().manual_seed(seed)\n"
        "    return x.flatten(1) @ torch.randn(64, 3, generator=generator)\n"
    )
    (path.parent / "seed").write_text(str(seed))


def interrupted(monkeypatch, run, arguments, parts):
    """Run a command that is stopped after some parts."""
    real, done = Parts._one, []

    def stop(self, part, first, last):
        if len(done) == parts:
            raise KeyboardInterrupt
        done.append(first)
        return real(self, part, first, last)

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "_one", stop)
        assert run(*arguments).exit_code == 130


@pytest.mark.parametrize("kind", ["onnx", "module"])
def test_a_resumed_audit_does_not_mix_two_models(
    run, tmp_path, pictures, small_parts, monkeypatch, kind
):
    if kind == "onnx":
        name, save = "net.onnx", lambda seed: save_onnx(tmp_path / "net.onnx", seed)
    else:
        name, save = "weighted:net", lambda seed: save_module(tmp_path / "weighted", seed)
    arguments = ["audit", name, pictures, "--quiet", "--json"]
    save(0)
    interrupted(monkeypatch, run, [*arguments, "--out", "out"], 2)
    save(1)
    whole = json.loads(run(*arguments, "--out", "whole").stdout)
    mixed = run(*arguments, "--out", "out", "--resume")
    assert mixed.exit_code == 0, mixed.output
    found = json.loads(mixed.stdout)
    for measure in ("logit_invariance", "normalised_logit_invariance"):
        assert found[measure]["mean"] == whole[measure]["mean"]


def test_a_resumed_augment_does_not_mix_two_models(
    run, tmp_path, pictures, small_parts, monkeypatch
):
    def save(seed):
        torch.manual_seed(seed)
        model = SymmetryModel("rotation", (1, 8, 8), "quick", seed=seed)
        for parameter in model.parameters():
            parameter.data.normal_(0, 0.1, generator=torch.Generator().manual_seed(seed))
        model.save(tmp_path / "model")

    arguments = ["augment", "model", pictures, "--quiet"]
    save(0)
    interrupted(monkeypatch, run, [*arguments, "--out", "out.npz"], 1)
    save(1)
    assert run(*arguments, "--out", "whole.npz").exit_code == 0
    assert run(*arguments, "--out", "out.npz", "--resume").exit_code == 0
    found, whole = (np.load(tmp_path / name)["images"] for name in ("out.npz", "whole.npz"))
    assert np.array_equal(found, whole)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_results_say_how_many_threads_there_were(run, pictures, threads):
    torch.set_num_threads(2)
    found = json.loads(run("orbit", pictures, "--group", "rotation", "--quiet", "--json").stdout)
    assert found["run"]["threads"] == 2


def test_a_resumed_command_keeps_its_threads(
    run, tmp_path, pictures, small_parts, monkeypatch, threads
):
    save_onnx(tmp_path / "net.onnx", 0)
    arguments = ["audit", "net.onnx", pictures, "--quiet", "--json", "--out", "out"]
    torch.set_num_threads(2)
    interrupted(monkeypatch, run, arguments, 2)
    torch.set_num_threads(1)
    found = json.loads(run(*arguments, "--resume").stdout)
    assert found["run"]["threads"] == 2


def test_a_resumed_training_keeps_its_threads(tmp_path, threads):
    x = torch.linspace(-1, 1, 64)[:, None]

    def loss(model, batch, step):
        return {"loss": (model(batch[0]) - 3 * batch[0]).square().mean()}

    def fit(resume, stop=None):
        seen = []

        def on_step(step, metrics):
            seen.append(torch.get_num_threads())
            if step.index == stop:
                raise KeyboardInterrupt

        config = TrainConfig(
            steps=6, batch_size=8, device="cpu", progress=False, out=tmp_path / "o", resume=resume
        )
        torch.manual_seed(0)
        train(torch.nn.Linear(1, 1), loss, (x,), config, on_step=on_step)
        return seen

    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        fit(False, stop=2)
    torch.set_num_threads(1)
    assert fit(True) == [2, 2, 2]
    assert torch.get_num_threads() == 1


def test_a_model_without_a_digest_is_never_resumed():
    """Two such models had the same identity: none."""

    class Sparse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.eye(64, 3).to_sparse())

        def forward(self, x):
            return x.flatten(1) @ self.weight.to_dense()

    images = torch.rand(4, 1, 8, 8)
    digests = {load_classifier(Sparse(), False, "cpu", images=images).digest for _ in range(2)}
    assert None not in digests
    assert len(digests) == 2
