"""Filters or features of a small kernel network by fused GPU kernels, as one autograd function.

For a small layer the kernel network costs as much as its launches, several times the convolution
itself. The GPU kernels are verified on an example at first use on a device; if the results
differ from torch's, torch is used instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from symmetries.nn.version_cache import Sampled
from symmetries.ops.available import largest_difference, usable, wanted
from symmetries.ops.compiler import error_of
from symmetries.ops.networks import Network, PlaceNetwork

UNITS = (16, 32, 64)
FEATURES = (32, 64, 128)
TOLERANCE = 3e-5  # of float32; a product in TF32 is off by 1e-3
_TRIED: dict[tuple[object, ...], bool] = {}
Parts = Network | PlaceNetwork


class Kernels(Protocol):
    """Interface of :class:`symmetries.ops.filters.Filters` and similar classes."""

    shape: tuple[int, ...]
    channels: int
    biased: bool
    device: torch.device

    def fit(self) -> bool:
        """Return whether the network's tensors still have the form that the GPU kernels expect."""

    def make(self) -> tuple[Tensor, Tensor | None]:
        """Return the network's result."""

    def gradients(self, given: Tensor, given_bias: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of the learned tensors."""


class FusedFilters(NamedTuple):
    """The learned tensors of a layer's network, its GPU kernels, and its torch definition."""

    parts: tuple[Tensor, ...]
    kernels: Kernels
    reference: Callable[[], Sampled]


def run_fused(fused: FusedFilters) -> Sampled:
    """Return the network's result by GPU kernels."""
    weight, bias = _Made.apply(fused, *fused.parts)
    return Sampled(weight, bias)


def ready(fused: FusedFilters) -> bool:
    """Return whether this call can use them: no torch.func, not switched off, expected tensors."""
    free = wanted() and not torch._C._are_functorch_transforms_active()
    return free and fused.kernels.fit()


def can_take(network: Parts) -> bool:
    """Return whether GPU kernels exist for the network: float32 on a GPU, of supported sizes."""
    sizes = len(network.first) in UNITS and network.gamma.shape[-1] in FEATURES
    return sizes and usable(*(t for t in network if t is not None))


def verified(
    case: tuple[object, ...], network: Parts, build: Callable[[Any], FusedFilters]
) -> bool:
    """Return whether the GPU kernels of a case agree with torch operations; verified once.

    Args:
        case: what the GPU kernels are compiled for.
        network: network whose GPU kernels are verified.
        build: from such a network, of any dtype, to its GPU kernels.
    """
    where = network.gamma.device
    if (where, *case) not in _TRIED:
        if where.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False  # cannot synchronise now
        _TRIED[where, *case] = error_of(lambda: _disagreement(network, build)) < TOLERANCE
    return _TRIED[where, *case]


def _disagreement(network: Parts, build: Callable[[Any], FusedFilters]) -> float:
    """Return the largest relative difference of results and gradients from float64."""
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
            for _ in range(2):  # the second launch takes another path
                got: Sampled = run_fused(one) if dtype == torch.float32 else one.reference()
                scale = torch.linspace(-1, 1, got.weight.numel(), device=got.weight.device)
                total = (got.weight * scale.view_as(got.weight).to(dtype)).sum()
                if got.bias is not None:
                    total = total + got.bias.square().sum()
                results = [t for t in got if t is not None]
                found.append([*results, *torch.autograd.grad(total, one.parts)])
    pairs = [*zip(found[0], found[2], strict=True), *zip(found[1], found[3], strict=True)]
    return largest_difference(pairs)


# Without the support for torch.func, which is not used here and costs half as much again.
_Plain: Any = getattr(torch.autograd.function, "_SingleLevelFunction", torch.autograd.Function)


class _Made(_Plain):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, fused: FusedFilters, *parts: Tensor) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        ctx.save_for_backward(*parts)
        ctx.set_materialize_grads(False)
        ctx.fused = fused
        return fused.kernels.make()

    @staticmethod
    def backward(ctx: Any, given: Tensor | None, given_bias: Tensor | None) -> tuple[Any, ...]:  # noqa: ANN401
        fused: FusedFilters = ctx.fused
        if torch.is_grad_enabled():  # a second derivative is needed
            return None, *_again(fused, given, given_bias)
        _ = ctx.saved_tensors  # raises an error if one was changed in place
        kernels = fused.kernels
        if given is None:
            given = torch.zeros(kernels.shape, device=kernels.device)
        if not kernels.biased or given_bias is not None:
            by_bias = given if given_bias is None else given_bias.contiguous()
            return None, *kernels.gradients(given, by_bias)
        found = kernels.gradients(given, given.new_zeros(kernels.channels))
        return None, *found[:-1], None


def _again(
    fused: FusedFilters, given: Tensor | None, given_bias: Tensor | None
) -> list[Tensor | None]:
    """Return the gradients by torch operations, which have higher derivatives."""
    outputs, scales = [], []
    for part, scale in zip(fused.reference(), (given, given_bias), strict=True):
        if part is not None and scale is not None:
            outputs.append(part)
            scales.append(scale)
    wanted = [t for t in fused.parts if t.requires_grad]
    grads = torch.autograd.grad(outputs, wanted, scales, create_graph=True, allow_unused=True)
    found = iter(grads)
    return [next(found) if part.requires_grad else None for part in fused.parts]
