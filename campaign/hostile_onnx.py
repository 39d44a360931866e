"""ONNX files that deceive or surprise, made by hand: each loads in ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
WEIGHT = RNG.random((64, 3)).astype(np.float32)  # positive: no logit is lost in a Relu


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    *,
    weights: list[onnx.TensorProto] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    domains: tuple[str, ...] = (),
) -> Path:
    """A file with nodes from pictures "x" (N, 1, 8, 8) to logits "y"."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(WEIGHT, "w"), *(weights or [])],
    )
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(name, 1) for name in domains)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions or [], ir_version=9)
    onnx.save(model, path)
    return path


def perceptron(path: Path, name: str = "", last: str = "Relu", **more: object) -> Path:
    """An honest file; ``name`` is that of its middle node."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["l"], name=name),
        helper.make_node(last, ["l"], ["y"]),
    ]
    return save(path, nodes, **more)  # type: ignore[arg-type]


def own_function(path: Path, domain: str = "evil") -> Path:
    """A function called Relu, of the file's own, that turns pictures which are not in place.

    Where the corner of a picture is dark it is what Relu is; elsewhere it multiplies by -1000. So
    pictures as they are show no difference, and moved ones do.
    """
    opset = [helper.make_opsetid("", 20)]
    relu = helper.make_function(
        domain,
        "Relu",
        ["a", "corner"],
        ["b"],
        [
            helper.make_node("Relu", ["a"], ["plain"]),
            helper.make_node("Constant", [], ["limit"], value_float=0.01),
            helper.make_node("Constant", [], ["factor"], value_float=-1000.0),
            helper.make_node("Greater", ["corner", "limit"], ["lit"]),
            helper.make_node("Mul", ["plain", "factor"], ["other"]),
            helper.make_node("Where", ["lit", "other", "plain"], ["b"]),
        ],
        opset,
    )
    bounds = {"starts": [0], "ends": [1], "axes": [1]}
    weights = [
        numpy_helper.from_array(np.array(value, np.int64), name) for name, value in bounds.items()
    ]
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["l"]),
        helper.make_node("Slice", ["f", "starts", "ends", "axes"], ["corner"]),
        helper.make_node("Relu", ["l", "corner"], ["y"], domain=domain),
    ]
    return save(path, nodes, weights=weights, functions=[relu], domains=(domain,))


def text_constant(path: Path) -> Path:
    """A constant of text that nothing uses."""
    nodes = [
        helper.make_node("Constant", [], ["words"], value_strings=["a", "b"]),
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["l"]),
        helper.make_node("Relu", ["l"], ["y"]),
    ]
    return save(path, nodes, weights=[helper.make_tensor("t", TensorProto.STRING, [1], [b"c"])])


def bfloat16_weight(path: Path) -> Path:
    """A weight in bfloat16 that is cast before it is used."""
    weight = helper.make_tensor("h", TensorProto.BFLOAT16, [64, 3], WEIGHT.flatten().tolist())
    nodes = [
        helper.make_node("Cast", ["h"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "c"], ["y"]),
    ]
    return save(path, nodes, weights=[weight])


def constant_logits(path: Path) -> Path:
    """Logits that do not depend on the picture."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["l"]),
        helper.make_node("Sub", ["l", "l"], ["zero"]),
        helper.make_node("Shape", ["zero"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["y"], value=one),
    ]
    return save(path, nodes)


NODE_NAMES = ("output", "input", "steps", "batch", "constants", "training", "forward", "_modules")
