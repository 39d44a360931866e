"""Random numbers that belong to the examples of a batch, and not to the process that draws them.

With several processes each has some rows of the batch. All of them draw for the whole batch from
generators in the same state, and each keeps its rows: so any number of processes sees the numbers
that one would see.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class ExampleGenerator(torch.Generator):
    """A generator that knows which rows of the batch its process has: rank by rank, in turn."""

    rank = 0
    world = 1


def per_example_random(
    kind: Callable[..., Tensor],
    shape: Sequence[int],
    axis: int = 0,
    generator: torch.Generator | None = None,
    **options: Any,  # noqa: ANN401 - of kind
) -> Tensor:
    """Random numbers of some shape, of which one axis runs over this process's examples.

    Args:
        kind: ``torch.rand``, ``torch.randn``, or anything that takes a shape and a generator.
        shape: what is wanted here.
        axis: of the examples.
        generator: of the numbers; the processes share them if it is an :class:`ExampleGenerator`.
        options: device, dtype.

    Example:
        >>> whole, half = ExampleGenerator(), ExampleGenerator()
        >>> half.rank, half.world = 1, 2
        >>> numbers = per_example_random(torch.rand, (4, 3), generator=whole.manual_seed(0))
        >>> mine = per_example_random(torch.rand, (2, 3), generator=half.manual_seed(0))
        >>> torch.equal(mine, numbers[2:])
        True
    """
    world = getattr(generator, "world", 1)
    if world == 1:
        return kind(tuple(shape), generator=generator, **options)
    every, rows = list(shape), shape[axis]
    every[axis] = rows * world
    numbers = kind(tuple(every), generator=generator, **options)
    return numbers.narrow(axis, rows * getattr(generator, "rank", 0), rows)
