"""Filters of group convolutions, position-dependent convolutions, and norms of fields."""

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from symmetries.groups import Cyclic, Dihedral
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d
from symmetries.nn.gpool import FieldBatchNorm2d, FieldNorm2d
from symmetries.ops import _dispatch, _fused_network
from symmetries.ops.position_conv import Geometry, position_conv2d
from symmetries.ops.triton import gathered_conv, group_filters, neighbours

from .checking import Case, Errors, relative

SMALL = {"hidden": 16, "features": 16}
FILTERS: dict[str, Callable[[], nn.Module]] = {
    "strict": lambda: GroupConv2d(3, 5, 3, group=Cyclic(2), **SMALL),
    "disk": lambda: GroupConv2d(2, 3, 5, group=Cyclic(3), bias=False, **SMALL),
    "soft": lambda: RelaxedGroupConv2d(2, 3, 3, group=Cyclic(3), relax={"rotation": 0.7}, **SMALL),
    "flips": lambda: RelaxedGroupConv2d(
        2, 2, 3, group=Dihedral(2), relax={"rotation": 0.7, "flip": 0.3}, **SMALL
    ),
    "soft lifting": lambda: LiftingConv2d(
        3, 4, 3, group=Cyclic(4), mode="soft", relax={"rotation": 0.7}, learn=False, **SMALL
    ),
    "usual": lambda: RelaxedGroupConv2d(9, 8, 3, group=Cyclic(4)),
}
POSITIONAL: dict[str, Callable[[], nn.Module]] = {
    "plane": lambda: RelaxedGroupConv2d(
        2, 3, 3, padding=1, group=Cyclic(1), relax={"translation": 0.7}, **SMALL
    ),
    "line": lambda: RelaxedGroupConv2d(
        3, 2, 5, group=Cyclic(1), relax={"shift_x": 0.3}, bias=False
    ),
}
ALL = FILTERS | POSITIONAL
TOLERANCES = {"value": 5e-6, "gradient": 5e-6}


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for operation, layers in (("group_filters", FILTERS), ("positional_features", POSITIONAL)):
        for name in layers:
            yield Case(operation, name, partial(filter_errors, name), TOLERANCES)
    second = {"second": 5e-6}
    soft, plane = partial(second_gradients, "soft"), partial(second_gradients, "plane")
    yield Case("group_filters", "soft, second gradient", soft, second)
    yield Case("positional_features", "plane, second gradient", plane, second)
    yield Case("group_filters", "a wrong kernel is refused", wrong_filters, {"used": 0.5})
    yield Case("group_filters", "a switch is obeyed later", later_switch, {"disobeyed": 0.5})
    # Images, fields in, fields out, height, width, kernel, padding, hidden.
    small = [(2, 3, 5, 6, 7, 3, 1, 16), (1, 70, 2, 5, 4, 4, 2, 32), (3, 4, 3, 6, 7, 5, 0, 32)]
    large = [(16, 64, 64, 32, 32, 5, 2, 32)]
    for sizes in small + large:
        name = "{}x{} to {} of {}x{}, kernel {}, padding {}, {} units".format(*sizes)
        errors = partial(position_errors, *sizes)
        yield Case("position_conv", name, errors, TOLERANCES, sizes in large)
    yield Case("position_conv", "a wrong kernel is refused", wrong_positions, {"used": 0.5})
    shapes = [((3, 12, 5, 6), 4), ((2, 8, 7, 7), 1), ((4, 24, 3, 3), 8), ((64, 64, 32, 32), 4)]
    for kind in (FieldNorm2d, FieldBatchNorm2d):
        for shape, n in shapes:
            name = f"{kind.__name__}, {'x'.join(map(str, shape))}, {n} rotations"
            errors = partial(norm_errors, kind, shape, n)
            more = TOLERANCES | {"buffers": 5e-6}
            yield Case("field_norm", name, errors, more, len(shape) == 4 and shape[0] == 64)


def filter_errors(name: str, device: torch.device) -> Errors:
    """Errors of filters (or features of positions), bias and gradients."""
    layer = ALL[name]().to(device)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    unread = {"kernel.output"} if layer.positional else set()
    exact, found = copy.deepcopy(layer).double(), []
    for one in (layer, exact):
        made = [t for t in one.generate((9, 9)) if t is not None]
        given = [torch.linspace(-1, 2, t.numel()).to(t).view_as(t) for t in made]
        parameters = [p for name, p in one.named_parameters() if name not in unread]
        found.append((made, torch.autograd.grad(made, parameters, given)))
    worst = [max(map(relative, *part)) for part in zip(*found, strict=True)]
    return {"value": worst[0], "gradient": worst[1]}


def second_gradients(name: str, device: torch.device) -> Errors:
    """Errors of the gradient of a gradient."""
    layer, found = ALL[name]().to(device), []
    for one in (layer, copy.deepcopy(layer).double()):
        parameters = [p for n, p in one.named_parameters() if n != "bias"]
        total = one.generate((9, 9)).weight.square().sum()
        first = torch.autograd.grad(total, parameters, create_graph=True, allow_unused=True)
        again = sum(g.square().sum() for g in first if g is not None)
        found.append(torch.autograd.grad(again, parameters, allow_unused=True))
    pairs = [pair for pair in zip(*found, strict=True) if pair[0] is not None]
    return {"second": max(relative(*pair) for pair in pairs)}


