"""Warps, and exponentials, inverses and products of affine maps."""

from collections.abc import Iterator
from functools import cache, partial

import torch

from symmetries.groups.affine import Affine2
from symmetries.ops.affine_exp import affine_exp, generators
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.affine_product import affine_product
from symmetries.ops.warp import warp, warp_shared

from .checking import MODELS, Case, Errors, function_case, relative, several_models

MODES = ("bilinear", "bicubic", "bspline")
# Torch's form of the spline, which second gradients take, looks up between taps: in float32 a
# look-up next to a knot may fall on its other side.
SECOND = {"bilinear": 2e-5, "bicubic": 2e-5, "bspline": 5e-3}


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield from matrices()
    for sides, compiled in (((4, 6), False), ((28, 28), True), ((17, 40), True)):
        for mode in MODES:
            yield from layouts(mode, sides, compiled)
    yield function_case(
        "warp",
        "images turned in memory",
        lambda x, t: warp(x.mT, t),
        partial(pictures, (2, 2, 4, 6)),
    )
    yield Case("warp", "far outside", far_outside, {"value": 1e-6})
    yield Case("warp", "in a CUDA graph", in_a_graph, {"value": 2e-5, "gradient": 2e-5}, True)
    # More pictures than run at once. A cubic has no jumps in its slopes.
    for mode in ("bicubic", "bspline"):
        for shape in ((4301, 1, 28, 28), (40, 3, 64, 64)):
            name = f"{mode} {'x'.join(map(str, shape))}"
            run, given = partial(warp, interpolation=mode), partial(pictures, shape)
            yield function_case("warp", name, run, given, compiled=True)
    yield from wild()
    yield from several()


def wild() -> Iterator[Case]:
    """Maps that zoom out by more than two, where a kernel once read behind its shared memory."""
    for n, channels, side in ((37, 1, 28), (9, 3, 64), (5, 1, 16), (3, 1, 8), (2, 3, 72)):
        for mode in MODES:
            run, name = partial(warp, interpolation=mode), f"wild {mode} {n}x{channels}x{side}"
            inputs = partial(pictures, (n, channels, side, side), spread=1.5)
            case = function_case("warp", name, run, inputs, compiled=True)
            # Far outside, float32 has few digits of a place, and slopes jump at pixels.
            yield Case("warp", name, case.errors, {"value": 4e-3}, compiled=True)


