"""A small layer's filters in one launch on a GPU, as one step of autograd.

Where a layer is small its kernel network costs what launching its operations costs, several times
the convolution itself. The kernels are in :mod:`symmetries.kernels.filters`. They are tried on a
small example at first use on a device, and left alone where they disagree with torch.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.kernels.available import largest_difference, usable
from symmetries.kernels.networks import Network, learned
from symmetries.nn.fourier import fourier_features, unit_relu
from symmetries.nn.gconv_kernels import filter_bank
from symmetries.nn.kernel_cache import Sampled

if TYPE_CHECKING:
    from symmetries.kernels.filters import Filters

MOST = 2**20  # numbers in a bank: beyond, matrix products are faster than one small kernel
PAIRS = 1024  # of fields, at most: for the gradients each program goes through all
UNITS = (16, 32, 64)
TOLERANCE = 1e-5
_TRIED: dict[tuple[object, ...], bool] = {}


class Launched(NamedTuple):
    """A layer's network, what of it is learned, and its kernels."""

    network: Network
    parts: tuple[Tensor, ...]
    lifting: bool
    kernels: "Filters"


def launched_bank(launched: Launched) -> Sampled:
    """The filters and their bias; see :func:`reference` for what they are."""
    bank, bias = _Bank.apply(launched, *launched.parts)  # type: ignore[no-untyped-call]
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


def launch(network: Network, lifting: bool) -> Launched | None:
    """The kernels for a layer, if they can do it and have shown so: float32 on a GPU, and small."""
    gamma, output = network.gamma, network.output
    pairs = output[..., 0].numel()
    small = pairs <= PAIRS and pairs * gamma[..., 0].numel() <= MOST
    fits = output.shape[2] in UNITS and gamma.shape[3] in (32, 64, 128)
    tensors = [t for t in network if t is not None]
    if not (small and fits and usable(*tensors)):
        return None
    return _launched(network, lifting) if _tried(network, lifting) else None


def ready(launched: Launched) -> bool:
    """Whether nothing of this call is in the way: a trace, torch.func, tensors of another kind."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return launched.kernels.fit()


def _launched(network: Network, lifting: bool) -> Launched:
    from symmetries.kernels.filters import Filters

    parts = tuple(t for t in learned(network) if t is not None)
    kernels = Filters(network, lifting)
    kernels.fit()
    return Launched(network, parts, lifting, kernels)


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
    """Largest relative difference of filters and gradients from those in float64, at two calls."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        None if part is None else torch.randn(part.shape, generator=generator).to(part.device)
        for part in network
    ]
    found = []
    with torch.inference_mode(False), torch.enable_grad():
        for dtype in (torch.float32, torch.float64):
            parts = [None if t is None else t.to(dtype).requires_grad_() for t in drawn]
            one = Network(*parts)  # type: ignore[arg-type]
            wanted = [t for t in learned(one) if t is not None]
            kernels = _launched(one, lifting) if dtype == torch.float32 else None
            for _ in range(2):  # the second launch goes another way
                made = reference(one, lifting) if kernels is None else launched_bank(kernels)
                scale = torch.linspace(-1, 1, made.weight.numel(), device=made.weight.device)
                total = (made.weight * scale.view_as(made.weight).to(dtype)).sum()
                if made.bias is not None:
                    total = total + made.bias.square().sum()
                gradients = torch.autograd.grad(total, wanted)
                found.append([*(t for t in made if t is not None), *gradients])
    pairs = [*zip(found[0], found[2], strict=True), *zip(found[1], found[3], strict=True)]
    return largest_difference(pairs)


class _Bank(torch.autograd.Function):
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
        kernels, network = launched.kernels, launched.network
        if given is None:
            given = network.gamma.new_zeros(kernels.shape)
        given = given.contiguous(memory_format=torch.channels_last)
        if network.bias is None or given_bias is not None:
            by_bias = given if given_bias is None else given_bias.contiguous()
            return None, *kernels.gradients(given, by_bias)
        found = kernels.gradients(given, given.new_zeros(kernels.channels))
        return None, *found[:-1], None


def _again(
    launched: Launched, given: Tensor | None, given_bias: Tensor | None
) -> list[Tensor | None]:
    """The gradients by torch's own operations, which have gradients themselves."""
    made = reference(launched.network, launched.lifting)
    outputs, scales = [], []
    for part, scale in zip(made, (given, given_bias), strict=True):
        if part is not None and scale is not None:
            outputs.append(part)
            scales.append(scale)
    wanted = [t for t in launched.parts if t.requires_grad]
    grads = torch.autograd.grad(outputs, wanted, scales, create_graph=True, allow_unused=True)
    found = iter(grads)
    return [next(found) if part.requires_grad else None for part in launched.parts]