def _is_fused(layer: nn.Module) -> bool:
    """Whether kernels sample a layer's own weights, and not those of a trial."""
    before, used = _fused_network.made, []

    def made(network: _fused_network.FusedNetwork) -> object:
        used.append(any(part is layer.kernel.output for part in network.parts))
        return before(network)

    _fused_network.made = made
    try:
        layer.generate((9, 9))
    finally:
        _fused_network.made = before
    return any(used)


def wrong_filters(device: torch.device) -> Errors:
    """A kernel that is wrong on a device is found out there."""
    kept = group_filters.FusedFilters.gradients
    group_filters.FusedFilters.gradients = lambda *given: [2 * part for part in kept(*given)]
    _fused_network._KNOWN.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            used = _is_fused(FILTERS["strict"]().to(device))
    finally:
        group_filters.FusedFilters.gradients = kept
        _fused_network._KNOWN.clear()
    return {"used": float(used)}


def later_switch(device: torch.device) -> Errors:
    """Kernels that a layer has used before are left alone where they are switched off later."""
    layer, found = FILTERS["strict"]().to(device), []
    before = os.environ.pop(_dispatch.VARIABLE, None)
    try:
        for value in ("1", "0", "1"):
            os.environ[_dispatch.VARIABLE] = value
            found.append(_is_fused(layer))
    finally:
        os.environ.pop(_dispatch.VARIABLE)
        if before is not None:
            os.environ[_dispatch.VARIABLE] = before
    return {"disobeyed": float(found != [True, False, True])}


def position_errors(
    images: int,
    fields_in: int,
    fields_out: int,
    height: int,
    width: int,
    k: int,
    padding: int,
    hidden: int,
    device: torch.device,
) -> Errors:
    """Errors of a position-dependent convolution and its gradients."""
    g = Geometry(fields_in, fields_out, 1, 1, k, 1, padding)
    places = (height + 2 * padding - k + 1) * (width + 2 * padding - k + 1)
    shapes = [(images, fields_in, height, width), (places, k * k, 1, hidden)]
    shapes += [(fields_out, fields_in, hidden), (fields_out,)]
    drawn = [torch.randn(shape).to(device) for shape in shapes]
    if not gathered_conv.is_right(*drawn[:2]):
        raise ValueError("the kernels were refused")
    found = []
    for dtype in (torch.float32, torch.float64):
        inputs = [t.to(dtype).requires_grad_() for t in drawn]
        if dtype == torch.float32:  # the kernels' own, exact here; torch's are used where they are
            x, phi, output, bias = inputs
            _dispatch.usable("position_conv", x, phi)
            x = x.contiguous(memory_format=torch.channels_last)
            y = gathered_conv.gathered_conv2d(x, phi.flatten(1, 2), output, bias, padding)
        else:
            y = position_conv2d(*inputs, g, "factored")
        weight = torch.linspace(-1, 1, y.numel(), device=device, dtype=dtype).view_as(y)
        found.append([y, *torch.autograd.grad(y, inputs, weight)])
    worst = [relative(a, b) for a, b in zip(*found, strict=True)]
    return {"value": worst[0], "gradient": max(worst[1:])}


def wrong_positions(device: torch.device) -> Errors:
    """A kernel that is wrong on a device is found out there."""
    x, phi = torch.randn(2, 6, 5, 5).to(device), torch.randn(25, 9, 1, 16).to(device)
    _dispatch.usable("position_conv", x, phi)
    kept, neighbours.correlate = neighbours.correlate, lambda x, *_: torch.ones_like(_[1])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            used = gathered_conv.is_right(x, phi)
    finally:
        neighbours.correlate = kept
    return {"used": float(used)}


def norm_errors(
    kind: type[nn.Module], shape: tuple[int, ...], n: int, device: torch.device
) -> Errors:
    """Errors of values, gradients and running averages of a norm."""
    fast = kind(shape[1] // n, Cyclic(n)).to(device)
    with torch.no_grad():
        for parameter in fast.parameters():
            parameter.normal_()
    slow = kind(shape[1] // n, Cyclic(n)).double().to(device)
    slow.load_state_dict(fast.state_dict())
    x, weight = (2 + torch.randn(shape)).to(device), torch.randn(shape).to(device)
    found = []
    for model, inputs in ((fast, x.clone()), (slow, x.double())):
        inputs.requires_grad_()
        y = model(inputs)
        gradients = torch.autograd.grad(y, [inputs, *model.parameters()], weight.to(y.dtype))
        found.append(([y], gradients, list(model.buffers())))
    worst = [max(map(relative, *part), default=0.0) for part in zip(*found, strict=True)]
    return dict(zip(("value", "gradient", "buffers"), worst, strict=True))
