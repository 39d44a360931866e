"""Capture of the update as a CUDA graph, which removes the gaps between kernel launches.

The first steps run eagerly (they are part of the run), so that libraries initialise and Adam
creates its state. Then a trial capture shows whether the loss can be captured: code that
synchronises with the device or reads the step's number in Python would fail or be frozen. If it
cannot be captured, the run stays eager and a warning says why. Random numbers follow the seeds
set before each replay, because both generators are registered with the graph; indices, learning
rate and progress are in fixed tensors that are filled before each replay.

Where a function prepares the examples of several steps
(:class:`symmetries.training.batches.Prepared`), these steps and their preparation are one graph: a
small network waits for the host, as to look up the examples of a step, to seed its numbers, to set
the learning rate and to launch a graph takes longer than its kernels. Every step has the examples,
the numbers and the learning rate that it would have alone; only layers that draw from the global
generator draw other numbers of the same law, as one replay has one state of it.
"""

import warnings

import torch
from torch import Tensor, nn

from symmetries.training.batches import Batch
from symmetries.training.config import TrainConfig
from symmetries.training.optim import lr_factor
from symmetries.training.source import PreparedBatches, SeveralNumbers
from symmetries.training.step import Step
from symmetries.training.update import Metrics, Update

WARMUP = 3


def wants_graph(config: TrainConfig, device: torch.device, world: int) -> bool:
    """Whether to capture a CUDA graph: on one CUDA device, unless it is turned off."""
    return config.hardware.graph == "auto" and device.type == "cuda" and world == 1


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


class GraphedUpdate:
    """An :class:`Update` that is captured as a CUDA graph after a few steps.

    Args:
        update: the update to capture, of one step or of several; its optimiser must hold the
            learning rate in tensors.
        step: step of the run; its random numbers are seeded before each call.
        model: model whose buffers the trial capture must not change.
        warm_up: eager calls before the capture.
    """

    def __init__(
        self, update: Update | BlockUpdate, step: Step, model: nn.Module, warm_up: int = WARMUP
    ) -> None:
        self.update = update
        self.step = step
        self.model = model
        self.warm_up = warm_up
        self.reason = ""  # reason for staying eager, if any
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Batch = ()
        self._metrics: Metrics = {}
        step.keep_on_device()

    def __call__(self, inputs: Batch) -> Metrics:
        """Perform the step. The next step overwrites the returned tensors."""
        if self.reason:
            return self.update(inputs)
        if self._graph is None:
            if self._calls < self.warm_up:
                self._calls += 1
                return self._warm_up(inputs)
            self._inputs = tuple(part.clone() for part in inputs)
            self.reason = self._trial()
            if self.reason:
                message = f"the step is not captured as a CUDA graph: {self.reason}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
                return self.update(inputs)
            self._graph = self._capture()
        else:
            for fixed, part in zip(self._inputs, inputs, strict=True):
                fixed.copy_(part, non_blocking=True)
        self._graph.replay()
        return self._metrics

    def _warm_up(self, inputs: Batch) -> Metrics:
        """Perform an eager step on a side stream, as capture does."""
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*capturable=True")
            metrics = self.update(inputs)
        main.wait_stream(side)
        return metrics

    def _trial(self) -> str:
        """Return why the gradient cannot be captured, or an empty string; changes no state."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.step.host = False
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*prototype feature")
                torch.cuda.set_sync_debug_mode("error")
            self.update.gradient(self._inputs)
        except RuntimeError as error:
            return str(error).partition("\n")[0]
        finally:
            torch.cuda.set_sync_debug_mode("default")
            self.step.host = True
            self._restore(buffers)
        return ""

    def _restore(self, buffers: list[tuple[Tensor, Tensor]]) -> None:
        for buffer, before in buffers:
            buffer.copy_(before)
        self.update.clear_gradients()
        self.step.begin(self.step.index)

    def _capture(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.step.sources():
            graph.register_generator_state(generator)
        self.step.host = False
        try:
            # Other threads (of a loader) may continue to use the device meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._metrics = self.update(self._inputs)
        except RuntimeError as error:
            error.add_note("while capturing the step as a CUDA graph; graph='off' turns it off")
            raise
        finally:
            self.step.host = True
        return graph
