"""The features of filters that depend on the position, from their kernel network.

With s the Fourier features of each pixel times a matrix A', and gamma those of each tap t:

    phi[p, t] = unit(unit(s[p + t] + gamma[t] A^T + b) B^T + c)

where unit is a relu of mean 0 and variance 1. The fused form takes two launches forward, three
backward.
"""

import math
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from symmetries.ops._fused_network import FusedNetwork, Sampler, can_take, is_right
from symmetries.ops.kernel_network import PositionNetwork, Sampled, fourier_features, unit_relu
from symmetries.ops.position_conv import Geometry, neighbourhoods

__all__ = ["PositionNetwork", "positional_features", "prepare_features"]

NAME = "positional_features"
MOST = 2**26  # numbers in phi: beyond, launches do not matter
TAPS = 64
EXAMPLE = (6, 7)  # size of the output that is verified on a device at first use


def positional_features(network: PositionNetwork, size: tuple[int, int]) -> Sampled:
    """Return the features by torch's operations, in any precision: the definition.

    Args:
        network: of a layer of stride 1.
        size: height and width of the layer's output.

    Returns:
        phi, (positions, k k, 1, hidden), without a bias.

    Example:
        >>> import torch
        >>> layers = (torch.randn(16, 32), torch.zeros(16), torch.randn(16, 16), torch.zeros(16))
        >>> pixels = torch.rand(6 * 5, 2)  # that 3 x 3 taps read for an output of 4 x 3
        >>> absolute = (pixels, torch.randn(16, 2), torch.ones(2), torch.randn(16, 32))
        >>> network = PositionNetwork(torch.randn(9, 32), *layers, *absolute)
        >>> positional_features(network, (4, 3)).weight.shape
        torch.Size([12, 9, 1, 16])
    """
    n, k = network, math.isqrt(len(network.gamma))
    s = fourier_features(n.coordinates, n.directions, n.omega) @ n.absolute_weight.T
    seen = neighbourhoods(
        s.view(size[0] + k - 1, size[1] + k - 1, -1), Geometry(1, 1, 1, 1, k, 1, 0)
    )
    z = seen + F.linear(n.gamma, n.first, n.first_bias)
    phi = unit_relu(F.linear(unit_relu(z), n.second, n.second_bias))
    return Sampled(phi[:, :, None], None)


def prepare_features(
    network: PositionNetwork, size: tuple[int, int], bias: Tensor | None, plain: Sampler
) -> Sampler:
    """Return a function that samples features, for repeated calls: see ``prepare_filters``.

    Args:
        network: of the layer; the values of its tensors may change later, their shapes may not.
        size: height and width of the layer's output.
        bias: of the layer, which goes with the features.
        plain: the layer's own torch form, where there are no kernels.
    """
    taps, units = len(network.gamma), len(network.first)
    small = taps <= TAPS and size[0] * size[1] * taps * units <= MOST
    if not (small and can_take(NAME, network)):
        return plain
    sizes = (taps, units, network.gamma.shape[1], network.omega.numel())
    case = (NAME, *sizes)
    # Over many positions sums cancel, and torch's own rounding errors reach the tolerance.
    pixels = math.prod(side + math.isqrt(taps) - 1 for side in EXAMPLE)
    few = network.coordinates.new_empty(pixels, network.omega.numel())
    example = network._replace(coordinates=few)
    if not is_right(case, example, partial(_fused, size=EXAMPLE)):
        return plain
    return _fused(network, size).sampler(plain, bias)


def _fused(network: PositionNetwork, size: tuple[int, int]) -> FusedNetwork:
    from symmetries.ops.triton.positional_features import FusedFeatures

    kernels = FusedFeatures(network, size)
    kernels.fit()
    return FusedNetwork(
        NAME, network.learned(), kernels, partial(positional_features, network, size)
    )
