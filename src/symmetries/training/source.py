"""Conversion of the data argument of ``train`` to batches on the device."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from symmetries._validation.checks import check_held, invalid
from symmetries.training.batches import (
    Batch,
    Batches,
    Data,
    HostBatches,
    Images,
    JoinedBatches,
    LoadedBatches,
    Order,
    Prepared,
    ResidentBatches,
)
from symmetries.training.config import TrainConfig
from symmetries.training.step import Step, mix

# Fraction of the free device memory for data; the rest is for the model and its gradients.
DEVICE_SHARE = 0.5


def as_tensors(data: Data) -> Batch | None:
    """Return the tensors of ``data``, or None if it is a ``Dataset`` that produces its own items.

    Example:
        >>> as_tensors((torch.zeros(5, 2), torch.zeros(5)))[0].shape
        torch.Size([5, 2])
    """
    if isinstance(data, TensorDataset | Prepared):
        tensors: Batch = data.tensors
    elif isinstance(data, tuple):
        tensors = data
    elif isinstance(data, Dataset):
        if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
            remedy = "give a data set with __len__ and __getitem__: a run must be able to resume"
            raise TypeError(str(invalid("data", "random access", type(data).__name__, remedy)))
        return None
    elif isinstance(data, Images):
        tensors = (data.images,) if data.labels is None else (data.images, data.labels)
    else:
        expected = "a tuple of tensors, an ImageSet or a Dataset"
        remedy = "wrap a single tensor as (tensor,)"
        raise TypeError(str(invalid("data", expected, type(data).__name__, remedy)))
    if not tensors or not all(isinstance(part, Tensor) and part.ndim for part in tensors):
        kinds = ", ".join(type(part).__name__ for part in tensors) or "an empty tuple"
        error = invalid("data", "tensors with a first axis", kinds, "use torch.as_tensor(...)")
        raise TypeError(str(error))
    for part in tensors:
        check_held(part, "data")
    lengths = {len(part) for part in tensors}
    if len(lengths) > 1:
        remedy = "one row per example in each"
        raise invalid("data", "tensors of one length", sorted(lengths), remedy)
    return tensors


def count_examples(data: Data) -> int:
    """Return the number of examples; raise an error if there are none."""
    tensors = as_tensors(data)
    count = len(data) if tensors is None else len(tensors[0])  # type: ignore[arg-type]
    if count == 0:
        raise invalid("data", "at least one example", "none", "check the loader")
    return count


def make_batches(
    data: Data, config: TrainConfig, device: torch.device, rank: int, world: int, first: int
) -> Batches:
    """Return batches of ``data``, kept on the device if they fit and loaded otherwise.

    Args:
        data: tensors with one row per example, an ImageSet, or a Dataset.
        config: configuration of the run.
        device: device of the batches.
        rank: index of this process.
        world: number of processes.
        first: the step at which the run starts or resumes.
    """
    if isinstance(data, Prepared):
        rows = make_batches(data.tensors, config, device, rank, world, first)
        return PreparedBatches(rows, data, Step(config.steps, config.seed, device, rank, world))
    tensors = as_tensors(data)
    examples = count_examples(data)
    resident = tensors is not None and fits_on_device(tensors, device)
    order_device = device if resident else None
    order = Order(examples, config.batch_size, config.seed, rank, world, order_device)
    if tensors is None:
        dataset: Dataset[object] = data  # type: ignore[assignment]
        return LoadedBatches(dataset, order, device, config.hardware.workers, first, config.steps)
    if resident:
        return ResidentBatches(tuple(tensor.to(device) for tensor in tensors), order)
    return HostBatches(tensors, order, device, config.steps)


def join_batches(
    data: Sequence[Data],
    config: TrainConfig,
    seeds: Sequence[int],
    device: torch.device,
    first: int,
) -> JoinedBatches:
    """Return batches of several runs, stacked, each in the order of its own seed.

    Args:
        data: data of each run; tensors that several share are kept on the device once.
        config: configuration that the runs share.
        seeds: seeds of the runs.
        device: device of the batches.
        first: the step at which the runs start or resume.
    """
    made: dict[tuple[int, ...], Batches] = {}
    runs: list[Batches] = []
    for own, seed in zip(data, seeds, strict=True):
        key = tuple(id(tensor) for tensor in as_tensors(own) or (own,))
        before = made.get(key)
        if isinstance(before, ResidentBatches):
            order = Order(before.order.examples, config.batch_size, seed, device=device)
            runs.append(ResidentBatches(before.tensors, order))
        else:
            runs.append(make_batches(own, replace(config, seed=seed), device, 0, 1, first))
            made[key] = runs[-1]
    return JoinedBatches(runs)


def fits_on_device(tensors: Batch, device: torch.device) -> bool:
    """Whether a GPU has memory for tensors beside a model; a CPU has."""
    if device.type != "cuda":
        return True
    missing = sum(part.nbytes for part in tensors if part.device != device)
    free, _ = torch.cuda.mem_get_info(device)
    return missing <= DEVICE_SHARE * free


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
        """Return random numbers of ``count`` consecutive steps."""
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
        """Seed the numbers of consecutive steps, given the first of them."""
        for index, own in enumerate(self.steps, first):
            own.seed_examples(index)

    def sources(self) -> tuple[torch.Generator, ...]:
        """Return all generators that these are drawn from."""
        return tuple(step.generator for step in self.steps)

    def rand(self, *shape: int) -> Tensor:
        """Return uniform numbers, rows by step."""
        return torch.cat([step.rand(*self._share(shape)) for step in self.steps])

    def randn(self, *shape: int) -> Tensor:
        """Return the standard normal numbers, rows by step."""
        return torch.cat([step.randn(*self._share(shape)) for step in self.steps])

    def _share(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] // len(self.steps), *shape[1:])