def matrices() -> Iterator[Case]:
    """Exponentials, inverses and products."""

    def eta(generator: torch.Generator, *shape: int) -> list[torch.Tensor]:
        return [0.5 * torch.randn(*shape, generator=generator)]

    def maps(generator: torch.Generator) -> list[torch.Tensor]:
        return [affine_exp(eta(generator, 2, 6, 6)[0].double()) for _ in range(2)]

    def turned(generator: torch.Generator) -> list[torch.Tensor]:
        drawn = torch.tensor([1.0, 1, 0, 1, 1, 1]) * eta(generator, 3, 50, 6)[0] / 2
        drawn[..., 2] = torch.linspace(-30, 30, 150).reshape(3, 50)
        return [drawn]

    def matrix_exp(eta: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_exp(torch.einsum("...i,ijk->...jk", eta, generators().to(eta)))

    exp = partial(function_case, "affine_exp", second=2e-5)
    yield exp("all six", affine_exp, lambda g: [2 * eta(g, 3, 50, 6)[0]])
    # Torch's form, which second gradients take, is not right for these.
    yield exp("many turns", affine_exp, turned, oracle=matrix_exp, second=None)
    yield exp("zoom, tied", Affine2("rotation", "zoom", "shift_x").exp, lambda g: eta(g, 4, 6, 3))
    family = Affine2("translation", "rotation", "scale").exp
    yield exp("family", family, lambda g: eta(g, 4, 6, 5))
    inverse = partial(function_case, "affine_inverse", inputs=lambda g: maps(g)[:1], second=2e-5)
    yield inverse("dense", affine_inverse)
    yield inverse("strided", lambda a: affine_inverse(a[:, ::2]))
    product = partial(function_case, "affine_product", inputs=maps, second=2e-5)
    yield product("dense", affine_product)
    yield product("strided", lambda a, b: affine_product(a[:, 1:4], b[:, ::2]))
    yield product("one by many", lambda a, b: affine_product(a[:, :1], b))
    yield product("one", lambda a, b: affine_product(a[0, 0], b[0, 0]))


def pictures(
    shape: tuple[int, ...], generator: torch.Generator, spread: float = 0.3
) -> list[torch.Tensor]:
    """Images, and one map for each."""
    images = torch.rand(shape, generator=generator)
    eta = spread * torch.randn(shape[0], 6, generator=generator)
    return [images, affine_exp(eta.double())[:, :2]]


def layouts(mode: str, sides: tuple[int, int], compiled: bool) -> Iterator[Case]:
    """Maps for each image, several for each, and shared ones."""

    def inputs(which: str, generator: torch.Generator) -> list[torch.Tensor]:
        images = torch.rand(2, 2, *sides, generator=generator)
        eta = 0.4 * torch.randn(2, 2, 6, generator=generator)
        theta = affine_exp(eta.double())[..., :2, :]
        theta[0, 0] = torch.tensor([[3.1, 0.0, 3.0], [0.0, 3.1, 3.0]])  # seen by one corner only
        picked = {"each": theta[:, 0], "one for all": theta[1, 0], "shared": theta[1]}
        return [images, picked.get(which, theta)]

    for which in ("several", "each", "one for all", "shared"):
        function = warp_shared if which == "shared" else warp
        run = partial(function, interpolation=mode, fill=0.25)
        name = f"{mode} {sides[0]}x{sides[1]}, {which}"
        given = partial(inputs, which)
        second = SECOND[mode] if grid_sample_has_second_gradients() else None
        yield function_case("warp", name, run, given, second=second, compiled=compiled)


@cache
def grid_sample_has_second_gradients() -> bool:
    """Whether this torch differentiates ``grid_sample`` twice: 2.11 does not, 2.13 does."""
    x, grid = torch.rand(1, 1, 3, 3, requires_grad=True), torch.zeros(1, 2, 2, 2)
    out = torch.nn.functional.grid_sample(x, grid, align_corners=False)
    (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    try:
        torch.autograd.grad(first.sum(), x)
    except RuntimeError:
        return False
    return True


def far_outside(device: torch.device) -> Errors:
    """A point far outside neither overflows nor sees anything but the background."""
    far = torch.tensor([[1.0, 0.0, 1e9], [0.0, 1.0, -1e9]], device=device)
    outside = warp(torch.rand(2, 1, 8, 8, device=device), far, fill=0.5)
    return {"value": relative(outside, torch.full_like(outside, 0.5))}


def in_a_graph(device: torch.device) -> Errors:
    """Warps after warps and after torch's kernels: replays of a graph against the same eagerly."""
    images = torch.rand(2560, 1, 28, 28, device=device)
    theta = affine_exp(0.1 * torch.randn(2560, 6, device=device))[:, :2].contiguous()

    def chain() -> list[torch.Tensor]:
        leaves = [images.detach().requires_grad_(), theta.detach().requires_grad_()]
        x = leaves[0]
        for _ in range(4):
            x = warp(warp(x, leaves[1]), leaves[1])
            y = torch.zeros_like(x)
            y += warp(x.clone(), leaves[1])
            x = y.tanh()
        return [x.detach(), *torch.autograd.grad(x.square().sum(), leaves)]

    exact = chain()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        chain()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = chain()
    worst = [0.0, 0.0, 0.0]
    for _ in range(20):
        for part in found:
            part.fill_(torch.nan)
        graph.replay()
        errors = [relative(a, b) for a, b in zip(found, exact, strict=True)]
        worst = [max(a, b) if b == b else float("inf") for a, b in zip(worst, errors, strict=True)]
    return {"value": worst[0], "gradient": max(worst[1:])}


def several() -> Iterator[Case]:
    """Several models at once."""

    def normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
        return torch.randn(MODELS, *shape, generator=generator)

    def moved(generator: torch.Generator, maps: int = 2) -> list[torch.Tensor]:
        return [normal(generator, 2, 1, 4, 3), 0.3 * normal(generator, maps, 2, 3)]

    def affine(generator: torch.Generator) -> torch.Tensor:
        return affine_exp(0.3 * normal(generator, 4, 6))

    cubic = partial(warp, interpolation="bicubic", fill=0.5)
    yield several_models("warp", "bilinear", warp, moved)
    yield several_models("warp", "bicubic", cubic, moved)
    yield several_models("warp", "shared maps", warp_shared, lambda g: moved(g, 1))
    yield several_models("affine_exp", "dense", affine_exp, lambda g: [0.3 * normal(g, 4, 6)])
    yield several_models("affine_inverse", "dense", affine_inverse, lambda g: [affine(g)])

    def pair(generator: torch.Generator) -> list[torch.Tensor]:
        return [affine(generator), affine(generator)[:, :1]]

    yield several_models("affine_product", "one by many", affine_product, pair)
