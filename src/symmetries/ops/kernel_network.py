"""The kernel network of a group convolution: Fourier features, units and filters."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, invalid
from symmetries._validation.placement import check_like


class Sampled(NamedTuple):
    """Filters and a bias, or the features phi of filters that depend on the position."""

    weight: Tensor
    bias: Tensor | None


def fourier_features(coordinates: Tensor, directions: Tensor, frequency: Tensor) -> Tensor:
    """Random Fourier features [cos(2 pi W (a omega)), sin(2 pi W (a omega))] / sqrt(D).

    Reference: van der Ouderaa, Romero, van der Wilk 2022, equation 7; Rahimi, Recht 2007.

    Args:
        coordinates: a, (..., dim).
        directions: W, (D, dim).
        frequency: omega, (dim,); 0 makes the features independent of that coordinate.

    Returns:
        (..., 2 D), of norm 1.

    Example:
        >>> a, directions = torch.randn(5, 2), torch.randn(8, 2)
        >>> features = fourier_features(a, directions, torch.tensor([1.0, 0.0]))
        >>> up = torch.tensor([0.0, 3.0])
        >>> moved = fourier_features(a + up, directions, torch.tensor([1.0, 0.0]))
        >>> torch.equal(features, moved), torch.allclose(features.norm(dim=-1), torch.ones(5))
        (True, True)
    """
    check_floats(coordinates, "coordinates", "...", "D")
    check_floats(directions, "directions", "...", "D")
    check_floats(frequency, "frequency", "...", "D")
    dim = directions.shape[-1]
    if coordinates.shape[-1] != dim or frequency.shape != (dim,):
        got = f"shapes {tuple(coordinates.shape)} and {tuple(frequency.shape)}"
        expected = f"coordinates (..., {dim}) and frequency ({dim},)"
        raise invalid("coordinates", expected, got, "one frequency for each coordinate")
    check_like(frequency, directions, "frequency")
    phase = coordinates @ (2 * math.pi * directions * frequency).T
    return torch.cat((phase.cos(), phase.sin()), -1) / math.sqrt(len(directions))


def unit_relu(z: Tensor) -> Tensor:
    """A relu with mean 0 and variance 1 for standard normal z: (relu(z) - m) / s.

    m = 1 / sqrt(2 pi) and s^2 = 1/2 - m^2. Units that are all positive would give all filters
    a large constant part, which adds up over the taps wherever inputs have a mean.

    Example:
        >>> z = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
        >>> bool(unit_relu(z).mean().abs() < 0.01), bool((unit_relu(z).var() - 1).abs() < 0.02)
        (True, True)
    """
    mean = 1 / math.sqrt(2 * math.pi)
    return (z.relu() - mean) / math.sqrt(0.5 - mean**2)


def filter_bank(phi: Tensor, output: Tensor, kernel_size: int) -> Tensor:
    """The filters of an ordinary convolution: w[o i, c j] = sum_m V[o, c, m] phi[i, j, :, m].

    Args:
        phi: (elements out, elements in, k k, hidden).
        output: V, (fields out, fields in, hidden).
        kernel_size: k.

    Returns:
        (fields out * elements out, fields in * elements in, k, k), channels last in memory.
    """
    elements_out, elements_in, _, _ = phi.shape
    fields_out, fields_in, hidden = output.shape
    values = phi.reshape(-1, hidden) @ output.reshape(-1, hidden).T
    values = values.view(elements_out, elements_in, kernel_size, kernel_size, fields_out, fields_in)
    values = values.permute(4, 0, 2, 3, 5, 1)  # out, i, row, column, in, j
    bank = values.reshape(fields_out * elements_out, kernel_size, kernel_size, -1)
    return bank.permute(0, 3, 1, 2)


class Network(NamedTuple):
    """Tensors from which filters are computed; contiguous float32 tensors on one GPU.

    Args:
        gamma: (elements out, elements in, k k, F), the Fourier features of the relative elements.
        first: A, (H, F), then b, (H,).
        first_bias: b.
        second: B, (H, H).
        second_bias: c, (H,).
        output: V, (fields out, fields in, H).
        mask: (k k,), or None for ones.
        bias: (fields out,), or None.
        coordinates: (elements, A) of the absolute elements, or None where nothing is relaxed.
        directions: (F / 2, A), of their features.
        omega: (A,), the frequencies omega'.
        absolute_weight: A', (H, F).
    """

    gamma: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    output: Tensor
    mask: Tensor | None
    bias: Tensor | None
    coordinates: Tensor | None = None
    directions: Tensor | None = None
    omega: Tensor | None = None
    absolute_weight: Tensor | None = None

    def learned(self) -> tuple[Tensor, ...]:
        """Return the parts that have gradients, in the order of the kernels' results."""
        inner = (self.output, self.second, self.second_bias, self.first, self.first_bias)
        parts = (*inner, self.absolute_weight, self.omega, self.bias)
        return tuple(part for part in parts if part is not None)


class PositionNetwork(NamedTuple):
    """Tensors from which features of position-dependent filters are computed; see Network.

    Args:
        gamma: (k k, F), the Fourier features of the taps.
        first: A, (H, F).
        first_bias: b, (H,).
        second: B, (H, H).
        second_bias: c, (H,).
        coordinates: (positions, A) of the pixels, those outside the image that taps reach included.
        directions: (F / 2, A), of their features.
        omega: (A,), the frequencies omega'.
        absolute_weight: A', (H, F).
    """

    gamma: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    coordinates: Tensor
    directions: Tensor
    omega: Tensor
    absolute_weight: Tensor

    def learned(self) -> tuple[Tensor, ...]:
        """Return the parts that have gradients, in the order of the kernels' results."""
        inner = (self.second, self.second_bias, self.first, self.first_bias)
        return (*inner, self.absolute_weight, self.omega)
