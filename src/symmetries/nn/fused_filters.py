"""What a layer's small network makes, by kernels of few launches, as one step of autograd.

Where a layer is small its kernel network costs what launching its operations costs, several times
the convolution itself. Kernels are tried on an example at first use on a device, and left alone
where they disagree with torch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from symmetries.nn.version_cache import Sampled
from symmetries.ops._dispatch import largest_difference, usable, wanted
from symmetries.ops.cuda.compiler import error_of
from symmetries.ops.triton.networks import Network, PlaceNetwork

UNITS = (16, 32, 64)
FEATURES = (32, 64, 128)
TOLERANCE = 3e-5  # of float32; a product in plain tf32 is off by 1e-3
_TRIED: dict[tuple[object, ...], bool] = {}
Parts = Network | PlaceNetwork


class Kernels(Protocol):
    """What :class:`symmetries.ops.triton.filters.Filters` and its like have in common."""

    shape: tuple[int, ...]
    channels: int
    biased: bool
    device: torch.device

    def fit(self) -> bool:
        """Whether the network's tensors still are as the kernels want them."""

    def make(self) -> tuple[Tensor, Tensor | None]:
        """What the network makes."""

    def gradients(self, given: Tensor, given_bias: Tensor) -> tuple[Tensor, ...]:
        """By what is learned."""


class Launched(NamedTuple):
    """What of a layer's network is learned, its kernels, and the same by torch's operations."""

    parts: tuple[Tensor, ...]
    kernels: Kernels
    reference: Callable[[], Sampled]


def made(launched: Launched) -> Sampled:
    """What the network makes, by kernels."""
    weight, bias = _Made.apply(launched, *launched.parts)
    return Sampled(weight, bias)


def ready(launched: Launched) -> bool:
    """Whether nothing of this call is in the way: torch.func, a switch, tensors of another kind."""
    free = wanted() and not torch._C._are_functorch_transforms_active()
    return free and launched.kernels.fit()


def can_take(network: Parts) -> bool:
    """Whether kernels are compiled for such a network: float32 on a GPU, and its sizes."""
    sizes = len(network.first) in UNITS and network.gamma.shape[-1] in FEATURES
    return sizes and usable(*(t for t in network if t is not None))


def tried(case: tuple[object, ...], network: Parts, build: Callable[[Any], Launched]) -> bool:
    """Whether the kernels of a case gave on its device what torch's operations give; tried once.

    Args:
        case: what kernels are compiled for.
        network: whose kernels are asked about.
        build: from such a network, of any type of numbers, to its kernels.
    """
    where = network.gamma.device
    if (where, *case) not in _TRIED:
        if where.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False  # no time to wait for an answer
        _TRIED[where, *case] = error_of(lambda: _disagreement(network, build)) < TOLERANCE
    return _TRIED[where, *case]


def _disagreement(network: Parts, build: Callable[[Any], Launched]) -> float:
    """Largest relative difference of results and gradients from float64, at two calls."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        None if part is None else torch.randn(part.shape, generator=generator).to(part.device)
        for part in network
    ]
    found: list[list[Tensor]] = []
    with torch.inference_mode(False), torch.enable_grad():
        for dtype in (torch.float32, torch.float64):
            parts = [None if t is None else t.to(dtype).requires_grad_() for t in drawn]
            one = build(type(network)(*parts))  # type: ignore[arg-type]
            for _ in range(2):  # the second launch goes another way
                got: Sampled = made(one) if dtype == torch.float32 else one.reference()
                scale = torch.linspace(-1, 1, got.weight.numel(), device=got.weight.device)
                total = (got.weight * scale.view_as(got.weight).to(dtype)).sum()
                if got.bias is not None:
                    total = total + got.bias.square().sum()
                results = [t for t in got if t is not None]
                found.append([*results, *torch.autograd.grad(total, one.parts)])
    pairs = [*zip(found[0], found[2], strict=True), *zip(found[1], found[3], strict=True)]
    return largest_difference(pairs)


# Without what torch.func needs, which no call here sees, and which costs half as much again.
_Plain: Any = getattr(torch.autograd.function, "_SingleLevelFunction", torch.autograd.Function)


class _Made(_Plain):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, launched: Launched, *parts: Tensor) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        ctx.save_for_backward(*parts)
        ctx.set_materialize_grads(False)
        ctx.launched = launched
        return launched.kernels.make()

    @staticmethod
    def backward(ctx: Any, given: Tensor | None, given_bias: Tensor | None) -> tuple[Any, ...]:  # noqa: ANN401
        launched: Launched = ctx.launched
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return None, *_again(launched, given, given_bias)
        _ = ctx.saved_tensors  # raises where one was written to since
        kernels = launched.kernels
        if given is None:
            given = torch.zeros(kernels.shape, device=kernels.device)
        if not kernels.biased or given_bias is not None:
            by_bias = given if given_bias is None else given_bias.contiguous()
            return None, *kernels.gradients(given, by_bias)
        found = kernels.gradients(given, given.new_zeros(kernels.channels))
        return None, *found[:-1], None


def _again(
    launched: Launched, given: Tensor | None, given_bias: Tensor | None
) -> list[Tensor | None]:
    """The gradients by torch's own operations, which have gradients themselves."""
    outputs, scales = [], []
    for part, scale in zip(launched.reference(), (given, given_bias), strict=True):
        if part is not None and scale is not None:
            outputs.append(part)
            scales.append(scale)
    wanted = [t for t in launched.parts if t.requires_grad]
    grads = torch.autograd.grad(outputs, wanted, scales, create_graph=True, allow_unused=True)
    found = iter(grads)
    return [next(found) if part.requires_grad else None for part in launched.parts]
