"""Tables of ``generators``: hostile, damaged and unusual files."""

import csv
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from symmetries import generators
from symmetries.analysis.tables import read_table
from symmetries.auditing.onnx_operators import OPERATORS
from symmetries.results import GeneratorResult

sys.path.insert(0, str(Path(__file__).parents[2] / "campaign"))

import hostile_onnx

X = np.random.default_rng(0).normal(size=(30, 2))


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_outputs_that_are_objects_are_refused_and_not_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=np.array([None] * 30, dtype=object))
    with pytest.raises(ValueError, match="objects in y"):
        read_table(tmp_path / "a.npz")


def test_memory_is_counted_in_the_type_that_numbers_end_in(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((10_000, 100), bool))
    monkeypatch.setattr("symmetries.data.checked_files.free_memory", lambda: 4_000_000)
    with pytest.raises(ValueError, match="fits into memory"):  # a megabyte, eight as float64
        read_table(tmp_path / "a.npz")


def test_a_table_takes_twice_its_numbers_and_not_their_text(tmp_path):
    with (tmp_path / "a.csv").open("w") as stream:
        stream.write(",".join("abcdefgh") + "\n" + "10,11,10,11,10,11,10,11\n" * 150_000)
    code = """
import sys
import time
from pathlib import Path
from symmetries import generators
from symmetries.analysis.tables import read_table
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
found = read_table(sys.argv[1], target=["h"])
print(peak() - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers = 8 * 8 * 150_000
    assert int(done.stdout) < 2 * numbers + 48 * 2**20  # libraries take the rest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,b\n1,"' + "2" * (csv.field_size_limit() + 1), "field larger"),
        ("a,a\n1,2\n", "'a' twice"),
        ("a,b\n1,1_0\n", "numbers in every cell"),
        ("a,b\n1,2\n3\n", "1 in row 3"),
        ("a,b\n", "a header and rows"),
        ("", "a header and rows"),
        ("\n\n\n", "a header and rows"),
        ("a,b\n1,\x1b[31m\n", "numbers in every cell"),
        ("a,b\n1,1e999\n", "finite"),
    ],
)
def test_broken_tables_are_refused_in_our_words(tmp_path, text, said):
    with pytest.raises(ValueError, match=said) as refused:
        read_table(written(tmp_path / "a.csv", text))
    assert ";" in str(refused.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_of_a_spreadsheet_has_the_names_that_it_shows(tmp_path, encoding):
    path = written(tmp_path / "a.csv", "energy,b\r\n1,2\r\n3,4\r\n", encoding)
    table = read_table(path, target=["energy"])
    assert table.names == ("b",)
    assert table.x.tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("kind", [">f4", "<f8", ">i2", "f2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_kind_and_order(tmp_path, kind, order):
    x = np.array(10 * X, dtype=kind, order=order)
    np.savez(tmp_path / "a.npz", x=x)
    assert read_table(tmp_path / "a.npz").x.numpy().tolist() == x.astype(float).tolist()


@pytest.mark.parametrize(("x", "y"), [(X[:, :0], X), (X, X[:, :0])])
def test_a_table_without_columns_is_refused(x, y):
    with pytest.raises(ValueError, match="shape"):
        read_table((x, y))


def test_a_target_in_a_file_without_columns_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=X[:, 0])
    with pytest.raises(ValueError, match=r"columns of a \.csv file"):
        read_table(tmp_path / "a.npz", target=["energy"])


def test_models_that_do_not_fit_end_in_our_words(run, tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", x=X)
    (tmp_path / "other_sizes.py").write_text(
        "import torch\n\ndef f(x):\n    return x @ torch.ones(9, 1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    hostile_onnx.own_function(tmp_path / "net.onnx")
    for name, said in (
        ("other_sizes:f", "inputs that the model takes"),
        ("net.onnx", "a file that takes 30 inputs (2,)"),
    ):
        done = run("generators", "a.npz", "--model", name)
        assert done.exit_code == 3
        assert said in " ".join(done.output.split())


def squared_radius(path, factor=1.0, batch="N"):
    """An ONNX file of the function factor (x1^2 + x2^2)."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axes"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "factor"], ["y"]),
    ]
    weights = [
        onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"),
        onnx.numpy_helper.from_array(np.array(factor, np.float32), "factor"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, kind, [batch, size])
        for name, size in (("x", 2), ("y", 1))
    )
    graph = helper.make_graph(nodes, "graph", [x], [y], weights)
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


@pytest.mark.parametrize("batch", ["N", 1, 7])
def test_an_onnx_file_gives_the_generators_of_its_function(run, tmp_path, batch):
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(300, 2)))
    squared_radius(tmp_path / "net.onnx", batch=batch)
    done = run("generators", "a.npz", "--model", "net.onnx", "--fields", "linear", "--out", "out")
    assert done.exit_code == 0, done.output
    found = GeneratorResult.load(tmp_path / "out" / "generators.json")
    assert found.dimension == (1, 1)
    assert found.generators[0].text == "x2 d/dx1 - x1 d/dx2"


@pytest.mark.parametrize("factor", [1.0, 1e-6])
def test_a_wrong_conversion_is_found_before_generators_are_sought(
    run, tmp_path, monkeypatch, factor
):
    np.savez(tmp_path / "a.npz", x=X)
    squared_radius(tmp_path / "net.onnx", factor)
    right = OPERATORS["ReduceSum"]

    def wrong(inputs, attributes):
        return right([inputs[0] + 0.02 * inputs[0].amin(1, keepdim=True), inputs[1]], attributes)

    monkeypatch.setitem(OPERATORS, "ReduceSum", wrong)
    done = run("generators", "a.npz", "--model", "net.onnx", "--fields", "linear", "--out", "out")
    assert done.exit_code == 3, done.output
    assert "the conversion is off by" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("x", "more", "said"),
    [
        (np.ones((5, 300)) * np.arange(5)[:, None], [], "rows to fit a function"),
        (np.random.default_rng(0).normal(size=(500, 300)), ["--degree", "20"], "rows to fit"),
        (1e300 * X, [], "numbers of a size between"),
        (1e-300 * X, [], "numbers of a size between"),
        (X, ["--time-step", "0.1"], "time_step: expected trajectories"),
        (X, ["--model", ":"], "a callable ':'"),
        (X, ["--model", "a:b:c"], "No module named 'a:b'"),
    ],
)
def test_tables_of_any_size_are_answered_soon_and_in_our_words(run, tmp_path, x, more, said):
    np.savez(tmp_path / "a.npz", x=x, y=x.sum(1))
    started = time.perf_counter()
    done = run("generators", "a.npz", *more, "--quiet")
    assert time.perf_counter() - started < 30
    assert done.exit_code == 3, done.output
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("fields", "said"), [("affine", "24000 unknown"), ("cubic", "unknown numb")]
)
def test_too_many_coordinates_are_refused_before_they_take_memory(fields, said):
    x = np.random.default_rng(0).normal(size=(400, 300))
    with pytest.raises(ValueError, match=said):
        generators(x, model=lambda x: x.square().sum(-1), fields=fields)


def test_a_file_that_answers_yes_or_no_has_no_gradients(run, tmp_path):
    helper = onnx.helper
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.BOOL)]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 2])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, ["N", 2])
    graph = helper.make_graph(nodes, "graph", [x], [y])
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "net.onnx")
    np.savez(tmp_path / "a.npz", x=X)
    done = run("generators", "a.npz", "--model", "net.onnx", "--quiet")
    assert done.exit_code == 3, done.output
    assert "no gradient" in " ".join(done.output.split())
