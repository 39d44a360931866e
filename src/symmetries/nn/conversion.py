"""Conversion of a CNN to relaxed group convolutions, and of these to fixed filters."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import (
    as_path,
    check_flag,
    check_images,
    check_module,
    check_tensors,
    invalid,
)
from symmetries._validation.placement import call_model
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, PlaneConv2d
from symmetries.nn.gconv_sampling import PointGroup, as_point_group
from symmetries.nn.gpool import FieldBatchNorm2d


def relax_convolutions(
    model: nn.Module,
    group: str | PointGroup,
    *,
    mode: str = "soft",
    relax: Mapping[str, float] | None = None,
    learn: bool = True,
    generator: torch.Generator | None = None,
    **options: Any,  # noqa: ANN401 - of the layers
) -> nn.Module:
    """Return a copy of a CNN with its convolutions replaced by group convolutions.

    Each ``nn.Conv2d`` with C channels becomes one with C / |H| fields, so the surrounding layers
    still fit; the first one lifts the image. ``nn.BatchNorm2d`` becomes a norm of fields. With
    ``Cyclic(1)`` the channels are the fields. The new layers are initialised, without the old
    weights. For an invariant model, put a ``GroupPool`` before the head.

    Args:
        model: any module whose first ``nn.Conv2d``, in the order of definition, takes the image.
            It is not changed.
        group: H.
        mode: "strict", "soft" or "partial", as for the layers; the first layer is strict in mode
            "partial".
        relax: initial omega', as for the layers.
        learn: whether omega' is learned.
        generator: random generator of the new weights.
        options: further arguments of the layers, such as ``hidden``.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> first, second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
        >>> cnn = nn.Sequential(first, nn.BatchNorm2d(8), nn.ReLU(), second)
        >>> relaxed = relax_convolutions(cnn, Cyclic(4))
        >>> relaxed(torch.rand(2, 3, 9, 9)).shape
        torch.Size([2, 4, 5, 5])
    """
    check_module(model)
    group = as_point_group(group)
    check_flag(learn, "learn")
    model = copy.deepcopy(model)
    names = [n for n, m in model.named_modules() if type(m) in (nn.Conv2d, nn.BatchNorm2d)]
    convolutions = [n for n in names if isinstance(model.get_submodule(n), nn.Conv2d)]
    if not convolutions:
        raise invalid("model", "a module with nn.Conv2d layers", "none", "give a CNN")
    common = {"group": group, "learn": learn, "generator": generator, **options}
    for name in names:
        old = model.get_submodule(name)
        if isinstance(old, nn.BatchNorm2d):
            fields = _fields(name, old.num_features, group)
            momentum = 0.1 if old.momentum is None else old.momentum
            model = _replaced(model, name, FieldBatchNorm2d(fields, group, old.eps, momentum))
            continue
        lifting = name == convolutions[0]
        kind = "strict" if lifting and mode == "partial" else mode
        settings = {**common, "mode": kind, "relax": relax if kind == "soft" else None}
        model = _replaced(model, name, _converted(name, old, lifting, group, settings))
    return model


def _converted(
    name: str, old: nn.Module, lifting: bool, group: PointGroup, settings: Mapping[str, Any]
) -> PlaneConv2d:
    if not isinstance(old, nn.Conv2d):
        raise TypeError(f"{name} is not an nn.Conv2d")
    simple = {
        "a square kernel": old.kernel_size[0] == old.kernel_size[1],
        "one stride": old.stride[0] == old.stride[1],
        "dilation 1": old.dilation == (1, 1),
        "one group of channels": old.groups == 1,
        "padding with zeros": old.padding_mode == "zeros",
        "equal padding": isinstance(old.padding, str) or len(set(old.padding)) == 1,
    }
    for expected, holds in simple.items():
        if not holds:
            raise invalid(f"layer {name}", expected, str(old), "change or exclude that layer")
    inputs = old.in_channels if lifting else _fields(name, old.in_channels, group)
    padding = old.padding if isinstance(old.padding, str) else old.padding[0]
    return (LiftingConv2d if lifting else GroupConv2d)(
        inputs,
        _fields(name, old.out_channels, group),
        old.kernel_size[0],
        old.stride[0],
        padding,
        bias=old.bias is not None,
        **settings,
    )


def _fields(name: str, channels: int, group: PointGroup) -> int:
    if channels % group.order:
        expected = f"channels in multiples of {group.order}, the elements of {group}"
        remedy = "widen the model, or take fewer rotations"
        raise invalid(f"layer {name}", expected, channels, remedy)
    return channels // group.order


def _replaced(model: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Return the model with one part replaced, or the layer itself if the model is that part."""
    layer.train(model.training)
    if not name:
        return layer
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, layer)
    return model


