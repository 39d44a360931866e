"""Hidden units and splines."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from symmetries.ops.gelu_norm import gelu_norm, hidden_units
from symmetries.ops.group_gelu import group_gelu
from symmetries.ops.rational_quadratic import circular_spline, rational_quadratic

from .checking import (
    MODELS,
    Case,
    function_case,
    several_models,
    with_parameters,
)


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield from units()
    yield from splines()
    yield from several()


def units() -> Iterator[Case]:
    """Layer norm of GELUs."""

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
