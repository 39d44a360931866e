"""ONNX files as classifiers: converted to PyTorch if possible, else run by ONNX Runtime.

A converted graph has gradients and layers, so that every measure applies to it. Only operators of
the ONNX specification are converted; functions that a file defines and operators of other domains
are not. The result is compared with ONNX Runtime on the data at hand, as they are and moved, before
it is used; where an operator is missing or an output differs, ONNX Runtime itself answers, without
gradients. Needs the extra ``symmetries[onnx]``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.auditing.onnx_check import (
    constant_inputs,
    difference,
    first_line,
    not_converted,
    output_name,
)
from symmetries.auditing.onnx_operators import OPERATORS, SIZES, Attributes

DTYPES = {
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
    "tensor(int32)": torch.int32,
    "tensor(int64)": torch.int64,
}


class Node(nn.Module):
    """One node of a graph.

    Args:
        operator: name among :data:`OPERATORS`.
        attributes: of the node.
        sizes: inputs by position that are whole numbers and always the same.
    """

    def __init__(self, operator: str, attributes: Attributes, sizes: dict[int, list[int]]) -> None:
        super().__init__()
        self.operator, self.attributes, self.sizes = operator, attributes, sizes

    def forward(self, *inputs: Tensor | None) -> Any:  # noqa: ANN401 - one tensor or several
        """Evaluate the operator on its inputs."""
        given = [self.sizes.get(at, part) for at, part in enumerate(inputs)]
        return OPERATORS[self.operator](given, self.attributes)


class OnnxGraph(nn.Module):
    """A graph as a module from (N, ...) to (N, K); nodes are its layers, by name.

    Args:
        graph: ``onnx.load(path).graph``.
        batch: the fixed number of examples that it takes at once; None for any number.
        output: name of the output; the first by default.
        others: values of the other inputs by name, the same for all examples.
    """

    def __init__(
        self,
        graph: Any,  # noqa: ANN401 - protobuf
        batch: int | None = None,
        output: str | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.batch = batch
        self.steps: list[tuple[str, list[str], list[str]]] = []
        self.constants: dict[str, str] = {}
        names = {weight.name for weight in graph.initializer} | set(others or {})
        (self.input,) = [part.name for part in graph.input if part.name not in names]
        self.output: str = output or graph.output[0].name
        used = {self.output, *(name for node in graph.node for name in node.input)}
        for weight in graph.initializer:
            if weight.name in used:
                self._keep(weight.name, _tensor(weight))
        for name, value in (others or {}).items():
            if name in used:
                self._keep(name, torch.as_tensor(value))
        for node in graph.node:
            if node.op_type == "Constant" and node.output[0] not in used:
                continue
            given = {part.name: _attribute(part) for part in node.attribute}
            if node.op_type == "Constant":
                self._keep(node.output[0], torch.as_tensor(next(iter(given.values()))))
                continue
            name = self._fresh(re.sub(r"\W+", "_", node.name).strip("_") or node.op_type)
            fixed = [at for at in SIZES.get(node.op_type, ()) if at < len(node.input)]
            sizes = {
                at: getattr(self, self.constants.get(node.input[at], ""), None) for at in fixed
            }
            whole = {at: part.flatten().tolist() for at, part in sizes.items() if part is not None}
            self.add_module(name, Node(node.op_type, given, whole))
            self.steps.append((name, list(node.input), list(node.output)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the chosen output."""
        if self.batch is None:
            return self._run(x)
        return in_batches(self._run, x, self.batch)

    def _run(self, x: Tensor) -> Tensor:
        values: dict[str, Any] = {name: getattr(self, key) for name, key in self.constants.items()}
        values |= {"": None, self.input: x}
        for name, inputs, outputs in self.steps:
            found = getattr(self, name)(*(values[key] for key in inputs))
            found = found if isinstance(found, tuple) else (found,)
            values.update(zip(outputs, found, strict=False))
        return values[self.output]

    def _keep(self, name: str, value: Tensor) -> None:
        key = self._fresh("constant_" + re.sub(r"\W+", "_", name))
        self.register_buffer(key, value)
        self.constants[name] = key

    def _fresh(self, name: str) -> str:
        known = {*self._modules, *self._buffers, *dir(self)}
        key, number = name, 1
        while key in known:
            number += 1
            key = f"{name}_{number}"
        return key


