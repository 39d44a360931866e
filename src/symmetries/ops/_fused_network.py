"""Fused forms of kernel networks, prepared once for many calls.

If a layer is small, its kernel network costs what launching its operations costs, several times
the convolution itself. Kernels are verified on an example at first use on a device; if they
disagree with torch, torch's operations are used instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from symmetries.ops._dispatch import (
    differentiable_gradients,
    enabled,
    largest_difference,
    record,
    usable,
    verified,
)
from symmetries.ops.kernel_network import Network, PositionNetwork, Sampled

UNITS = (16, 32, 64)
FEATURES = (32, 64, 128)
TOLERANCE = 3e-5  # of float32; a product in plain tf32 is off by 1e-3
_KNOWN: dict[tuple[object, ...], bool] = {}  # results of verifications
Parts = Network | PositionNetwork
Sampler = Callable[[], Sampled]


class Kernels(Protocol):
    """Interface of the kernels of group filters and of positional features."""

    shape: tuple[int, ...]
    channels: int
    biased: bool
    device: torch.device

    def fit(self) -> bool:
        """Return whether the network's tensors still have the layout that the kernels need."""

    def make(self) -> tuple[Tensor, Tensor | None]:
        """Return filters and bias, or features and None."""

    def gradients(self, given: Tensor, given_bias: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients with respect to the learned parts."""


class FusedNetwork(NamedTuple):
    """The fused form of a layer's network, and the torch form of the same.

    Args:
        operation: its name in the registry.
        parts: what is learned.
        kernels: that compute it.
        reference: its definition in torch's operations.
    """

    operation: str
    parts: tuple[Tensor, ...]
    kernels: Kernels
    reference: Callable[[], Sampled]

    def sampler(self, plain: Sampler, bias: Tensor | None = None) -> Sampler:
        """Return a function that gives the filters or features.

        Args:
            plain: the layer's own torch form, for calls that the kernels cannot serve: under
                torch.func, switched off, or with weights that changed their type.
            bias: of features, which the kernels do not make.
        """

        def sample() -> Sampled:
            free = enabled(self.operation) and not torch._C._are_functorch_transforms_active()
            if not record(self.operation, free and self.kernels.fit()):
                return plain()
            found = made(self)
            return found if bias is None else found._replace(bias=bias)

        return sample


def made(network: FusedNetwork) -> Sampled:
    """Return filters or features, computed by kernels."""
    weight, bias = _Made.apply(network, *network.parts)
    return Sampled(weight, bias)


def can_take(operation: str, network: Parts) -> bool:
    """Return whether kernels exist for such a network: float32 on a GPU, and its sizes."""
    sizes = len(network.first) in UNITS and network.gamma.shape[-1] in FEATURES
    return sizes and usable(operation, *(t for t in network if t is not None))


def is_right(
    case: tuple[object, ...], network: Parts, build: Callable[[Any], FusedNetwork]
) -> bool:
    """Return whether the kernels of a case agree with torch's operations; verified once.

    Args:
        case: what kernels are compiled for.
        network: the kernel network.
        build: from such a network, of any type of numbers, to its fused form.
    """
    device = network.gamma.device
    return verified(case, device, lambda: _disagreement(network, build), TOLERANCE, _KNOWN)


def _disagreement(network: Parts, build: Callable[[Any], FusedNetwork]) -> float:
    """Return the largest relative error against float64 of results and gradients."""
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
    def forward(ctx: Any, fused: FusedNetwork, *parts: Tensor) -> tuple[Tensor, Tensor | None]:
        ctx.save_for_backward(*parts)
        ctx.set_materialize_grads(False)
        ctx.network = fused
        return fused.kernels.make()

    @staticmethod
    def backward(ctx: Any, given: Tensor | None, given_bias: Tensor | None) -> tuple[Any, ...]:
        fused: FusedNetwork = ctx.network
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return None, *_again(fused, given, given_bias)
        _ = ctx.saved_tensors  # raises where one was written to since
        kernels = fused.kernels
        if given is None:
            given = torch.zeros(kernels.shape, device=kernels.device)
        if not kernels.biased or given_bias is not None:
            by_bias = given if given_bias is None else given_bias.contiguous()
            return None, *kernels.gradients(given, by_bias)
        found = kernels.gradients(given, given.new_zeros(kernels.channels))
        return None, *found[:-1], None


def _again(
    fused: FusedNetwork, given: Tensor | None, given_bias: Tensor | None
) -> list[Tensor | None]:
    """Return the gradients in torch operations, which can be differentiated again."""
    outputs, scales = [], []
    for part, scale in zip(fused.reference(), (given, given_bias), strict=True):
        if part is not None and scale is not None:
            outputs.append(part)
            scales.append(scale)
    return differentiable_gradients(outputs, fused.parts, scales)
