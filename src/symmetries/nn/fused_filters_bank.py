"""A small layer's filters in one launch on a GPU (:mod:`symmetries.ops.triton.filters`)."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from symmetries.nn.fourier import KernelNetwork, fourier_features, unit_relu
from symmetries.nn.fused_filters import Launched, can_take, tried
from symmetries.nn.gconv_kernels import filter_bank
from symmetries.nn.version_cache import Sampled
from symmetries.ops.triton.networks import Network

MOST = 2**20  # numbers in a bank: beyond, matrix products are faster than one small kernel
PAIRS = 1024  # of fields, at most: for the gradients each program goes through all


def network_of(
    kernel: KernelNetwork,
    gamma: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    coordinates: Tensor | None,
    omega: Tensor | None,
) -> Network:
    """What filters are made of: a kernel network of two hidden layers, a layer's other parts."""
    k = kernel
    layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1], k.output)
    if omega is None:
        return Network(gamma, *layers, mask, bias)
    relaxed = (coordinates, k.absolute_directions, omega, k.absolute_weight)
    return Network(gamma, *layers, mask, bias, *relaxed)


def launch(network: Network, lifting: bool) -> Launched | None:
    """The kernels for a layer, if they can do it and have shown so: float32 on a GPU, and small."""
    gamma, absolute = network.gamma, network.coordinates
    pairs = network.output[..., 0].numel()
    small = pairs <= PAIRS and pairs * gamma[..., 0].numel() <= MOST
    if not (small and can_take(network)):
        return None
    build = partial(_launched, lifting=lifting)
    relaxed = 0 if absolute is None else absolute.shape[1]
    sizes = (network.output.shape[2], gamma.shape[3], relaxed, lifting)
    case = ("filters", network.mask is not None, network.bias is not None, *sizes)
    return build(network) if tried(case, network, build) else None


def _launched(network: Network, lifting: bool) -> Launched:
    from symmetries.ops.triton.filters import Filters

    kernels = Filters(network, lifting)
    kernels.fit()
    return Launched(network.learned(), kernels, partial(reference, network, lifting))


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
