"""The parts of a small network that the kernels of :mod:`symmetries.kernels.filters` take."""

from typing import NamedTuple

from torch import Tensor


class Network(NamedTuple):
    """What the filters are made of; contiguous float32 tensors on one GPU.

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


def learned(network: Network) -> tuple[Tensor | None, ...]:
    """The parts that have gradients, in the order in which the kernels give them."""
    n = network
    inner = (n.output, n.second, n.second_bias, n.first, n.first_bias)
    return (*inner, n.absolute_weight, n.omega, n.bias)
