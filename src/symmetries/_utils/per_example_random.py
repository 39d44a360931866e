"""Random numbers that belong to the examples of a batch, independent of the number of processes.

With several processes each has some rows of the batch. All processes draw for the whole batch
from generators in the same state and keep their own rows, so the numbers do not depend on the
number of processes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class ExampleGenerator(torch.Generator):
    """Generator that knows which rows of the batch belong to its process, in the order of ranks."""

    rank = 0
    world = 1


def per_example_random(
    kind: Callable[..., Tensor],
    shape: Sequence[int],
    axis: int = 0,
    generator: torch.Generator | None = None,
    **options: Any,  # noqa: ANN401 - of kind
) -> Tensor:
    """Draw random numbers with one axis that runs over this process's examples.

    Args:
        kind: ``torch.rand``, ``torch.randn``, or anything that takes a shape and a generator.
        shape: shape of the result in this process.
        axis: axis of the examples.
        generator: source of the numbers; processes divide them if it is an
            :class:`ExampleGenerator`.
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
