"""``symmetries wrap``: an ONNX file in, files that are checked, a page and numbers out."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from symmetries.results import WrapResult


@pytest.fixture
def folder(hooks, tmp_path):
    """Pictures of corners with labels, and an ONNX file of a linear classifier."""
    images = hooks(240, 5, side=12)[0]
    pixels = (255 * images).astype(np.uint8)
    np.savez(tmp_path / "corners.npz", images=pixels, labels=np.arange(240) % 2)
    weight = np.random.default_rng(0).normal(size=(144, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("x", ["n", 1, 12, 12]), ("y", ["n", 2]))
    ]
    weights = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(nodes, "linear", *ends, weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "net.onnx")
    return tmp_path


def test_it_writes_files_that_run_numbers_and_a_page(run, tiny, folder):
    words = ["wrap", "net.onnx", "corners.npz", "--group", "c4", "--out", "out", "--device", "cpu"]
    found = run(*words, "--json")
    assert found.exit_code == 0, found.output
    result = WrapResult.load(folder / "out" / "wrap.json")
    assert json.loads(found.stdout)["schema"] == "symmetries.wrap/1"
    assert (result.group, result.output, result.reference.count) == ("c4", "logits", 240)
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == {"wrap.json", "report.html", "wrapped.pt2", "wrapped.onnx"}
    session = onnxruntime.InferenceSession(str(folder / "out" / "wrapped.onnx"))
    assert session.run(None, {"images": np.zeros((3, 1, 12, 12), np.float32)})[0].shape == (3, 2)
    again = run(*words)
    assert again.exit_code == 4
    assert "add --overwrite" in again.output


def test_files_whose_sizes_are_constants_are_wrapped(run, tiny, folder):
    """As torch.onnx writes a flattening layer: the shape [-1, 144] is a tensor in the file."""
    model = onnx.load(folder / "net.onnx")
    model.graph.node[0].op_type = "Reshape"
    model.graph.node[0].input.append("shape")
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, 144]), "shape"))
    onnx.save(model, folder / "net.onnx")
    found = run("wrap", "net.onnx", "corners.npz", "--group", "c4", "--out", "out")
    assert found.exit_code == 0, found.output
    session = onnxruntime.InferenceSession(str(folder / "out" / "wrapped.onnx"))
    assert session.run(None, {"images": np.zeros((3, 1, 12, 12), np.float32)})[0].shape == (3, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.onnx", "corners.npz"], "model: expected an existing model"),
        (["net.onnx", "nothing.npz"], "nothing.npz"),
        (["net.onnx", "corners.npz", "--group", "c4", "--range", "rotation=3"], "range"),
        (["net.onnx", "corners.npz", "--preset", "paper"], "preset"),
        (["net.onnx", "corners.npz", "--held-out", "nothing.npz"], "nothing.npz"),
        (["net.onnx", "corners.npz", "--resize", "8"], "a file that takes"),
    ],
)
def test_bad_input_is_refused_by_name(run, tiny, folder, words, message):
    found = run("wrap", *words, "--out", "out", "--device", "cpu")
    assert found.exit_code == 3, found.output
    assert message in found.output
    assert not (folder / "out").exists()
