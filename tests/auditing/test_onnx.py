"""ONNX files: every operator against ONNX Runtime, whole networks, and what is refused."""

import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from symmetries.analysis import audit
from symmetries.auditing import audit_model, layer_contributions
from symmetries.auditing.onnx_check import constant_inputs, parse_inputs
from symmetries.auditing.onnx_graph import OnnxGraph, OnnxSession, load_onnx
from symmetries.auditing.onnx_operators import OPERATORS
from symmetries.groups import Cyclic

RNG = np.random.default_rng(0)
IMAGES = ["N", 3, 6, 6]


def save(path, nodes, weights=(), shape=IMAGES, opset=20):
    """A file with nodes from "x" to "y"; weights are arrays by name."""
    initial = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initial,
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.save(model, path)
    return path


def one(operator, *inputs, **attributes):
    return helper.make_node(operator, ["x", *inputs], ["y"], **attributes)


def ints(*values):
    return np.array(values, np.int64)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


SCALES = {"s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + 0.5}
# Node, weights by name, and the version of the operators where it is not 20.
CASES = {
    "Abs": (one("Abs"), {}),
    "Add": (one("Add", "w"), {"w": floats(3, 1, 1)}),
    "AveragePool": (one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}),
    "AveragePool with its padding": (
        one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        {},
    ),
    "AveragePool beyond the edge": (
        one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        {},
    ),
    "BatchNormalization": (one("BatchNormalization", "s", "b", "m", "v"), SCALES),
    "Cast": (one("Cast", to=1), {}),
    "Clip": (one("Clip", "low", "high"), {"low": np.float32(-0.5), "high": np.float32(0.5)}),
    "Concat": (helper.make_node("Concat", ["x", "x"], ["y"], axis=1), {}),
    "Conv": (
        one("Conv", "w", "b", pads=[1, 0, 0, 1], strides=[2, 1], dilations=[1, 2]),
        {"w": floats(4, 3, 3, 3), "b": floats(4)},
    ),
    "Conv with groups": (one("Conv", "w", group=3), {"w": floats(6, 1, 3, 3)}),
    "Conv that keeps the size": (
        one("Conv", "w", auto_pad="SAME_UPPER", strides=[2, 2]),
        {"w": floats(4, 3, 3, 3)},
    ),
    "Cos": (one("Cos"), {}),
    "Div": (one("Div", "w"), {"w": np.float32(3)}),
    "Dropout": (one("Dropout"), {}),
    "Elu": (one("Elu", alpha=0.7), {}),
    "Erf": (one("Erf"), {}),
    "Exp": (one("Exp"), {}),
    "Expand": (one("Expand", "shape"), {"shape": ints(1, 3, 6, 6)}),
    "ConvTranspose": (
        one("ConvTranspose", "w", "b", strides=[2, 2], pads=[1, 0, 0, 1]),
        {"w": floats(3, 4, 3, 3), "b": floats(4)},
    ),
    "ConvTranspose with more behind": (
        one("ConvTranspose", "w", strides=[2, 2], output_padding=[1, 1], group=3),
        {"w": floats(3, 2, 2, 2)},
    ),
    "Floor": (one("Floor"), {}),
    "Resize nearest half_pixel": (
        one("Resize", "", "w", mode="nearest", coordinate_transformation_mode="half_pixel"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize nearest asymmetric": (
        one("Resize", "", "w", mode="nearest", coordinate_transformation_mode="asymmetric"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize nearest align_corners": (
        one("Resize", "", "w", mode="nearest", coordinate_transformation_mode="align_corners"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize nearest pytorch_half_pixel": (
        one("Resize", "", "w", mode="nearest", coordinate_transformation_mode="pytorch_half_pixel"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize linear half_pixel": (
        one("Resize", "", "w", mode="linear", coordinate_transformation_mode="half_pixel"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize linear asymmetric": (
        one("Resize", "", "w", mode="linear", coordinate_transformation_mode="asymmetric"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize linear align_corners": (
        one("Resize", "", "w", mode="linear", coordinate_transformation_mode="align_corners"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize linear pytorch_half_pixel": (
        one("Resize", "", "w", mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
        {"w": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "Resize nearest floor": (
        one("Resize", "", "w", mode="nearest", nearest_mode="floor"),
        {"w": np.array([1, 1, 0.5, 1.5], np.float32)},
    ),
    "Resize nearest ceil": (
        one("Resize", "", "w", mode="nearest", nearest_mode="ceil"),
        {"w": np.array([1, 1, 0.5, 1.5], np.float32)},
    ),
    "Resize nearest round_prefer_ceil": (
        one("Resize", "", "w", mode="nearest", nearest_mode="round_prefer_ceil"),
        {"w": np.array([1, 1, 0.5, 1.5], np.float32)},
    ),
    "Resize of version 10": (
        one("Resize", "w", mode="linear"),
        {"w": np.array([1, 1, 2, 2], np.float32)},
        10,
    ),
    "Resize to half": (
        one("Resize", "", "w", mode="linear"),
        {"w": np.array([1, 1, 0.5, 0.5], np.float32)},
    ),
    "Upsample": (
        one("Upsample", "w", mode="nearest"),
        {"w": np.array([1, 1, 2, 3], np.float32)},
        9,
    ),
    "Flatten": (one("Flatten"), {}),
    "Gather": (one("Gather", "i", axis=2), {"i": ints(5, 0, -1)}),
    "Gelu": (one("Gelu", approximate="tanh"), {}),
    "Gemm": (
        [helper.make_node("Flatten", ["x"], ["f"]), one("Gemm", "w", "b", transB=1, alpha=0.5)],
        {"w": floats(4, 108), "b": floats(4)},
    ),
    "GlobalAveragePool": (one("GlobalAveragePool"), {}),
    "GlobalMaxPool": (one("GlobalMaxPool"), {}),
    "HardSigmoid": (one("HardSigmoid", alpha=0.3), {}),
    "HardSwish": (one("HardSwish"), {}),
    "Identity": (one("Identity"), {}),
    "InstanceNormalization": (one("InstanceNormalization", "s", "b"), SCALES),
    "LayerNormalization": (
        one("LayerNormalization", "s", "b"),
        {"s": floats(6), "b": floats(6)},
    ),
    "LeakyRelu": (one("LeakyRelu", alpha=0.2), {}),
    "Log": ([helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Log", ["e"], ["y"])], {}),
    "LogSoftmax": (one("LogSoftmax", axis=1), {}),
    "MatMul": (one("MatMul", "w"), {"w": floats(6, 5)}),
    "Max": (one("Max", "w"), {"w": np.float32(0.1)}),
    "MaxPool": (one("MaxPool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]), {}),
    "MaxPool beyond the edge": (
        one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        {},
    ),
    "Mish": (one("Mish"), {}),
    "Min": (one("Min", "w"), {"w": np.float32(0.1)}),
    "Mul": (one("Mul", "w"), {"w": floats(6)}),
    "Neg": (one("Neg"), {}),
    "PRelu": (one("PRelu", "w"), {"w": floats(3, 1, 1)}),
    "Pad": (one("Pad", "p", "v"), {"p": ints(0, 0, 1, 2, 0, 0, 0, 1), "v": np.float32(2)}),
    "Pad by reflection": (one("Pad", "p", mode="reflect"), {"p": ints(0, 0, 1, 2, 0, 0, 0, 1)}),
    "Pow": (one("Pow", "w"), {"w": np.float32(2)}),
    "Gather a number": (
        [helper.make_node("Gather", ["w", "i"], ["g"]), one("Mul", "g")],
        {"w": floats(4), "i": np.array(2, np.int64)},
    ),
    "Range": (
        [helper.make_node("Range", ["low", "high", "step"], ["r"]), one("Add", "r")],
        {k: np.array(v, np.float32) for k, v in {"low": 1, "high": 4, "step": 0.5}.items()},
    ),
    "Reciprocal": (one("Reciprocal"), {}),
    "ReduceMax": (one("ReduceMax", "a"), {"a": ints(2, 3)}),
    "ReduceMean": (one("ReduceMean", "a", keepdims=0), {"a": ints(2, 3)}),
    "ReduceMean of old": (one("ReduceMean", axes=[2, 3]), {}, 13),
    "ReduceMin": (one("ReduceMin", "a"), {"a": ints(-1)}),
    "ReduceSum": (one("ReduceSum", "a"), {"a": ints(1)}),
    "Relu": (one("Relu"), {}),
    "Reshape": (one("Reshape", "s"), {"s": ints(0, -1)}),
    "Selu": (one("Selu"), {}),
    "Sigmoid": (one("Sigmoid"), {}),
    "Sin": (one("Sin"), {}),
    "Slice": (
        one("Slice", "s", "e", "a", "t"),
        {"s": ints(1, -3), "e": ints(5, 1000), "a": ints(2, 3), "t": ints(2, 1)},
    ),
    "Softmax": (one("Softmax", axis=1), {}),
    "Softplus": (one("Softplus"), {}),
    "Split": (
        [
            helper.make_node("Split", ["x", "parts"], ["a", "b"], axis=1),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        {"parts": ints(1, 2)},
    ),
    "Sqrt": ([helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Sqrt", ["e"], ["y"])], {}),
    "Squeeze": (
        [
            helper.make_node("GlobalAveragePool", ["x"], ["p"]),
            helper.make_node("Squeeze", ["p", "a"], ["y"]),
        ],
        {"a": ints(2, 3)},
    ),
    "Sub": (one("Sub", "w"), {"w": floats(6)}),
    "Sum": (one("Sum", "w"), {"w": floats(6)}),
    "Tanh": (one("Tanh"), {}),
    "Transpose": (one("Transpose", perm=[0, 2, 3, 1]), {}),
    "Unsqueeze": (one("Unsqueeze", "a"), {"a": ints(1, -1)}),
    "Where": (
        [
            helper.make_node("Equal", ["x", "x"], ["same"]),
            helper.make_node("Where", ["same", "x", "w"], ["y"]),
        ],
        {"w": np.float32(1)},
    ),
    "Shape": (
        [
            helper.make_node("Shape", ["x"], ["all"]),
            helper.make_node("Gather", ["all", "first"], ["n"]),
            helper.make_node(
                "ConstantOfShape",
                ["n"],
                ["ones"],
                value=numpy_helper.from_array(np.ones(1, np.float32)),
            ),
            helper.make_node("Unsqueeze", ["ones", "tail"], ["ones4"]),
            helper.make_node("Mul", ["x", "ones4"], ["y"]),
        ],
        {"first": ints(0), "tail": ints(1, 2, 3)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_give_what_onnx_runtime_gives(tmp_path, name):
    nodes, weights, *opset = CASES[name]
    nodes = nodes if isinstance(nodes, list) else [nodes]
    if name == "Gemm":
        nodes[1].input[0] = "f"
    path = save(tmp_path / "a.onnx", nodes, weights, opset=opset[0] if opset else 20)
    x = torch.from_numpy(floats(4, 3, 6, 6))
    expected = OnnxSession(path)(x)
    found = OnnxGraph(onnx.load(path).graph)(x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_every_operator_is_tested():
    named = {case.split(" ")[0] for case in CASES}
    assert named | {"ConstantOfShape", "Equal"} == set(OPERATORS)


def perceptron(path, shape=("N", 1, 6, 6), last=()):
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w1", "b1"], ["h"], name="hidden.layer"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2"], ["l" if last else "y"]),
        *last,
    ]
    rng = np.random.default_rng(1)
    weights = {
        "w1": rng.normal(size=(36, 8)),
        "b1": rng.normal(size=8),
        "w2": rng.normal(size=(8, 3)),
    }
    return save(path, nodes, {k: v.astype(np.float32) for k, v in weights.items()}, list(shape))


X = torch.rand(7, 1, 6, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(7) % 3


def test_a_network_has_gradients_and_layers(tmp_path):
    model, problem = load_onnx(perceptron(tmp_path / "a.onnx"), X)
    assert problem is None
    found = audit_model(model, (X, Y), Cyclic(4), progress=False)
    assert found.saliency_similarity is not None
    assert found.sensitivity.mean > 0
    assert [row.name for row in found.layers] == ["flat", "hidden_layer", "Relu", "Gemm"]


@pytest.mark.parametrize("group", ["c4", "rotation"])
@pytest.mark.parametrize("broken", ["filter", "positions"])
def test_weights_do_not_move_along_with_the_images(tmp_path, broken, group):
    """Nodes take weights as inputs: a filter of one direction and a table of positions are named.

    Four filters, as many as the examples that are looked at.
    """
    filters = np.zeros((4, 1, 3, 3), np.float32)
    filters[:, 0, 1, 1] = 1
    table = np.zeros((1, 4, 24, 24), np.float32)
    if broken == "filter":
        filters[:, 0, 1, 2] = -1
    else:
        table[:] = np.linspace(-0.5, 0.5, 24)
    save(
        tmp_path / "net.onnx",
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="filter", pads=[1, 1, 1, 1]),
            helper.make_node("Sigmoid", ["c"], ["s"], name="first"),
            helper.make_node("Add", ["s", "p"], ["a"], name="positions"),
            helper.make_node("Sigmoid", ["a"], ["t"], name="second"),
            helper.make_node("GlobalAveragePool", ["t"], ["g"], name="pool"),
            helper.make_node("Flatten", ["g"], ["y"], name="flat"),
        ],
        {"w": filters, "p": table},
        shape=("N", 1, 24, 24),
    )
    small = torch.zeros(6, 1, 6, 6)
    small[..., 2:4, 2:4] = torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    x = nn.functional.interpolate(small, (24, 24), mode="bicubic")
    model, problem = load_onnx(tmp_path / "net.onnx", x)
    assert problem is None
    added = {name: one[0] for name, one in layer_contributions(model, x, group).items()}
    assert set(added) == {"filter", "first", "positions", "second", "pool", "flat"}
    assert max(added, key=added.get) == broken
    if group == "c4":
        assert all(value < 1e-6 for name, value in added.items() if name != broken)


def test_a_fixed_number_of_images_is_no_obstacle(tmp_path):
    free, _ = load_onnx(perceptron(tmp_path / "a.onnx"), X)
    fixed, problem = load_onnx(perceptron(tmp_path / "b.onnx", shape=(3, 1, 6, 6)), X)
    assert problem is None
    torch.testing.assert_close(fixed(X), free(X))


def test_channels_last_are_moved(tmp_path):
    nodes = [helper.make_node("ReduceMean", ["x", "a"], ["y"], keepdims=0)]
    path = save(tmp_path / "a.onnx", nodes, {"a": ints(1, 2)}, ["N", 6, 6, 2])
    x = torch.rand(4, 2, 6, 6)
    model, problem = load_onnx(path, x)
    assert problem is None
    torch.testing.assert_close(model(x), x.mean((2, 3)))


def test_what_cannot_be_converted_runs_without_gradients(tmp_path):
    last = (helper.make_node("Celu", ["l"], ["y"]),)
    model, problem = load_onnx(perceptron(tmp_path / "a.onnx", last=last), X)
    assert problem == "operators that are not converted: Celu"
    found = audit_model(model, (X, Y), Cyclic(4), gradients=False, progress=False)
    assert (found.saliency_similarity, found.sensitivity, found.layers) == (None, None, ())
    assert found.logit_invariance.mean > 0


def test_a_conversion_that_differs_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setitem(OPERATORS, "Relu", lambda inputs, given: inputs[0])
    model, problem = load_onnx(perceptron(tmp_path / "a.onnx"), X)
    assert "off by" in problem
    assert isinstance(model, OnnxSession)


def test_images_that_the_file_does_not_take_are_refused(tmp_path, capfd):
    path = perceptron(tmp_path / "a.onnx")
    with pytest.raises(ValueError, match=r"expected a file that takes 7 images \(1, 5, 5\)"):
        load_onnx(path, X[..., :5, :5])
    assert capfd.readouterr().err == ""


def residual():
    """As others write it: residual, normalised, pooled beyond the edge, with a softmax."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                *(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
                *(nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4)),
            )

        def forward(self, x):
            return torch.relu(x + self.body(x))

    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU6()),
        *(nn.MaxPool2d(2, ceil_mode=True), Block(), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(4, 3), nn.Softmax(1)),
    )


@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_foreign_network_that_torch_exported(tmp_path, opset, fixed):
    network = residual()
    network.train()(X)  # moves the running means
    network.eval()
    path = tmp_path / "a.onnx"
    axes = {} if fixed else {"x": {0: "n"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter
        torch.onnx.export(
            *(network, (X[:4],), path),
            input_names=["x"],
            dynamic_axes=axes,
            opset_version=opset,
            dynamo=False,
        )
    model, problem = load_onnx(path, X)
    assert problem is None
    torch.testing.assert_close(model(X), network(X), atol=1e-6, rtol=1e-5)
    found = audit_model(model, (X, Y), Cyclic(4), layers=(), progress=False)
    direct = audit_model(network, (X, Y), Cyclic(4), layers=(), progress=False)
    for measure in ("logit_invariance", "saliency_similarity", "sensitivity"):
        ours, theirs = getattr(found, measure).mean, getattr(direct, measure).mean
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-6)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="expected an ONNX file"):
        load_onnx(tmp_path / "a.onnx", X)
    with pytest.raises(ValueError, match="nothing there"):
        load_onnx(tmp_path / "b.onnx", X)


COLOURS = torch.rand(6, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def two_outputs(path, batch):
    """A file with two outputs, and a first axis that is spelled in some way."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 6, 6])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    graph = helper.make_graph(nodes, "g", [x], outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


@pytest.mark.parametrize("batch", ["N", -1, None, "?"])
def test_axes_that_may_vary_in_all_spellings(tmp_path, batch):
    model, problem = load_onnx(two_outputs(tmp_path / "a.onnx", batch), COLOURS, output="y")
    assert problem is None
    assert model.batch is None
    for count in (1, 2, 5):
        torch.testing.assert_close(model(COLOURS[:count]), COLOURS[:count].relu())


def test_outputs_by_name_and_number(tmp_path):
    path = two_outputs(tmp_path / "a.onnx", "N")
    for name in ("z", "1"):
        model, problem = load_onnx(path, COLOURS, output=name)
        assert problem is None
        torch.testing.assert_close(model(COLOURS), -COLOURS)
    with pytest.warns(RuntimeWarning, match="outputs y, z: the first is measured"):
        load_onnx(path, COLOURS)
    with pytest.raises(ValueError, match="output: expected one of y, z"):
        load_onnx(path, COLOURS, output="w")
    found = audit(str(path), COLOURS, "c4", output="z:map", progress=False)
    assert found.measures["relative_error"].mean < 1e-6


def test_other_inputs_by_name(tmp_path):
    x, factor = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["N", 3, 6, 6]), ("factor", [1]))
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])], "g", [x, factor], [y]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "a.onnx",
    )
    with pytest.raises(ValueError, match=r"inputs x, factor.*others="):
        load_onnx(tmp_path / "a.onnx", COLOURS)
    model, problem = load_onnx(
        tmp_path / "a.onnx", COLOURS, others={"factor": np.array([3.0], dtype=np.float32)}
    )
    assert problem is None
    torch.testing.assert_close(model(COLOURS), 3 * COLOURS)
    by_number, _ = load_onnx(tmp_path / "a.onnx", COLOURS, others={"factor": 3})
    torch.testing.assert_close(by_number(COLOURS), 3 * COLOURS)
    name = str(tmp_path / "a.onnx")
    found = audit(name, COLOURS, "c4", inputs="factor=3", progress=False)
    assert found.measures["relative_error"].mean < 1e-6
    with pytest.raises(ValueError, match="inputs: expected names among x, factor, got 'fctor'"):
        audit(name, COLOURS, "c4", inputs="fctor=3", progress=False)
    with pytest.raises(ValueError, match="inputs: expected NAME=NUMBER"):
        audit(name, COLOURS, "c4", inputs="factor", progress=False)
    with pytest.raises(ValueError, match="inputs: expected an ONNX file"):
        audit(lambda x: x, COLOURS, "c4", inputs="factor=3", progress=False)


def test_signals(tmp_path):
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    path = tmp_path / "a.onnx"
    save(path, nodes, shape=["N", 20])
    model, problem = load_onnx(path, torch.rand(3, 20))
    assert problem is None
    torch.testing.assert_close(model(torch.ones(2, 20)), torch.ones(2, 20).tanh())


@pytest.mark.parametrize(
    ("text", "said"),
    [("k=2,k=3", "each name once"), ("k", "NAME=NUMBER"), ("", "NAME=NUMBER")],
)
def test_inputs_that_are_not_clear_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_inputs(text)


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf"), 1e30, -1e30])
def test_an_input_of_whole_numbers_takes_no_others(value):
    declared = [helper.make_tensor_value_info("k", TensorProto.INT64, [1])]
    graph = helper.make_graph([], "graph", declared, [])
    with pytest.raises(ValueError, match="a whole number of type int64"):
        constant_inputs(graph, {"k": value})
    assert constant_inputs(graph, {"k": 2.0})[0]["k"].tolist() == [2]
