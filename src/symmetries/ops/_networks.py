"""Tensors of the kernel networks behind group filters and positional features."""

from typing import NamedTuple

from torch import Tensor


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
        mask: (k k,), or None for ones.
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
    mask: Tensor | None
    coordinates: Tensor
    directions: Tensor
    omega: Tensor
    absolute_weight: Tensor

    def learned(self) -> tuple[Tensor, ...]:
        """Return the parts that have gradients, in the order of the kernels' results."""
        inner = (self.second, self.second_bias, self.first, self.first_bias)
        return (*inner, self.absolute_weight, self.omega)
