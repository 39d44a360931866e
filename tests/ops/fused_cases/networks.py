"""Hidden units, small heads, splines and flows."""

import copy
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from symmetries.distributions.flow import ConditionalFlow
from symmetries.ops import _dispatch, spline_flow
from symmetries.ops.gelu_norm import gelu_norm, hidden_units
from symmetries.ops.group_gelu import group_gelu
from symmetries.ops.linear_head import linear_head
from symmetries.ops.rational_quadratic import circular_spline, rational_quadratic
from symmetries.ops.spline_flow import spline_flow_log_prob

from .checking import (
    MODELS,
    Case,
    Errors,
    function_case,
    relative,
    several_models,
    with_parameters,
)


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield from units()
    yield from splines()
    yield from several()
    sizes = [(2, 8, 2, 4, 1, 0.0), (5, 12, 2, 5, 2, 0.25), (3, 16, 1, 5, 1, 0.5)]
    larger = [(5, 256, 6, 2560, 1, 0.1), (6, 200, 5, 700, 3, 0.0)]
    # Errors of the kernels beyond five times those of torch's float32. Second gradients are of
    # torch's operations either way.
    tolerances = {"value": 1e-4, "gradient": 1e-4, "second": 2e-2}
    for given in sizes + larger:
        name = "{} numbers, {} units, {} layers, {}x{} points, dropout {}".format(*given)
        yield Case("flow", name, partial(flow_errors, *given), tolerances, given in larger)
    for precision in ("highest", "high", "medium"):
        for given in ((3, 8, 2, 1), (5, 256, 6, 1), (6, 256, 6, 2)):
            name = "trial at first use, {} numbers, {} units, {} layers, {} samples".format(*given)
            errors = partial(trial_errors, precision, *given)
            small = given[1] == 8 and precision != "high"
            yield Case("flow", f"{name}, {precision}", errors, {"value": 0.05}, not small)


