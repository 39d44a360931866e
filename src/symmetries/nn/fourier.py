r"""Kernel functions on a Lie algebra whose dependence on each coordinate can be controlled.

.. math:: \gamma_\omega(a) = \sqrt{1/D}\,[\cos(2\pi W(a\odot\omega)),\ \sin(2\pi W(a\odot\omega))]

A coordinate with frequency 0 has no effect at all, and the features have norm 1 at every point and
every frequency. Therefore a variance-preserving initialisation of a network on them is exact: its
inputs need no whitening, whatever the frequencies are.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import (
    check_counts,
    check_floats,
    check_positive,
    check_whole,
    wrong_type,
)
from symmetries._validation.placement import check_broadcast, check_like
from symmetries.ops.kernel_network import fourier_features, unit_relu

SHARE = 0.1  # fraction of the first layer's initial variance from the absolute argument


def relu_correlation(rho: float) -> float:
    """Return the correlation of relu(z) and relu(z') for normal z and z' of correlation rho.

    Reference: Cho, Saul 2009, the arc-cosine kernel of order 1, about its mean.

    Example:
        >>> relu_correlation(0.0), relu_correlation(1.0), round(relu_correlation(-1.0), 4)
        (0.0, 1.0, -0.4669)
    """
    product = math.sqrt(max(0.0, 1 - rho * rho)) + rho * (math.pi - math.acos(rho))
    return (product - 1) / (math.pi - 1)


class KernelFunction(nn.Module):
    r"""Kernel function k(a, b) = V relu(B relu(A [gamma_omega(a), gamma_omega'(b)])), a network.

    The last layer is linear in the features phi of the others, and the order of V and the
    convolution is left to the caller: :meth:`features` returns phi.

    Weights are initialised with normal numbers so that every hidden unit has variance 1, at every
    point and frequency, and every output has variance ``variance``: because gamma has norm 1, a
    first layer of variance 1 achieves that, and units of mean 0 and variance 1 (:func:`unit_relu`)
    preserve it. Values at distant points are initially uncorrelated. The absolute argument b
    contributes only a tenth of the first layer's variance, ``SHARE``: the more it contributes, the
    fewer units still distinguish points a. Its contribution would be common to all points a, a blur
    that adds up over the taps. Therefore units are initialised in pairs that see r(a) and -r(a)
    with the same s(b), and V weighs their difference (:meth:`pair_units`).

    Args:
        relative: number of coordinates of a, in filter space.
        absolute: number of coordinates of b, in domain space; 0 for a stationary kernel function.
        outputs: shape of a value of the kernel function, such as (channels out, channels in).
        variance: initial variance of each value.
        features: D, half the number of Fourier features of each argument.
        hidden: number of units of a hidden layer.
        generator: random generator of W and the weights.

    Example:
        >>> network = KernelFunction(3, 1, (4, 2), variance=0.1)
        >>> a, b = torch.randn(7, 3), torch.zeros(7, 1)
        >>> phi = network.features(a, torch.ones(3), b, torch.ones(1))
        >>> phi.shape, network.output.shape
        (torch.Size([7, 32]), torch.Size([4, 2, 32]))
    """

    def __init__(
        self,
        relative: int,
        absolute: int,
        outputs: Sequence[int],
        variance: float,
        *,
        features: int = 32,
        hidden: int = 32,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_counts(features=features, hidden=hidden, relative=relative)
        check_whole(absolute, "absolute", least=0)
        check_positive(variance, "variance")
        if not isinstance(outputs, Sequence) or isinstance(outputs, str):
            raise wrong_type("outputs", "a shape", outputs, "such as (channels out, channels in)")
        for size in outputs:
            check_whole(size, "outputs")
        self.relative_directions: Tensor
        self.absolute_directions: Tensor

        def normal(*shape: int, variance: float) -> Tensor:
            return torch.randn(shape, generator=generator) * math.sqrt(variance)

        self.register_buffer("relative_directions", normal(features, relative, variance=1.0))
        first = normal(hidden, 2 * features, variance=1 - SHARE if absolute else 1.0)
        self.relative_weight = nn.Parameter(first)
        if absolute:
            self.register_buffer("absolute_directions", normal(features, absolute, variance=1.0))
            second = normal(hidden, 2 * features, variance=SHARE)
            self.absolute_weight = nn.Parameter(second)
        self.biases = nn.ParameterList((torch.zeros(hidden), torch.zeros(hidden)))
        self.weights = nn.ParameterList((normal(hidden, hidden, variance=1 / hidden),))
        self.output = nn.Parameter(normal(*outputs, hidden, variance=variance / hidden))
        if absolute:
            self.pair_units()

    @torch.no_grad()
    def pair_units(self) -> None:
        """Make k odd in r(a) = A gamma(a), so that no part of it depends on b alone.

        The difference relu(s + r) - relu(s - r) is 2 r for a large s and 0 for a small one: b gates
        the contribution of a. The second half of the units of each layer mirrors the first; every
        weight is free afterwards. With an odd number of units the remaining one is initially not
        read; a single unit is not changed.
        """
        half = self.output.shape[-1] // 2
        if half == 0:
            return
        one, two = slice(half), slice(half, 2 * half)
        self.relative_weight[two] = -self.relative_weight[one]
        self.absolute_weight[two] = self.absolute_weight[one]
        weight = self.weights[0]
        weight[two, two], weight[two, one] = weight[one, one], weight[one, two]
        rho = 2 * SHARE - 1  # correlation of s + r and s - r
        for _ in self.biases:
            rho = relu_correlation(rho)
        self.output.div_(math.sqrt(1 - rho))  # the variance of a pair's difference is 2 (1 - rho)
        self.output[..., half:] = 0
        self.output[..., two] = -self.output[..., one]

    def features(
        self,
        relative: Tensor,
        frequency: Tensor,
        absolute: Tensor | None = None,
        absolute_frequency: Tensor | None = None,
    ) -> Tensor:
        """Return the features phi (..., hidden), of the broadcast shape of both arguments.

        Args:
            relative: a, (..., relative).
            frequency: omega, (relative,).
            absolute: b, (..., absolute), broadcast against ``relative``; None if stationary.
            absolute_frequency: omega', (absolute,).
        """
        z = self.project_relative(relative, frequency)
        if absolute is not None and absolute_frequency is not None:
            check_broadcast(1, relative=relative, absolute=absolute)
            z = z + self.project_absolute(absolute, absolute_frequency)
        return self.finish(z)

    def project_relative(self, relative: Tensor, frequency: Tensor) -> Tensor:
        """Return the first layer's projection of a, (..., hidden).

        Both arguments are projected separately and then added, so that the Fourier features of all
        their pairs are never stored.
        """
        check_floats(relative, "relative", "...")
        check_like(relative, self.relative_directions, "relative")
        return self.project_features(
            fourier_features(relative, self.relative_directions, frequency)
        )

    def project_features(self, gamma: Tensor) -> Tensor:
        """Return the first layer's projection of the Fourier features of a, (..., 2 D)."""
        check_floats(gamma, "gamma", "...", self.relative_weight.shape[1])
        check_like(gamma, self.relative_weight, "gamma")
        return F.linear(gamma, self.relative_weight, self.biases[0])

    def project_absolute(self, absolute: Tensor, frequency: Tensor) -> Tensor:
        """Return the first layer's projection of b, (..., hidden)."""
        check_floats(absolute, "absolute", "...")
        check_like(absolute, self.absolute_directions, "absolute")
        gamma = fourier_features(absolute, self.absolute_directions, frequency)
        return gamma @ self.absolute_weight.T

    def finish(self, z: Tensor) -> Tensor:
        """Apply the second hidden layer: phi from the sum of both projections."""
        check_floats(z, "z", "...", self.relative_weight.shape[0])
        check_like(z, self.relative_weight, "z")
        return unit_relu(unit_relu(z) @ self.weights[0].T + self.biases[1])
