"""Comparing a converted ONNX graph with ONNX Runtime, on pictures as they are and moved."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

from symmetries.auditing.onnx_operators import OPERATORS

STANDARD = ("", "ai.onnx")  # domains whose operators are those of the ONNX specification
TOLERANCE = 1e-3  # of the largest logit: rounding of different kernels
Function = Callable[[Tensor], Tensor]


def not_converted(model: Any) -> list[str]:  # noqa: ANN401 - protobuf
    """The operators of a model that have no converted form, as "Name" or "domain::Name".

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


def _domain(part: Any) -> str:  # noqa: ANN401 - protobuf
    return "" if part.domain in STANDARD else str(part.domain)


def moved(x: Tensor) -> Tensor:
    """Pictures (N, C, H, W) and moved versions of them: flipped, shifted, turned, inverted.

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
    """What is wrong with a conversion on pictures (N, C, H, W) and moved ones; None if nothing."""
    pictures = moved(x)
    expected = torch.cat([exact(part) for part in pictures.split(len(x))])
    try:
        with torch.no_grad():
            found = torch.cat([converted.to(x.device)(part) for part in pictures.split(len(x))])
    except Exception as error:  # an operator used in a way that is not converted
        return f"the conversion failed: {first_line(error)}"
    if found.shape != expected.shape:
        return f"the conversion gives {tuple(found.shape)}, not {tuple(expected.shape)}"
    off = float((found - expected).abs().max()) if found.numel() else 0.0
    if not off <= TOLERANCE * max(1.0, float(expected.abs().max())):
        return f"the conversion is off by {off:.2g}"
    try:
        probe = x[:2].detach().requires_grad_()
        torch.autograd.grad(converted(probe).sum(), probe)
    except Exception as error:  # logits that no gradient leads to
        return f"the logits have no gradient: {first_line(error)}"
    return None


def first_line(error: Exception) -> str:
    """The first line of what an error says, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
