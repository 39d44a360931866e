"""Inputs and outputs of ONNX files, and comparing a converted graph with ONNX Runtime."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

from symmetries._validation.checks import invalid
from symmetries.auditing.onnx_operators import OPERATORS

STANDARD = ("", "ai.onnx")  # domains whose operators are those of the ONNX specification
TOLERANCE = 1e-3  # of the largest output: rounding of different kernels
Function = Callable[[Tensor], Tensor]


def not_converted(model: Any) -> list[str]:  # noqa: ANN401 - protobuf
    """Return the operators of a model that have no converted form, as "Name" or "domain::Name".

    An operator counts by its domain and its name: a file may define a function of its own, in any
    domain, under the name of a standard operator.

    Args:
        model: ``onnx.load(path)``.
    """
    own = {(_domain(function), function.name) for function in model.functions}
    missing = set()
    for node in model.graph.node:
        domain = _domain(node)
        known = node.op_type in OPERATORS or node.op_type == "Constant"
        if domain or not known or (domain, node.op_type) in own:
            missing.add(f"{node.domain}::{node.op_type}" if domain else node.op_type)
    return sorted(missing)


def constant_inputs(graph: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:  # noqa: ANN401
    """Arrays for the other inputs of a graph, and whether they are for one example at a time.

    Args:
        graph: ``onnx.load(path).graph``.
        given: by name, arrays as they are, or numbers, which fill the shape and have the kind of
            number that the file declares; axes that may vary get one place.
    """
    import onnx

    declared = {part.name: part.type.tensor_type for part in graph.input}
    found: dict[str, Any] = {}
    single = False
    for name, value in given.items():
        if name not in declared:
            known = ", ".join(declared)
            raise invalid("inputs", f"names among {known}", repr(name), "check the spelling")
        if not isinstance(value, int | float):
            found[name] = value
            continue
        sizes = [dim.dim_value for dim in declared[name].shape.dim]
        single = single or (bool(sizes) and sizes[0] <= 1)
        kind = onnx.helper.tensor_dtype_to_np_dtype(declared[name].elem_type)
        if kind.kind in "iu" and not (float(value).is_integer() and _fits(value, kind)):
            remedy = "round it"
            raise invalid("inputs", f"a whole number of type {kind}", f"{name}={value:g}", remedy)
        found[name] = np.full([max(1, size) for size in sizes], value, kind)
    return found, single


def _fits(value: float, kind: "np.dtype[Any]") -> bool:
    limits = np.iinfo(kind)
    return limits.min <= value <= limits.max


def parse_inputs(text: str) -> dict[str, float]:
    """Return numbers by name from "scale=1,sr=16000".

    Example:
        >>> parse_inputs("scale_factor=1, sr=16000")
        {'scale_factor': 1.0, 'sr': 16000.0}
    """
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        numbers = {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        remedy = "write NAME=NUMBER, several with commas"
        raise invalid("inputs", "NAME=NUMBER,...", repr(text), remedy) from None
    if len(numbers) < len(pairs):
        raise invalid("inputs", "each name once", repr(text), "leave one out")
    return numbers


def _domain(part: Any) -> str:  # noqa: ANN401 - protobuf
    return "" if part.domain in STANDARD else str(part.domain)


def moved(x: Tensor) -> Tensor:
    """Return pictures (N, C, H, W) and moved versions of them: flipped, shifted, turned, inverted.

    Of other data, flipped and shifted along the last axis, and inverted.
    """
    if x.ndim != 4:
        return torch.cat([x, x.flip(-1), x.roll(x.shape[-1] // 3, -1), 1 - x])
    height, width = x.shape[-2:]
    versions = [x, x.flip(-1), x.flip(-2), x.roll((height // 3, width // 3), (-2, -1)), 1 - x]
    versions += [x.rot90(1, (-2, -1)), x.rot90(3, (-2, -1))] if height == width else []
    if x.is_floating_point():
        cosine, sine = 0.8, 0.6  # of 37 degrees: between the pixels
        turn = torch.tensor([[cosine, sine, 0.1], [-sine, cosine, -0.1]]).to(x)
        grid = affine_grid(turn.expand(len(x), 2, 3), list(x.shape), align_corners=False)
        versions += [grid_sample(x, grid, align_corners=False)]
    return torch.cat(versions)


def difference(converted: nn.Module, exact: Function, x: Tensor) -> str | None:
    """Return how a conversion differs on pictures (N, C, H, W) and moved ones, if it does."""
    pictures = moved(x)
    expected = torch.cat([exact(part) for part in pictures.split(len(x))])
    try:
        with torch.no_grad():
            found = torch.cat([converted.to(x.device)(part) for part in pictures.split(len(x))])
    except Exception as error:  # an operator used in a way that is not converted
        return f"the conversion failed: {first_line(error)}"
    if found.shape != expected.shape:
        return f"the conversion gives {tuple(found.shape)}, not {tuple(expected.shape)}"
    if not expected.numel():
        return None
    expected, found = expected.double(), found.double()  # truth values have no difference
    size = float(expected.abs().max())
    off = float((found - expected).abs().max())
    if not off <= TOLERANCE * size:
        return f"the conversion is off by {off:.2g}, where the outputs are up to {size:.2g}"
    try:
        probe = x[:2].detach().requires_grad_()
        torch.autograd.grad(converted(probe).sum(), probe)
    except Exception as error:  # logits that no gradient leads to
        return f"the logits have no gradient: {first_line(error)}"
    return None


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def output_name(graph: Any, output: str | None) -> str:  # noqa: ANN401 - protobuf
    """The name of an output by name or number; the first by default, with a warning of others."""
    names: list[str] = [part.name for part in graph.output]
    if not names:  # an empty file is one, too
        raise invalid("model", "an ONNX file with an output", "none", "export it again")
    if output is None and len(names) > 1:
        text = f"the file has outputs {', '.join(names)}: the first is measured; "
        text += "output=NAME (--output) chooses another"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    if output is None or output in names:
        return output or names[0]
    if output.isdecimal() and int(output) < len(names):
        return names[int(output)]
    raise invalid("output", f"one of {', '.join(names)}", repr(output), "choose one, or its number")