def units() -> Iterator[Case]:
    """Layer norm of GELUs, and linear layers with few outputs."""

    def norm(z: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor) -> Tensor:
        layer = nn.LayerNorm(z.shape[-1])
        return gelu_norm(z, with_parameters(layer, weight=gamma, bias=beta), bias)

    def normal(shapes: tuple[tuple[int, ...], ...], generator: torch.Generator) -> list[Tensor]:
        return [torch.randn(shape, generator=generator) for shape in shapes]

    for rows, width in ((9, 40), (2561, 256), (700, 512), (300, 2048)):
        shapes = ((rows, width), (width,), (width,), (width,))
        more = {"second": 2e-5} if rows == 9 else {"compiled": True}
        given = partial(normal, shapes)
        yield function_case("gelu_norm", f"{rows}x{width}", norm, given, **more)
    plain = partial(normal, ((9, 40), (40,), (40,)))
    yield function_case("gelu_norm", "no bias", lambda z, g, b: norm(z, None, g, b), plain)

    def grouped(groups: int, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        layer = nn.GroupNorm(groups, x.shape[1])
        return group_gelu(x, with_parameters(layer, weight=gamma, bias=beta))

    sizes = ((3, 32, 5, 6, 8), (2, 16, 4, 4, 1), (2, 8, 70, 9, 2), (190, 128, 16, 16, 8))
    for count, channels, height, width, groups in sizes:
        shapes = ((count, channels, height, width), (channels,), (channels,))
        name = f"{count}x{channels}x{height}x{width} in {groups} groups"
        function = partial(grouped, groups)
        given, large = partial(normal, shapes), count > 100
        yield function_case("group_gelu", name, function, given, compiled=large)

    def head(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return linear_head(x, with_parameters(nn.Linear(1, 1), weight=weight, bias=bias))

    given = partial(normal, ((40, 24), (5, 24), (5,)))
    yield function_case("head", "24 to 5", head, given, second=2e-5)
    given = partial(normal, ((2560, 256), (10, 256), (10,)))
    yield function_case("head", "256 to 10", head, given, compiled=True)


def splines() -> Iterator[Case]:
    """Rational-quadratic splines, on a line and on a circle."""

    def inputs(rows: int, points: int, generator: torch.Generator) -> list[Tensor]:
        x = 3.5 * (2 * torch.rand(2, points, generator=generator) - 1)
        return [x, torch.randn(rows, 2, points, generator=generator)]

    kinds = {"line": (rational_quadratic, 17), "circle": (circular_spline, 19)}
    for name, (spline, rows) in kinds.items():
        for inverse in (False, True):

            def run(x: Tensor, p: Tensor, spline=spline, inverse: bool = inverse) -> Tensor:
                return torch.stack(spline(x, p, 3.0, inverse=inverse))

            # A float32 spline loses digits next to its knots, torch's as much as ours.
            case = partial(function_case, "spline", tolerance=2e-4, second=2e-4)
            which = f"{name}, {'inverse' if inverse else 'forward'}"
            yield case(which, run, partial(inputs, rows, 60))


def several() -> Iterator[Case]:
    """Several models at once."""

    def normal(*shapes: tuple[int, ...]):
        def draw(generator: torch.Generator) -> list[Tensor]:
            return [torch.randn(MODELS, *shape, generator=generator) for shape in shapes]

        return draw

    value = lambda x, p: rational_quadratic(x, p, 3.0)[0]  # noqa: E731
    slope = lambda x, p: rational_quadratic(x, p, 3.0, inverse=True)[1]  # noqa: E731
    circle = lambda x, p: circular_spline(x, p, 3.0)[0]  # noqa: E731
    yield several_models("spline", "value", value, normal((2, 5), (8, 2, 5)))
    yield several_models("spline", "slope of the inverse", slope, normal((5,), (8, 5)))
    yield several_models("spline", "circle", circle, normal((5,), (10, 5)))

    units = _Units()
    names = [name for name, _ in units.named_parameters()]

    def layer(x: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(units, dict(zip(names, weights, strict=True)), (x,))

    yield several_models("gelu_norm", "layer", layer, normal((3, 4), (5, 4), (5,), (5,), (5,)))


class _Units(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 5), nn.LayerNorm(5)

    def forward(self, x: Tensor) -> Tensor:
        return hidden_units(x, self.linear, self.norm)


def flow_errors(
    dim: int, hidden: int, layers: int, n: int, samples: int, drop: float, device: torch.device
) -> Errors:
    """Errors of the kernels beyond five times those of torch's float32.

    Weights are drawn around their starts with a spread that does not grow with the width: steeper
    splines, one after another, lose all digits of float32, torch's as much as these.
    """
    torch.manual_seed(dim)
    bounds = [0.5 + i for i in range(dim)]
    slow = ConditionalFlow(bounds, 6, hidden=hidden, layers=layers, base=(8,), dropout=drop)
    with torch.no_grad():
        for parameter in slow.parameters():
            inputs = parameter.shape[-1] if parameter.ndim > 1 else 1
            parameter.add_(0.3 * min(1.0, (16 / inputs) ** 0.5) * torch.randn_like(parameter))
    slow = slow.double().to(device)
    fast = copy.deepcopy(slow).float()
    eta = torch.tensor(bounds) * 0.6 * torch.randn(n, samples, dim)
    parts = [t.to(device) for t in (eta, torch.randn(n, 6), torch.randn(n * samples))]
    mask = None
    if drop:  # what the kernels' function will draw
        torch.manual_seed(7)
        ones = torch.ones(n * samples, layers * hidden, dtype=torch.bfloat16, device=device)
        mask = (nn.functional.dropout(ones, drop) != 0) / (1 - drop)
        torch.manual_seed(7)
    ours = _flow_results(fast, parts, None, fused=True)
    theirs = _flow_results(fast, parts, mask, fused=False)
    exact = _flow_results(slow, [t.double() for t in parts], mask, fused=False)
    found = [
        max(0.0, relative(a, c) - 5 * relative(b, c))
        for a, b, c in zip(ours, theirs, exact, strict=True)
    ]
    return {"value": found[0], "gradient": max(found[1:-1]), "second": found[-1]}


def trial_errors(
    precision: str, dim: int, hidden: int, layers: int, samples: int, device: torch.device
) -> Errors:
    """Error that decides at the first use of a flow whether its kernels may run."""
    flow = ConditionalFlow((1.0,) * dim, 6, hidden=hidden, layers=layers, dropout=0.1).train()
    _dispatch.usable("flow", torch.ones(1, device=device))
    shape, before = spline_flow.shape_of(flow, samples), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        rounded = precision == "medium"
        error = spline_flow._largest_error(ConditionalFlow, shape, device, rounded=rounded)
    finally:
        torch.set_float32_matmul_precision(before)
    return {"value": error}


def _flow_results(
    flow: ConditionalFlow, parts: list[Tensor], mask: Tensor | None, fused: bool
) -> list[Tensor]:
    """Values, gradients to points, context and weights, and one second gradient."""
    eta, context = (x.detach().clone().requires_grad_() for x in parts[:2])
    points = eta.flatten(0, 1).T.contiguous().T  # whose copies need a gradient too
    if fused:
        out = spline_flow_log_prob(flow, points, context)
    else:
        projected = nn.functional.linear(context, flow.project.weight)
        layers = flow.parts_of(projected, len(points) // len(context))
        dense = None if mask is None else mask.to(eta.dtype)
        out = flow.density(dense, points, layers, flow.base(context))
    first = torch.autograd.grad(
        out, [eta, context, *flow.parameters()], parts[2], retain_graph=True
    )
    again = torch.autograd.grad(out, eta, parts[2], create_graph=True)[0]
    return [out, *first, torch.autograd.grad(again.square().sum(), context)[0]]
