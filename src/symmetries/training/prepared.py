"""Examples that a function prepares for several steps at once.

What is done to examples before a model sees them (views, augmentation) is often many small
operations, which take as long for a few thousand examples as for one batch on a GPU.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.training.batches import Batch, Batches, Prepared
from symmetries.training.step import Step, mix

_PREPARED = 5  # mixed into the seed: not the numbers that the loss draws


class PreparedBatches:
    """Batches of :class:`Prepared` data.

    Args:
        rows: batches of its tensors.
        data: the data.
        step: whose seed, device and share of the examples these are.
    """

    def __init__(self, rows: Batches, data: Prepared, step: Step) -> None:
        self.rows, self.data, self.step = rows, data, step
        self._block = -1
        self._ready: list[Batch] = []

    def inputs(self, step: int) -> Batch:
        """Return what was prepared for a step."""
        block, place = divmod(step, self.data.steps)
        if block != self._block:
            first = block * self.data.steps
            own = range(first, min(first + self.data.steps, self.step.total))
            self._ready, self._block = self._made(own), block
        return self._ready[place]

    def batch(self, inputs: Batch) -> Batch:
        """Return the inputs, which are the batch."""
        return inputs

    def numbers(self, count: int) -> "SeveralNumbers":
        """Random numbers of so many steps in a row."""
        return SeveralNumbers(self.step, count)

    def joined(self, steps: Sequence[int]) -> Batch:
        """Return what changes from step to step, of several steps in a row."""
        parts = [self.rows.inputs(step) for step in steps]
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))

    @torch.no_grad()
    def prepared(self, joined: Batch, numbers: "SeveralNumbers") -> list[Batch]:
        """Prepare the examples of several steps, with device operations only."""
        found = self.data.prepare(self.rows.batch(joined), numbers)
        parts = [part.chunk(len(numbers.steps)) for part in found]
        return list(zip(*parts, strict=True))

    def _made(self, steps: Sequence[int]) -> list[Batch]:
        numbers = self.numbers(len(steps))
        numbers.begin(steps[0])
        return self.prepared(self.joined(steps), numbers)


class SeveralNumbers:
    """Random numbers of several steps in a row, each of which has its own."""

    def __init__(self, like: Step, count: int) -> None:
        seed = mix(like.seed, _PREPARED)
        self.steps = [
            Step(like.total, seed, like.device, like.rank, like.world) for _ in range(count)
        ]

    def begin(self, first: int) -> None:
        """Seed the numbers of the steps that begin with one."""
        for index, own in enumerate(self.steps, first):
            own.seed_examples(index)

    def sources(self) -> tuple[torch.Generator, ...]:
        """Return all generators that these are drawn from."""
        return tuple(step.generator for step in self.steps)

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers, rows by step."""
        return torch.cat([step.rand(*self._share(shape)) for step in self.steps])

    def randn(self, *shape: int) -> Tensor:
        """Standard normal numbers, rows by step."""
        return torch.cat([step.randn(*self._share(shape)) for step in self.steps])

    def _share(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] // len(self.steps), *shape[1:])
