"""Features of a position-dependent kernel function in two launches on a GPU.

The GPU kernels are in :mod:`symmetries.ops.positional_features`.
"""

import math
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from symmetries.nn.fourier import KernelFunction, fourier_features, unit_relu
from symmetries.nn.fused_filters import FusedFilters, can_take, verified
from symmetries.nn.position_conv import Geometry, neighbourhoods
from symmetries.nn.version_cache import Sampled
from symmetries.ops.networks import PlaceNetwork

MOST = 2**26  # numbers in phi above which launches do not matter
TAPS = 64
EXAMPLE = (6, 7)  # size of the example that is verified at first use on a device


def place_network_of(
    kernel: KernelFunction, gamma: Tensor, mask: Tensor | None, coordinates: Tensor, omega: Tensor
) -> PlaceNetwork:
    """Collect the inputs of the GPU kernels: a kernel network of two hidden layers, and others."""
    k = kernel
    layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1], mask)
    relaxed = (coordinates, k.absolute_directions, omega, k.absolute_weight)
    return PlaceNetwork(gamma, *layers, *relaxed)


def fuse_positions(network: PlaceNetwork, size: tuple[int, int]) -> FusedFilters | None:
    """Return the verified fused GPU kernels of a layer of stride 1, or None.

    Args:
        network: network of the layer.
        size: height and width of the layer's output.
    """
    taps, units = len(network.gamma), len(network.first)
    small = taps <= TAPS and size[0] * size[1] * taps * units <= MOST
    if not (small and can_take(network)):
        return None
    sizes = (taps, units, network.gamma.shape[1], network.omega.numel())
    case = ("places", network.mask is not None, *sizes)
    # Over many positions sums cancel, and torch's own rounding errors reach the tolerance.
    pixels = math.prod(side + math.isqrt(taps) - 1 for side in EXAMPLE)
    few = network.coordinates.new_empty(pixels, network.omega.numel())
    example = network._replace(coordinates=few)
    if not verified(case, example, partial(_fused, size=EXAMPLE)):
        return None
    return _fused(network, size)


def _fused(network: PlaceNetwork, size: tuple[int, int]) -> FusedFilters:
    from symmetries.ops.positional_features import Places

    kernels = Places(network, size)
    kernels.fit()
    return FusedFilters(network.learned(), kernels, partial(reference, network, size))


def reference(network: PlaceNetwork, size: tuple[int, int]) -> Sampled:
    """Return the features (positions, k k, 1, hidden) by torch operations, in any precision."""
    n, k = network, math.isqrt(len(network.gamma))
    s = fourier_features(n.coordinates, n.directions, n.omega) @ n.absolute_weight.T
    seen = neighbourhoods(
        s.view(size[0] + k - 1, size[1] + k - 1, -1), Geometry(1, 1, 1, 1, k, 1, 0)
    )
    z = seen + F.linear(n.gamma, n.first, n.first_bias)
    phi = unit_relu(F.linear(unit_relu(z), n.second, n.second_bias))
    if n.mask is not None:
        phi = phi * n.mask[:, None]
    return Sampled(phi[:, :, None], None)
