"""Operators of ONNX that change the resolution: Resize, Upsample and ConvTranspose.

They follow https://onnx.ai/onnx/operators, as those of ``onnx_operators``.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._validation.checks import invalid

Attributes = dict[str, Any]


def resize(inputs: list[Any], given: Attributes) -> Tensor:
    """Return the nearest or linear interpolation, one axis after the other.

    Args:
        inputs: x, and scales (Upsample, and Resize of version 10); or x, roi, scales, sizes.
        given: mode, coordinate_transformation_mode, nearest_mode.
    """
    x: Tensor = inputs[0]
    old = len(inputs) == 2
    scales, sizes = (inputs[1], None) if old else ([*inputs[2:], None, None])[:2]
    mode = given.get("mode", b"nearest").decode()
    if mode not in ("nearest", "linear") or any(given.get(k) for k in ("axes", "antialias")):
        got = f"{mode}, or options that are not converted"
        raise invalid("Resize", "nearest or linear", got, "export another interpolation")
    usual = b"asymmetric" if old else b"half_pixel"
    place = given.get("coordinate_transformation_mode", usual).decode()
    rounding = given.get("nearest_mode", b"floor" if old else b"round_prefer_floor").decode()
    for axis, size in enumerate(x.shape):
        if sizes is not None and sizes.numel():
            new = int(sizes[axis])
            scale = new / size
        else:
            scale = float(scales[axis])
            new = int(size * scale)
        if new != size or scale != 1:
            at = _sources(place, new, size, scale)
            x = _nearest(x, axis, at, rounding) if mode == "nearest" else _linear(x, axis, at)
    return x


def _sources(place: str, new: int, size: int, scale: float) -> Tensor:
    """Return where each of the new samples lies among the old ones."""
    i = torch.arange(new, dtype=torch.float64)
    if place == "asymmetric":
        return i / scale
    if place == "align_corners":
        return i * (size - 1) / max(new - 1, 1)
    if place == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if place == "pytorch_half_pixel" and new == 1:
        return torch.zeros(1, dtype=torch.float64)
    if place in ("half_pixel", "pytorch_half_pixel"):
        return (i + 0.5) / scale - 0.5
    raise invalid("Resize", "a usual coordinate transformation", place, "export another one")


def _nearest(x: Tensor, axis: int, at: Tensor, rounding: str) -> Tensor:
    ways = {
        "floor": at.floor(),
        "ceil": at.ceil(),
        "round_prefer_floor": (at - 0.5).ceil(),
        "round_prefer_ceil": (at + 0.5).floor(),
    }
    index = ways[rounding].clamp(0, x.shape[axis] - 1).long()
    return x.index_select(axis, index.to(x.device))


def _linear(x: Tensor, axis: int, at: Tensor) -> Tensor:
    at = at.clamp(0, x.shape[axis] - 1)
    low = at.floor().long()
    high = (low + 1).clamp_max(x.shape[axis] - 1)
    shape = [1] * x.ndim
    shape[axis] = len(at)
    share = (at - low).reshape(shape).to(x)
    left, right = (x.index_select(axis, index.to(x.device)) for index in (low, high))
    return left + share * (right - left)


def transposed_convolution(inputs: list[Any], given: Attributes) -> Tensor:
    """Return the transpose of a convolution; padding is cut off behind it."""
    x, weight, *bias = inputs
    rank = weight.ndim - 2
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" or "output_shape" in given:
        got = "automatic padding, or a given shape of the output"
        raise invalid("ConvTranspose", "explicit padding", got, "export explicit padding")
    functions = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
    function: Any = functions[rank]
    pads = given.get("pads", [0] * (2 * rank))
    y: Tensor = function(
        x,
        weight,
        None,
        stride=given.get("strides", [1] * rank),
        groups=given.get("group", 1),
        dilation=given.get("dilations", [1] * rank),
    )
    extra = given.get("output_padding", [0] * rank)
    y = F.pad(y, [end for one in reversed(extra) for end in (0, one)])
    for axis in range(rank):
        length = y.shape[2 + axis] - pads[axis] - pads[rank + axis]
        y = y.narrow(2 + axis, pads[axis], length)
    return y + bias[0].reshape(-1, *[1] * rank) if bias and bias[0] is not None else y