def bake(model: nn.Module, example: Tensor) -> nn.Module:
    """Return a copy of a model with its filters computed once and fixed.

    Group convolutions become ``nn.Conv2d`` with fixed weights; position-dependent ones become
    layers for the image size of the example. The copy costs as much as these layers, needs no
    group, and exports to any format that supports convolutions.

    Args:
        model: model in eval mode.
        example: an input (N, C, H, W) of the size to be used, with a typical number of images.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = nn.Sequential(LiftingConv2d(1, 2, 3, group=Cyclic(4))).eval()
        >>> bake(model, torch.rand(1, 1, 8, 8))
        Sequential(
          (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1))
        )
    """
    check_module(model)
    check_tensors(example=example)
    check_images(example, "example")
    if model.training:
        raise invalid("model", "eval mode, to bake its filters", "training", "call eval()")
    sizes: dict[str, tuple[int, int]] = {}
    layers = {n: m for n, m in model.named_modules() if isinstance(m, PlaneConv2d)}

    def remember(name: str, layer: PlaneConv2d, x: Tensor) -> None:
        size = (x.shape[2], x.shape[3])
        if layer.positional and sizes.get(name, size) != size:
            got = f"{sizes[name]} and {size}"
            remedy = "use separate layers for separate sizes"
            raise invalid(f"layer {name}", "images of one size", got, remedy)
        sizes[name] = size

    hooks = [
        layer.register_forward_pre_hook(lambda m, x, name=name: remember(name, m, x[0]))
        for name, layer in layers.items()
    ]
    try:
        with torch.no_grad():
            call_model(model, example, "example")
    finally:
        for hook in hooks:
            hook.remove()
    baked = copy.deepcopy(model)
    for name, layer in layers.items():
        if name in sizes:
            baked = _replaced(baked, name, layer.baked(sizes[name], len(example)))
    return baked.eval()


def export(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Export a model with baked filters by ``torch.export``, for any number of images.

    Args:
        model: model in eval mode.
        example: an input (N, C, H, W) with N of at least 2.

    Example:
        >>> from symmetries.groups import Cyclic
        >>> model = nn.Sequential(LiftingConv2d(1, 2, 3, group=Cyclic(4))).eval()
        >>> x = torch.rand(2, 1, 8, 8)
        >>> torch.allclose(export(model, x).module()(x), model(x), atol=1e-6)
        True
    """
    check_tensors(example=example)
    check_images(example, "example")
    if len(example) < 2:  # torch.export takes a size of 1 for a constant
        raise invalid("example", "at least two images", len(example), "repeat the image")
    batch = {0: torch.export.Dim("batch")}
    return torch.export.export(bake(model, example), (example,), dynamic_shapes=(batch,))


def export_onnx(model: nn.Module, example: Tensor, path: str | Path) -> Path:
    """Export a model with baked filters to ONNX: "images" (N, C, H, W) to "outputs", any N.

    This needs ``symmetries[onnx]``.

    Args:
        model: model in eval mode.
        example: an input (N, C, H, W) with N of at least 2.
        path: path of the file, which includes the weights.

    Returns:
        Path of the file.
    """
    path = as_path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise invalid("path", "a file in an existing folder", path, "try 'model.onnx'")
    options: dict[str, Any] = {"input_names": ["images"], "output_names": ["outputs"]}
    options |= {"dynamo": True, "external_data": False, "verbose": False}
    torch.onnx.export(export(model, example), (example,), path, **options)
    return path
