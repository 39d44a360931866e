"""The features of a kernel that depends on the place, in two launches on a GPU.

The kernels are in :mod:`symmetries.ops.triton.positional_features`.
"""

import math
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from symmetries.nn.fourier import KernelNetwork, fourier_features, unit_relu
from symmetries.nn.fused_filters import Launched, can_take, tried
from symmetries.nn.position_conv import Geometry, neighbourhoods
from symmetries.nn.version_cache import Sampled
from symmetries.ops.triton.networks import PlaceNetwork

MOST = 2**26  # numbers in phi: beyond, launches do not matter
TAPS = 64
EXAMPLE = (6, 7)  # what is tried on a device at first use


def place_network_of(
    kernel: KernelNetwork, gamma: Tensor, mask: Tensor | None, coordinates: Tensor, omega: Tensor
) -> PlaceNetwork:
    """What phi is made of: a kernel network of two hidden layers, a layer's other parts."""
    k = kernel
    layers = (k.relative_weight, k.biases[0], k.weights[0], k.biases[1], mask)
    relaxed = (coordinates, k.absolute_directions, omega, k.absolute_weight)
    return PlaceNetwork(gamma, *layers, *relaxed)


def launch_places(network: PlaceNetwork, size: tuple[int, int]) -> Launched | None:
    """The kernels for a layer of stride 1, if they can do it and have shown so.

    Args:
        network: of the layer.
        size: height and width of what the layer gives.
    """
    taps, units = len(network.gamma), len(network.first)
    small = taps <= TAPS and size[0] * size[1] * taps * units <= MOST
    if not (small and can_take(network)):
        return None
    sizes = (taps, units, network.gamma.shape[1], network.omega.numel())
    case = ("places", network.mask is not None, *sizes)
    # Over many places sums cancel, and torch's own rounding errors are as large as the tolerance.
    pixels = math.prod(side + math.isqrt(taps) - 1 for side in EXAMPLE)
    few = network.coordinates.new_empty(pixels, network.omega.numel())
    example = network._replace(coordinates=few)
    if not tried(case, example, partial(_launched, size=EXAMPLE)):
        return None
    return _launched(network, size)


def _launched(network: PlaceNetwork, size: tuple[int, int]) -> Launched:
    from symmetries.ops.triton.positional_features import Places

    kernels = Places(network, size)
    kernels.fit()
    return Launched(network.learned(), kernels, partial(reference, network, size))


def reference(network: PlaceNetwork, size: tuple[int, int]) -> Sampled:
    """The same by torch's operations, (places, k k, 1, hidden), in any precision."""
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
