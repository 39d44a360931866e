"""Filters of a small layer in one launch on a GPU (:mod:`symmetries.ops.filters`)."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from symmetries.nn.fourier import KernelFunction, fourier_features, unit_relu
from symmetries.nn.fused_filters import FusedFilters, can_take, verified
from symmetries.nn.gconv_sampling import filter_bank
from symmetries.nn.version_cache import Sampled
from symmetries.ops.networks import Network

MOST = 2**20  # numbers in a filter bank above which matrix products are faster
PAIRS = 1024  # largest number of pairs of fields: each program loops over all for the gradients


def network_of(
    kernel: KernelFunction,
    gamma: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    coordinates: Tensor | None,
    omega: Tensor | None,
) -> Network:
    """Collect the inputs of the GPU kernel: a kernel network of two hidden layers, and others."""
    k = kernel
    layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1], k.output)
    if omega is None:
        return Network(gamma, *layers, mask, bias)
    relaxed = (coordinates, k.absolute_directions, omega, k.absolute_weight)
    return Network(gamma, *layers, mask, bias, *relaxed)


def fuse_filters(network: Network, lifting: bool) -> FusedFilters | None:
    """Return the fused GPU kernels of a layer, if they support and were verified for it."""
    gamma, absolute = network.gamma, network.coordinates
    pairs = network.output[..., 0].numel()
    small = pairs <= PAIRS and pairs * gamma[..., 0].numel() <= MOST
    if not (small and can_take(network)):
        return None
    build = partial(_fused, lifting=lifting)
    relaxed = 0 if absolute is None else absolute.shape[1]
    sizes = (network.output.shape[2], gamma.shape[3], relaxed, lifting)
    case = ("filters", network.mask is not None, network.bias is not None, *sizes)
    return build(network) if verified(case, network, build) else None


def _fused(network: Network, lifting: bool) -> FusedFilters:
    from symmetries.ops.filters import Filters

    kernels = Filters(network, lifting)
    kernels.fit()
    return FusedFilters(network.learned(), kernels, partial(reference, network, lifting))


def reference(network: Network, lifting: bool) -> Sampled:
    """Return the filters by torch operations, in any precision."""
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
