"""The operators of ONNX that image classifiers are made of, as PyTorch functions.

Each takes the tensors of a node's inputs (None where one is left out) and its attributes. They
follow https://onnx.ai/onnx/operators; what is not here is not converted.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.auditing.onnx_resize import resize, transposed_convolution

Attributes = dict[str, Any]
Operator = Callable[[list[Any], Attributes], Any]
# By the number of axes.
CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEAN_POOLS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _ints(value: Tensor | list[int] | None) -> list[int] | None:
    return value.flatten().tolist() if isinstance(value, Tensor) else value


def _axes(inputs: list[Any], given: Attributes) -> list[int] | None:
    """Axes: an attribute in old files, an input in new ones."""
    axes = given.get("axes")
    return axes if axes is not None or len(inputs) < 2 else _ints(inputs[1])


def _padding(given: Attributes, x: Tensor, kernel: list[int]) -> list[int]:
    """Return the padding (begin of each axis, then end of each)."""
    rank = len(kernel)
    automatic = given.get("auto_pad", b"NOTSET")
    if automatic in (b"NOTSET", b"VALID"):
        pads: list[int] = given.get("pads", [0] * (2 * rank))
        return pads if automatic == b"NOTSET" else [0] * (2 * rank)
    strides = given.get("strides", [1] * rank)
    dilations = given.get("dilations", [1] * rank)
    begin, end = [], []
    for axis in range(rank):
        size = x.shape[2 + axis]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        total = max(0, (-(-size // strides[axis]) - 1) * strides[axis] + reach - size)
        small, large = total // 2, total - total // 2
        begin.append(small if automatic == b"SAME_UPPER" else large)
        end.append(large if automatic == b"SAME_UPPER" else small)
    return begin + end


def _padded(x: Tensor, pads: list[int], value: float = 0.0) -> Tensor:
    rank = len(pads) // 2
    order = [pads[side * rank + axis] for axis in reversed(range(rank)) for side in (0, 1)]
    return F.pad(x, order, value=value) if any(order) else x


def _convolve(inputs: list[Any], given: Attributes) -> Tensor:
    x, weight, *bias = inputs
    rank = weight.ndim - 2
    x = _padded(x, _padding(given, x, list(weight.shape[2:])))
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    rest = strides, 0, dilations, given.get("group", 1)
    return CONVOLUTIONS[rank](x, weight, bias[0] if bias else None, *rest)


def _max_pool(inputs: list[Any], given: Attributes) -> Tensor:
    if given.get("storage_order", 0):
        raise invalid("MaxPool", "storage_order 0", 1, "export it with rows first")
    x, kernel = inputs[0], given["kernel_shape"]
    rank = len(kernel)
    x = _padded(x, _padding(given, x, kernel), value=float("-inf"))
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    return MAX_POOLS[rank](x, kernel, strides, 0, dilations, bool(given.get("ceil_mode", 0)))


def _average_pool(inputs: list[Any], given: Attributes) -> Tensor:
    x, kernel = inputs[0], given["kernel_shape"]
    rank = len(kernel)
    function, pads = MEAN_POOLS[rank], _padding(given, x, kernel)
    how = kernel, given.get("strides", [1] * rank), 0, bool(given.get("ceil_mode", 0))
    means: Tensor = function(_padded(x, pads), *how)
    if given.get("count_include_pad", 0) or not any(pads):
        return means
    share: Tensor = function(_padded(torch.ones_like(x), pads), *how)
    return means / share


def _gemm(inputs: list[Any], given: Attributes) -> Tensor:
    a, b, *c = inputs
    a = a.mT if given.get("transA", 0) else a
    b = b.mT if given.get("transB", 0) else b
    product: Tensor = given.get("alpha", 1.0) * (a @ b)
    if c and c[0] is not None:
        product = product + given.get("beta", 1.0) * c[0]
    return product


def _batch_norm(inputs: list[Any], given: Attributes) -> Tensor:
    x, scale, bias, mean, variance = inputs
    return F.batch_norm(x, mean, variance, scale, bias, eps=given.get("epsilon", 1e-5))


def _layer_norm(inputs: list[Any], given: Attributes) -> Tensor:
    x, scale, *bias = inputs
    shape = list(x.shape[given.get("axis", -1) % x.ndim :])
    normal: Tensor = F.layer_norm(x, shape, eps=given.get("epsilon", 1e-5)) * scale
    if bias and bias[0] is not None:
        normal = normal + bias[0]
    return normal


def _reshape(inputs: list[Any], given: Attributes) -> Tensor:
    x, shape = inputs[0], _ints(inputs[1]) or []
    if not given.get("allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return x.reshape(shape)


def _flatten(inputs: list[Any], given: Attributes) -> Tensor:
    x, axis = inputs[0], given.get("axis", 1)
    axis = axis % x.ndim if axis != x.ndim else axis
    rows = int(torch.Size(x.shape[:axis]).numel())
    return x.reshape(rows, -1)


def _squeeze(inputs: list[Any], given: Attributes) -> Tensor:
    axes = _axes(inputs, given)
    x: Tensor = inputs[0]
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(inputs: list[Any], given: Attributes) -> Tensor:
    x, axes = inputs[0], _axes(inputs, given) or []
    for axis in sorted(a % (x.ndim + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(inputs: list[Any], given: Attributes) -> Tensor:
    x = inputs[0]
    rest: list[Any] = [_ints(part) for part in inputs[1:]] + [None] * 4
    starts, ends = given.get("starts", rest[0]), given.get("ends", rest[1])
    axes = given.get("axes", rest[2]) or list(range(len(starts)))
    steps = rest[3] or [1] * len(starts)
    if min(steps) < 1:
        raise invalid("Slice", "positive steps", steps, "export it with flips as Gather")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index = range(x.shape[axis])[start:end:step]
        x = x.narrow(axis, index.start, max(0, index.stop - index.start))[
            (slice(None),) * (axis % x.ndim) + (slice(None, None, step),)
        ]
    return x


def _gather(inputs: list[Any], given: Attributes) -> Tensor:
    x, index = inputs
    axis = given.get("axis", 0) % x.ndim
    chosen = x.index_select(axis, index.flatten().long() % x.shape[axis])
    return chosen.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _split(inputs: list[Any], given: Attributes) -> tuple[Tensor, ...]:
    x, axis = inputs[0], given.get("axis", 0)
    sizes = given.get("split") or (_ints(inputs[1]) if len(inputs) > 1 else None)
    if sizes is None:
        sizes = -(-x.shape[axis] // given["num_outputs"])
    return x.split(sizes, axis)


def _pad(inputs: list[Any], given: Attributes) -> Tensor:
    x = inputs[0]
    pads: list[int] = given.get("pads") or _ints(inputs[1]) or []
    value = float(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    mode = given.get("mode", b"constant").decode()
    if mode == "constant" and (len(inputs) < 4 or inputs[3] is None):
        return _padded(x, pads, value)
    if mode not in ("reflect", "edge", "wrap") or any(pads[:2]) or len(pads) != 8:
        raise invalid("Pad", "constant, or the two axes of images", mode, "export another padding")
    names = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    return F.pad(x, [pads[3], pads[7], pads[2], pads[6]], mode=names[mode])


def _cast(inputs: list[Any], given: Attributes) -> Tensor:
    dtypes = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}
    dtypes |= {10: torch.float16, 16: torch.bfloat16}
    number = given["to"]
    if number not in dtypes:
        raise invalid("Cast", "single or double precision, or integers", number, "export another")
    return inputs[0].to(dtypes[number])


def _softmax(function: Callable[..., Tensor]) -> Operator:
    return lambda inputs, given: function(inputs[0], dim=given.get("axis", -1))


def _reduce(function: Callable[..., Tensor]) -> Operator:
    def reduced(inputs: list[Any], given: Attributes) -> Tensor:
        x: Tensor = inputs[0]
        axes = _axes(inputs, given)
        if not axes:
            if given.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(x.ndim))
        return function(x, dim=axes, keepdim=bool(given.get("keepdims", 1)))

    return reduced


def _plain(function: Callable[..., Any]) -> Operator:
    return lambda inputs, given: function(*inputs)


def _clip(inputs: list[Any], given: Attributes) -> Tensor:
    low, high = ([*inputs[1:], None, None])[:2]
    low = given.get("min", low)
    return torch.clamp(inputs[0], low, given.get("max", high))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _of_all(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    def folded(inputs: list[Any], given: Attributes) -> Tensor:
        result: Tensor = inputs[0]
        for other in inputs[1:]:
            result = function(result, other)
        return result

    return folded


def _global(function: Callable[..., Tensor]) -> Operator:
    return lambda inputs, given: function(inputs[0], tuple(range(2, inputs[0].ndim)), keepdim=True)


# Operators that are functions of torch with the same name.
SAME = (
    *("Abs", "Add", "Cos", "Erf", "Exp", "Floor", "Log", "MatMul", "Neg", "Pow", "Reciprocal"),
    *("Relu", "Sigmoid", "Sin", "Sqrt", "Sub", "Tanh", "Where", "Mul"),
)
OPERATORS: dict[str, Operator] = {name: _plain(getattr(torch, name.lower())) for name in SAME}
OPERATORS |= {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda inputs, given: torch.cat(inputs, given["axis"]),
    "ConstantOfShape": lambda inputs, given: torch.full(
        _ints(inputs[0]) or [], given["value"].item() if "value" in given else 0.0
    ),
    "Conv": _convolve,
    "ConvTranspose": transposed_convolution,
    "Div": _plain(_divide),
    "Dropout": lambda inputs, given: inputs[0],
    "Elu": lambda inputs, given: F.elu(inputs[0], given.get("alpha", 1.0)),
    "Equal": _plain(torch.eq),
    "Expand": lambda inputs, given: inputs[0] * torch.ones(_ints(inputs[1]) or []).to(inputs[0]),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": lambda inputs, given: F.gelu(
        inputs[0], approximate=given.get("approximate", b"none").decode()
    ),
    "Gemm": _gemm,
    "GlobalAveragePool": _global(torch.mean),
    "GlobalMaxPool": _global(torch.amax),
    "HardSigmoid": lambda inputs, given: torch.clamp(
        given.get("alpha", 0.2) * inputs[0] + given.get("beta", 0.5), 0, 1
    ),
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(lambda x: x),
    "InstanceNormalization": lambda inputs, given: F.instance_norm(
        inputs[0], weight=inputs[1], bias=inputs[2], eps=given.get("epsilon", 1e-5)
    ),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda inputs, given: F.leaky_relu(inputs[0], given.get("alpha", 0.01)),
    "LogSoftmax": _softmax(F.log_softmax),
    "Max": _of_all(torch.maximum),
    "MaxPool": _max_pool,
    "Min": _of_all(torch.minimum),
    "Mish": _plain(F.mish),
    "PRelu": _plain(lambda x, slope: torch.where(x < 0, slope * x, x)),
    "Pad": _pad,
    "Range": _plain(lambda *ends: torch.arange(*(end.item() for end in ends))),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Reshape": _reshape,
    "Resize": resize,
    "Selu": _plain(F.selu),
    "Shape": lambda inputs, given: torch.tensor(
        inputs[0].shape[given.get("start", 0) : given.get("end")]
    ),
    "Slice": _slice,
    "Softmax": _softmax(F.softmax),
    "Softplus": _plain(F.softplus),
    "Split": _split,
    "Squeeze": _squeeze,
    "Sum": _of_all(torch.add),
    "Transpose": lambda inputs, given: inputs[0].permute(
        given.get("perm", list(reversed(range(inputs[0].ndim))))
    ),
    "Unsqueeze": _unsqueeze,
    "Upsample": resize,
}

# Inputs that are sizes or axes: as numbers, constants of a file are known when it is exported again
SIZES: dict[str, tuple[int, ...]] = {"ConstantOfShape": (0,), "Slice": (1, 2, 3, 4)}
SIZES |= dict.fromkeys(("Expand", "Pad", "Reshape", "Split", "Squeeze", "Unsqueeze"), (1,))
SIZES |= {name: (1,) for name in OPERATORS if name.startswith("Reduce")}
