"""Several steps in a row as one call, which a CUDA graph replays at once.

A small network waits for the host: to look up the examples of a step, to seed its numbers, to set
the learning rate and to launch a graph takes longer than its kernels. Where a function prepares the
examples of several steps (:class:`symmetries.training.batches.Prepared`), these steps and their
preparation are one graph. Every step has the examples, the numbers and the learning rate that it
would have alone; only layers that draw from the global generator draw other numbers of the same
law, as one replay has one state of it.
"""

import torch

from symmetries.training.batches import Batch
from symmetries.training.config import TrainConfig
from symmetries.training.optim import lr_factor
from symmetries.training.source import PreparedBatches, SeveralNumbers
from symmetries.training.step import Step
from symmetries.training.update import Metrics, Update


class BlockStep(Step):
    """The steps of a block, each with the random numbers that belong to its step number.

    Args:
        total: number of steps of the whole run.
        seed: seed of the run.
        device: device of the loss.
        numbers: that the examples of a block are prepared with.

    Example:
        >>> cpu = torch.device("cpu")
        >>> block = BlockStep(10, 3, cpu, SeveralNumbers(Step(10, 3, cpu), 2))
        >>> block.begin(4)
        >>> block.choose(1)
        >>> alone = Step(10, 3, cpu)
        >>> alone.begin(5)
        >>> torch.equal(block.rand(2), alone.rand(2))
        True
    """

    def __init__(
        self, total: int, seed: int, device: torch.device, numbers: SeveralNumbers
    ) -> None:
        super().__init__(total, seed, device)
        self.numbers = numbers
        others = (torch.Generator(device) for _ in numbers.steps[1:])
        self.generators = (self.generator, *others)

    def begin(self, index: int) -> None:
        """Advance to the first step of a block and seed the numbers of all of its steps."""
        self.numbers.begin(index)
        for place in reversed(range(len(self.generators))):
            self.choose(place)
            self.seed_examples(index + place)
        super().begin(index)
        self.taken = 1

    def choose(self, place: int) -> None:
        """Select the step of the block from whose generator numbers are drawn."""
        self.generator = self.generators[place]

    def finish(self) -> None:
        """Advance to the last step of the block, which callbacks see."""
        self.taken = len(self.generators)
        self._index += self.taken - 1

    def sources(self) -> tuple[torch.Generator, ...]:
        """Return all generators that the steps draw from, except the global ones."""
        return (*self.generators, *self.numbers.sources())


class BlockUpdate:
    """Performs the steps of a block, from the rows of their examples.

    It stands for an :class:`Update` in :class:`symmetries.training.graph.GraphedUpdate`.

    Args:
        update: of one step.
        batches: prepares the examples of a block.
        step: of the run.
        config: of the run.
    """

    def __init__(
        self, update: Update, batches: PreparedBatches, step: BlockStep, config: TrainConfig
    ) -> None:
        self.update, self.batches, self.step = update, batches, step
        self.count, self.total = batches.data.steps, config.steps
        factors = [lr_factor(index, config) for index in range(config.steps)]
        progress = [index / config.steps for index in range(config.steps)]
        self.plan = torch.tensor([factors, progress], device=step.device).T.contiguous()

    def fits(self, index: int) -> bool:
        """Whether a whole block begins with a step."""
        return index % self.count == 0 and index + self.count <= self.total

    def inputs(self, index: int) -> Batch:
        """Seed the numbers of a block; return its rate factors and progress, and its rows."""
        self.step.begin(index)
        rows = self.batches.joined(range(index, index + self.count))
        return self.plan[index : index + self.count], *rows

    def __call__(self, inputs: Batch) -> Metrics:
        """Perform the steps and return the metrics of the last one."""
        plan, *rows = inputs
        metrics: Metrics = {}
        for place, batch in enumerate(self._prepared(tuple(rows))):
            self._choose(place, plan)
            for group in self.update.optimizer.param_groups:
                torch.mul(plan[place, 0], group["peak_lr"], out=group["lr"])
            metrics = self.update(batch)
        return metrics

    def gradient(self, inputs: Batch) -> Metrics:
        """Compute the gradient of the first step without changing weights."""
        plan, *rows = inputs
        batch = self._prepared(tuple(rows))[0]
        self._choose(0, plan)
        return self.update.gradient(batch)

    def clear_gradients(self) -> None:
        """Clear all gradients."""
        self.update.clear_gradients()

    def _choose(self, place: int, plan: torch.Tensor) -> None:
        self.step.choose(place)
        self.step.progress.copy_(plan[place, 1])

    def _prepared(self, rows: Batch) -> list[Batch]:
        return self.batches.prepared(rows, self.step.numbers)
