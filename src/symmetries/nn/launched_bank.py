"""A small layer's filters in one launch on a GPU, as one step of autograd.

Where a layer is small its kernel network costs what launching its operations costs, several times
the convolution itself. The kernels are in :mod:`symmetries.kernels.filters`. They are tried on a
small example at first use on a device, and left alone where they disagree with torch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.kernels.available import usable
from symmetries.kernels.networks import Network
from symmetries.nn.fourier import fourier_features, unit_relu
from symmetries.nn.gconv_kernels import filter_bank
from symmetries.nn.kernel_cache import Sampled

MOST = 2**20  # numbers in a bank: beyond, matrix products are faster than one small kernel
UNITS = (16, 32, 64)
TOLERANCE = 1e-5
_TRIED: dict[tuple[object, ...], bool] = {}


def launched_bank(network: Network, lifting: bool) -> Sampled:
    """The filters and their bias; see :func:`reference` for what they are."""
    bank, bias = _Launched.apply(lifting, *network)  # type: ignore[no-untyped-call]
    return Sampled(bank, bias)


def reference(network: Network, lifting: bool) -> Sampled:
    """The same by torch's operations, in any precision."""
    z = F.linear(network.gamma, network.first, network.first_bias)
    relaxed = network[8:]
    if relaxed[0] is not None:
        coordinates, directions, omega, weight = (t for t in relaxed if t is not None)
        s = (fourier_features(coordinates, directions, omega) @ weight.T)[:, None]
        z = z + (s[:, None] if lifting else s[None])
    phi = unit_relu(F.linear(unit_relu(z), network.second, network.second_bias))
    if network.mask is not None:
        phi = phi * network.mask[:, None]
    bank = filter_bank(phi, network.output, round(phi.shape[2] ** 0.5))
    bias = network.bias
    return Sampled(bank, None if bias is None else bias.repeat_interleave(phi.shape[0]))


def ready(network: Network) -> bool:
    """Whether nothing of this call is in the way: other devices or dtypes, torch.func, a trace."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    device = network.gamma.device
    for part in network:
        if part is not None and (part.dtype is not torch.float32 or part.device != device):
            return False
    return True


def can_launch(network: Network, lifting: bool) -> bool:
    """Whether the kernels can do it and have shown so: float32 on a GPU, of a small layer."""
    gamma, output = network.gamma, network.output
    hidden, features = output.shape[2], gamma.shape[3]
    small = gamma[..., 0].numel() * output[..., 0].numel() <= MOST
    fits = hidden in UNITS and features in (32, 64, 128)
    tensors = [t for t in network if t is not None]
    return small and fits and usable(*tensors) and _tried(network, lifting)


def _tried(network: Network, lifting: bool) -> bool:
    absolute = network.coordinates
    relaxed = 0 if absolute is None else absolute.shape[1]
    sizes = (network.output.shape[2], network.gamma.shape[3], relaxed, lifting)
    case = (network.gamma.device, network.mask is not None, network.bias is not None, *sizes)
    if case not in _TRIED:
        if network.gamma.is_cuda and torch.cuda.is_current_stream_capturing():
            return False  # no time to wait for an answer
        _TRIED[case] = _disagreement(network, lifting) < TOLERANCE
    return _TRIED[case]


def _disagreement(network: Network, lifting: bool) -> float:
    """Largest relative difference of filters and gradients from those in float64."""
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for part in network:
        some = None if part is None else torch.randn(part.shape, generator=generator)
        drawn.append(some if part is None or some is None else some.to(part.device))
    found = []
    with torch.inference_mode(False), torch.enable_grad():
        for dtype in (torch.float32, torch.float64):
            parts = [None if t is None else t.to(dtype).requires_grad_() for t in drawn]
            one = Network(*parts)  # type: ignore[arg-type]
            make = launched_bank if dtype == torch.float32 else reference
            made = make(one, lifting)
            wanted = [t for t in learned(one) if t is not None]
            scale = torch.linspace(-1, 1, made.weight.numel(), device=made.weight.device)
            total = (made.weight * scale.view_as(made.weight).to(dtype)).sum()
            if made.bias is not None:
                total = total + made.bias.square().sum()
            found.append([*(t for t in made if t is not None), *torch.autograd.grad(total, wanted)])
    pairs = zip(*found, strict=True)
    return max(float((a.double() - b).detach().norm() / b.detach().norm()) for a, b in pairs)


def learned(network: Network) -> tuple[Tensor | None, ...]:
    """The parts that have gradients, in the order in which the kernels give them, and the bias."""
    n = network
    inner = (n.output, n.second, n.second_bias, n.first, n.first_bias)
    return (*inner, n.absolute_weight, n.omega, n.bias)


class _Launched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lifting: bool, *parts: Tensor | None) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
        from symmetries.kernels.filters import filters

        parts = tuple(t if t is None or t.is_contiguous() else t.contiguous() for t in parts)
        ctx.save_for_backward(*parts)
        ctx.set_materialize_grads(False)
        ctx.lifting = lifting
        return filters(Network(*parts), lifting)  # type: ignore[arg-type]

    @staticmethod
    def backward(ctx: Any, given: Tensor | None, given_bias: Tensor | None) -> tuple[Any, ...]:  # noqa: ANN401
        from symmetries.kernels.filters import gradients

        network = Network(*ctx.saved_tensors)
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return None, *_again(network, ctx.lifting, given, given_bias)
        by: dict[str, Tensor] = {}
        if given is not None:
            given = given.contiguous(memory_format=torch.channels_last)
            names = ["output", "second", "second_bias", "first", "first_bias"]
            names += ["absolute_weight", "omega"] * (network.omega is not None)
            by = dict(zip(names, gradients(network, given, ctx.lifting), strict=True))
        if given_bias is not None and network.bias is not None:
            by["bias"] = given_bias.view(len(network.bias), -1).sum(1)
        return None, *(by.get(name) for name in network._fields)


def _again(
    network: Network, lifting: bool, given: Tensor | None, given_bias: Tensor | None
) -> list[Tensor | None]:
    """The gradients by torch's own operations, which have gradients themselves."""
    made = reference(network, lifting)
    outputs, scales = [], []
    for part, scale in zip(made, (given, given_bias), strict=True):
        if part is not None and scale is not None:
            outputs.append(part)
            scales.append(scale)
    wanted = [t for t in network if t is not None and t.requires_grad]
    found = torch.autograd.grad(outputs, wanted, scales, create_graph=True, allow_unused=True)
    by = {id(t): g for t, g in zip(wanted, found, strict=True)}
    return [None if t is None else by.get(id(t)) for t in network]
