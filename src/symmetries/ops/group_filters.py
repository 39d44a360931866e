"""The filters of a group convolution, from its kernel network.

With gamma the Fourier features of the relative elements, and s those of the absolute elements
times a matrix A' where the layer is relaxed (zero if it is strict):

    phi = unit(unit(gamma A^T + b + s) B^T + c),   filters[o i, c j] = V[o, c] . phi[i, j]

where unit is a relu of mean 0 and variance 1. The fused form takes one launch forward, two
backward.
"""

from functools import partial

import torch.nn.functional as F

from symmetries.ops._fused_network import FusedNetwork, Sampler, can_take, is_right
from symmetries.ops.kernel_network import Network, Sampled, filter_bank, fourier_features, unit_relu

__all__ = ["Network", "Sampler", "group_filters", "prepare_filters"]

NAME = "group_filters"
MOST = 2**20  # numbers in a bank: beyond, matrix products are faster than one small kernel
PAIRS = 1024  # of fields, at most: for the gradients each program goes through all


def group_filters(network: Network, lifting: bool) -> Sampled:
    """Return filters and bias by torch's operations, in any precision: the definition.

    Args:
        network: of the layer.
        lifting: whether the absolute element is that of the output.

    Returns:
        Filters (fields out * elements out, fields in * elements in, k, k), and a bias for each of
        their outputs.

    Example:
        >>> import torch
        >>> layers = (torch.randn(16, 32), torch.zeros(16), torch.randn(16, 16), torch.zeros(16))
        >>> gamma, output = torch.randn(2, 2, 9, 32), torch.randn(4, 3, 16)
        >>> group_filters(Network(gamma, *layers, output, None, None), lifting=False).weight.shape
        torch.Size([8, 6, 3, 3])
    """
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


def prepare_filters(network: Network, lifting: bool, plain: Sampler) -> Sampler:
    """Return a function that samples filters, for repeated calls; it reads the tensors at each.

    Kernels serve small layers of float32 tensors on a GPU where they agree with torch.

    Args:
        network: of the layer; the values of its tensors may change later, their shapes may not.
        lifting: whether the absolute element is that of the output.
        plain: the layer's own torch form, where there are no kernels.
    """
    gamma, absolute = network.gamma, network.coordinates
    pairs = network.output[..., 0].numel()
    small = pairs <= PAIRS and pairs * gamma[..., 0].numel() <= MOST
    if not (small and can_take(NAME, network)):
        return plain
    build = partial(_fused, lifting=lifting)
    relaxed = 0 if absolute is None else absolute.shape[1]
    sizes = (network.output.shape[2], gamma.shape[3], relaxed, lifting)
    case = (NAME, network.mask is not None, network.bias is not None, *sizes)
    return build(network).sampler(plain) if is_right(case, network, build) else plain


def _fused(network: Network, lifting: bool) -> FusedNetwork:
    from symmetries.ops.triton.group_filters import FusedFilters

    kernels = FusedFilters(network, lifting)
    kernels.fit()
    return FusedNetwork(NAME, network.learned(), kernels, partial(group_filters, network, lifting))