class OnnxSession:
    """The same by ONNX Runtime: exact, and without gradients.

    Args:
        path: of the file.
        batch: see :class:`OnnxGraph`.
        output: name of the output; the first by default.
        others: values of the other inputs by name, the same for all examples.
    """

    def __init__(
        self,
        path: Path,
        batch: int | None = None,
        output: str | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised, not printed
        self.session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        self.others = dict(others or {})
        free = [part for part in self.session.get_inputs() if part.name not in self.others]
        self.input = free[0]
        self.output = output or self.session.get_outputs()[0].name
        self.batch = batch

    def __call__(self, x: Tensor) -> Tensor:
        """Return the chosen output, on the device of x."""
        values = x.detach().cpu().to(DTYPES.get(self.input.type, torch.float32))

        def run(rows: Tensor) -> Tensor:
            try:
                given = {**self.others, self.input.name: rows.numpy()}
                found = self.session.run([self.output], given)[0]
                return torch.from_numpy(found)
            except Exception as error:  # whatever ONNX Runtime raises
                why = first_line(error).rpartition("Status Message: ")[2]
                expected = f"one that takes {len(rows)} images {tuple(rows.shape[1:])}"
                remedy = "export it with a dynamic first axis"
                raise invalid("model", expected, why, remedy) from error

        found = in_batches(run, values, self.batch or len(x)).to(x.device)
        return found.to(x.dtype) if found.is_floating_point() else found


def in_batches(run: Callable[[Tensor], Tensor], x: Tensor, size: int) -> Tensor:
    """Return outputs for any number of rows of a function that takes exactly ``size`` at once."""
    parts = []
    for part in x.split(size):
        filled = torch.cat((part, part[-1:].expand(size - len(part), *part.shape[1:])))
        parts.append(run(filled)[: len(part)])
    return torch.cat(parts)


class Permuted(nn.Module):
    """A module for images with channels last, given images (N, C, H, W)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs (N, K)."""
        return self.model(x.permute(0, 2, 3, 1))


def load_onnx(
    path: str | Path,
    x: Tensor,
    *,
    output: str | None = None,
    others: Mapping[str, Any] | None = None,
    batch: int | None = None,
) -> tuple[Callable[[Tensor], Tensor], str | None]:
    """Return the classifier in an ONNX file, and why it has no gradients (None if it has).

    Args:
        path: of the file.
        x: (N, ...), some inputs, such as images (N, C, H, W), to compare ONNX Runtime and the
            conversion on. The conversion computes in their precision.
        output: name of the output, or its number; the first by default.
        others: values of the other inputs by name, the same for all examples: arrays, or numbers
            that fill the shape that the file declares.
        batch: number of examples at once, where the file does not fix it but other inputs do.

    Returns:
        A module where every operator could be converted and gives what ONNX Runtime gives; else a
        function without gradients.

    Example:
        >>> load_onnx("nothing.onnx", torch.zeros(1, 3))
        Traceback (most recent call last):
        ValueError: nothing.onnx: expected an ONNX file, got nothing there; check the name
    """
    path = Path(path)
    if not path.is_file():
        raise invalid(str(path), "an ONNX file", "nothing there", "check the name")
    onnx = _onnx()
    with _refusing(path):
        model = onnx.load(path)
    output = output_name(model.graph, output)
    others, single = constant_inputs(model.graph, others or {})
    shape = _input_shape(model.graph, others)
    batch = shape[0] if shape and isinstance(shape[0], int) else batch or (1 if single else None)
    with _refusing(path):
        exact = OnnxSession(path, batch, output, others)
    last = _channels_last(shape, x)
    plain = (lambda images: exact(images.permute(0, 2, 3, 1).contiguous())) if last else exact
    _check_taken(plain, x, path, shape)
    missing = not_converted(model)
    if missing:
        return plain, f"operators that are not converted: {', '.join(missing)}"
    try:
        converted: nn.Module = OnnxGraph(model.graph, batch, output, others).eval()
    except Exception as error:  # kinds of numbers that torch does not have, such as text
        return plain, f"the conversion failed: {first_line(error)}"
    converted = Permuted(converted) if last else converted
    converted = converted.to(x.dtype) if x.is_floating_point() else converted
    problem = difference(converted, plain, x)
    return (converted, None) if problem is None else (plain, problem)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn whatever parsers raise about a file into one line that names it."""
    try:
        yield
    except Exception as error:  # whatever is wrong with the file
        got = f"{type(error).__name__}: {first_line(error)}"
        raise invalid(str(path), "an ONNX file", got, "export it again") from error


def _onnx() -> Any:  # noqa: ANN401 - a module
    try:
        import onnx
        import onnxruntime  # noqa: F401 - both are needed
    except ImportError as error:
        remedy = "install them: pip install 'symmetries[onnx]'"
        raise invalid("model", "onnx and onnxruntime for an ONNX file", error, remedy) from error
    return onnx


def _input_shape(graph: Any, others: Mapping[str, Any]) -> list[int | str]:  # noqa: ANN401
    """Return sizes of the input; a text for one that may vary, however the file spells that.

    A size that is not there, has a name, or is 0 or negative (-1) is one that may vary.
    """
    names = {weight.name for weight in graph.initializer} | set(others)
    inputs = [part for part in graph.input if part.name not in names]
    if len(inputs) != 1:
        got = f"inputs {', '.join(part.name for part in inputs) or 'none'}"
        remedy = "give the others: --inputs NAME=NUMBER,... (inputs=), or load_onnx(others={...})"
        raise invalid("model", "an ONNX file with one input, the images", got, remedy)
    dims = inputs[0].type.tensor_type.shape.dim
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else str(dim.dim_param)
        for dim in dims
    ]


def _channels_last(shape: list[int | str], x: Tensor) -> bool:
    """Whether the file takes (N, H, W, C): its sizes fit x that way and not the usual one."""
    if len(shape) != 4 or x.ndim != 4:
        return False
    _, channels, height, width = x.shape

    def fits(sizes: tuple[int, ...]) -> bool:
        return all(isinstance(a, str) or a == b for a, b in zip(shape[1:], sizes, strict=True))

    return fits((height, width, channels)) and not fits((channels, height, width))


def _check_taken(
    exact: Callable[[Tensor], Tensor], x: Tensor, path: Path, shape: list[int | str]
) -> None:
    """Raise unless ONNX Runtime gives something for the inputs."""
    try:
        exact(x)
    except Exception as error:  # whatever ONNX Runtime raises
        kind = "images" if x.ndim == 4 else "inputs"
        takes = f"a file that takes {len(x)} {kind} {tuple(x.shape[1:])}"
        why = first_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)
        got = f"one for ({', '.join(map(str, shape))}): {why.rpartition('Status Message: ')[2]}"
        remedy = "see --resize" if x.ndim == 4 else "give data of that size"
        raise invalid(
            str(path), takes, got, f"{remedy}, or export it with a dynamic first axis"
        ) from error


def _attribute(part: Any) -> Any:  # noqa: ANN401 - protobuf
    import onnx

    value = onnx.helper.get_attribute_value(part)
    if isinstance(value, onnx.TensorProto):
        return _tensor(value)
    if isinstance(value, int | float | bytes | onnx.GraphProto):
        return value
    return list(value)


def _tensor(value: Any) -> Tensor:  # noqa: ANN401 - protobuf
    import onnx

    array = onnx.numpy_helper.to_array(value)
    if value.data_type == onnx.TensorProto.BFLOAT16:  # a number that NumPy does not have
        return torch.tensor(array.astype("float32")).bfloat16()
    return torch.tensor(array.copy())
