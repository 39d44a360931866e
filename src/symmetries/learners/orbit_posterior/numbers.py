"""Where views, dropout and samples get their random numbers from."""

import math
from typing import Protocol

import torch
from torch import Tensor

# Odd constants of the SplitMix64 finaliser, as signed numbers of 64 bits: products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
LEVELS = 255  # of a value, when pictures are told apart
DIGITS = 23  # bits of a uniform number: one fewer than floats have, so that halves are exact


class Numbers(Protocol):
    """Source of random numbers, one row for each picture; a training step is one."""

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1)."""

    def randn(self, *shape: int) -> Tensor:
        """Standard normal numbers."""


class RowNumbers:
    """Random numbers each row of which follows from a key of its own and from nothing else.

    What a row draws does not depend on the rows beside it, on their number, or on the device.

    Args:
        keys: (N,) whole numbers.

    Example:
        >>> every = RowNumbers(torch.tensor([3, 4, 5])).rand(3, 2)
        >>> torch.equal(RowNumbers(torch.tensor([5])).rand(1, 2), every[2:])
        True
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys
        self.drawn = 0  # by each row

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), as many rows as there are keys."""
        return (self._bits(shape) * 2.0**-DIGITS).reshape(shape)

    def randn(self, *shape: int) -> Tensor:
        """Standard normal numbers, by the inverse of their distribution function."""
        middle = (self._bits(shape) + 0.5) * 2.0 ** (1 - DIGITS) - 1
        return (math.sqrt(2) * torch.erfinv(middle)).reshape(shape)

    def _bits(self, shape: tuple[int, ...]) -> Tensor:
        """Whole numbers (N, M) of so many digits, as floats."""
        count = math.prod(shape[1:])
        place = torch.arange(self.drawn + 1, self.drawn + count + 1, device=self.keys.device)
        self.drawn += count
        mixed = _finalised(self.keys[:, None] + place * GOLDEN)
        top: Tensor = (mixed >> (64 - DIGITS)) & (2**DIGITS - 1)
        return top.float()


def picture_numbers(seed: int, images: Tensor) -> RowNumbers:
    """Numbers that belong to pictures (N, C, H, W): their keys follow from the seed and the values.

    The same picture is seen in the same way in any batch.
    """
    levels = (images.flatten(1) * LEVELS).round().long()
    weight = _finalised(torch.arange(1, levels.shape[1] + 1, device=images.device) * GOLDEN)
    return RowNumbers(_finalised((levels * weight).sum(1) + seed * GOLDEN % 2**63))


def place_numbers(seed: int, places: Tensor) -> RowNumbers:
    """Numbers that belong to places (N,) of a batch, whatever stands there."""
    return RowNumbers(_finalised(_finalised(places * GOLDEN) + seed * GOLDEN % 2**63))


def _finalised(state: Tensor) -> Tensor:
    """SplitMix64's finaliser of whole numbers of 64 bits: neighbours get unrelated values."""
    for bits, factor in ((30, FIRST), (27, SECOND)):
        state = (state ^ ((state >> bits) & (2 ** (64 - bits) - 1))) * factor
    return state ^ ((state >> 31) & (2**33 - 1))
