"""Selection of the examples of each step, and their transfer to the device.

The examples of a run form one endless sequence: epoch after epoch, each a permutation drawn from
(seed, epoch). Step s takes the positions s B to (s + 1) B - 1 of that sequence. So every example
is seen once per epoch, all batches have the same size (a CUDA graph needs that), and the position
of a resumed run follows from the step's number. With several processes, each takes its share of
those B positions.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from symmetries._validation.checks import invalid
from symmetries.training.step import example_seed, order_seed

Batch = tuple[Tensor, ...]
PREFETCH = 8  # number of steps that are prefetched
AT_ONCE = 2**14  # examples whose order is brought to a GPU at once
THREADS = 4  # prefetching threads: one alone is slower than a GPU with a small network


@runtime_checkable
class Images(Protocol):
    """A set of images with or without labels, such as ``symmetries.data.ImageSet``."""

    @property
    def images(self) -> Tensor:
        """Images (N, C, H, W)."""

    @property
    def labels(self) -> Tensor | None:
        """Labels (N,)."""


class Draws(Protocol):
    """Source of random numbers, one row for each example."""

    def rand(self, *shape: int) -> Tensor:
        """Return uniform numbers in [0, 1)."""

    def randn(self, *shape: int) -> Tensor:
        """Return the standard normal numbers."""


@dataclass(frozen=True)
class Prepared:
    """Data of :func:`symmetries.training.train` whose batches a function prepares.

    Args:
        tensors: one row per example.
        prepare: from rows of them, and a source of random numbers, to what the loss gets: tensors
            with one row per example, each of which depends on no other. It may not read the model.
        steps: prepared at once; what a step gets does not depend on it.
    """

    tensors: Batch
    prepare: Callable[[Batch, Draws], Batch]
    steps: int = 8


Data = Batch | Images | Dataset[object] | Prepared


class Order:
    """The examples of each step, as indices into the data.

    Args:
        examples: number of examples.
        batch_size: examples per step over all processes.
        seed: seed of the run.
        rank: index of this process.
        world: number of processes.
        device: device of the indices.

    Example:
        >>> order = Order(examples=6, batch_size=4, seed=0)
        >>> sorted(torch.cat([order.indices(0), order.indices(1)])[:6].tolist())
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        examples: int,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        device: torch.device | None = None,
    ) -> None:
        if batch_size % world:
            remedy = "choose a batch_size that the processes share evenly"
            raise invalid("batch_size", f"a multiple of {world} processes", batch_size, remedy)
        self.examples = examples
        self.batch_size = batch_size
        self.share = batch_size // world
        self.seed = seed
        self.rank = rank
        self.device = device
        waits = device is not None and device.type == "cuda"
        self.epochs = max(1, AT_ONCE // examples) if waits else 1  # whose order is made at once
        self._orders: dict[int, Tensor] = {}

    def start(self, step: int) -> int:
        """Return the position, in the sequence of epochs, of this process's first example."""
        return step * self.batch_size + self.rank * self.share

    def indices(self, step: int) -> Tensor:
        """Return the indices (share,) of this process's examples at a step."""
        number, offset = divmod(self.start(step), self.epochs * self.examples)
        piece = self._order(number)[offset : offset + self.share]
        if len(piece) == self.share:
            return piece
        pieces, missing = [piece], self.share - len(piece)
        while missing > 0:
            number += 1
            pieces.append(self._order(number)[:missing])
            missing -= len(pieces[-1])
        return torch.cat(pieces)

    def _order(self, number: int) -> Tensor:
        """The order of several epochs: each transfer of one to a GPU waits for the device."""
        if number not in self._orders:
            orders = []
            for epoch in range(number * self.epochs, (number + 1) * self.epochs):
                generator = torch.Generator().manual_seed(order_seed(self.seed, epoch))
                orders.append(torch.randperm(self.examples, generator=generator))
            order = torch.cat(orders)
            self._orders = {key: self._orders[key] for key in self._orders if key == number - 1}
            self._orders[number] = order if self.device is None else order.to(self.device)
        return self._orders[number]


class Batches(Protocol):
    """Provides the batch of a step in two parts, the second of which a CUDA graph can capture."""

    def inputs(self, step: int) -> Batch:
        """Return the tensors that change from step to step, on the device and of constant shape."""

    def batch(self, inputs: Batch) -> Batch:
        """Return the batch for ``inputs``, with device operations only."""


class ResidentBatches:
    """Batches from tensors that are on the device and indexed there."""

    def __init__(self, tensors: Batch, order: Order) -> None:
        self.tensors = tensors
        self.order = order

    def inputs(self, step: int) -> Batch:
        """Return the indices of the step's examples."""
        return (self.order.indices(step),)

    def batch(self, inputs: Batch) -> Batch:
        """Return the examples at the indices."""
        return tuple(tensor.index_select(0, inputs[0]) for tensor in self.tensors)


class HostBatches:
    """Batches from tensors that do not fit on the device: gathered on the host, then transferred.

    The tensors may be memory-mapped. Threads prefetch the examples of the next steps into pinned
    memory and transfer them on a separate stream while the device computes.

    Args:
        tensors: one row per example.
        order: the examples of each step.
        device: destination of the batches.
        steps: the step to stop before.
    """

    def __init__(self, tensors: Batch, order: Order, device: torch.device, steps: int) -> None:
        self.tensors = tensors
        self.order = order
        self.device = device
        self.steps = steps
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="batches")
        self._ahead: dict[int, Future[tuple[Batch, torch.cuda.Event | None]]] = {}
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def inputs(self, step: int) -> Batch:
        """Return the examples of a step, transferred to the device."""
        for later in range(step, min(step + PREFETCH, self.steps)):
            if later not in self._ahead:
                self._ahead[later] = self._threads.submit(self._gather, self.order.indices(later))
        rows, arrived = self._ahead.pop(step).result()
        if arrived is not None:
            now = torch.cuda.current_stream(self.device)
            now.wait_event(arrived)
            for row in rows:
                row.record_stream(now)
        return rows

    def batch(self, inputs: Batch) -> Batch:
        """Return the inputs, which are the batch."""
        return inputs

    def _gather(self, index: Tensor) -> tuple[Batch, torch.cuda.Event | None]:
        if self._stream is None:
            rows = tuple(tensor.index_select(0, index) for tensor in self.tensors)
            return _to_device(rows, self.device), None
        with torch.cuda.stream(self._stream):
            rows = _to_device([_pinned_rows(tensor, index) for tensor in self.tensors], self.device)
            return rows, self._stream.record_event()


def _pinned_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Gather rows directly into pinned memory, which the device can read."""
    rows = torch.empty(len(index), *tensor.shape[1:], dtype=tensor.dtype, pin_memory=True)
    return torch.index_select(tensor, 0, index, out=rows)


class LoadedBatches:
    """Batches from a ``Dataset`` through a ``DataLoader``, in the same order as from tensors.

    Args:
        dataset: data set with a length, whose items collate to tensors.
        order: the examples of each step.
        device: destination of the batches.
        workers: number of loader processes.
        first: the step to start with.
        steps: the step to stop before.
    """

    def __init__(
        self,
        dataset: Dataset[object],
        order: Order,
        device: torch.device,
        workers: int,
        first: int,
        steps: int,
    ) -> None:
        self.device = device
        self.next_step = first
        loader = DataLoader(
            _SeededExamples(dataset, order.seed),
            batch_sampler=_PositionSampler(order, first, steps),
            num_workers=workers,
            pin_memory=device.type == "cuda",
            generator=torch.Generator(),
        )
        self.loaded = iter(loader)

    def inputs(self, step: int) -> Batch:
        """Return the next examples; steps must be requested in order."""
        if step != self.next_step:
            remedy = "request steps in order"
            raise invalid("step", f"the next step, {self.next_step}", step, remedy)
        self.next_step += 1
        items = next(self.loaded)
        items = [items] if isinstance(items, Tensor) else items
        if not isinstance(items, Sequence) or not all(isinstance(item, Tensor) for item in items):
            remedy = "return a tensor or a tuple of tensors and numbers from __getitem__"
            raise invalid("data", "items that collate to tensors", type(items).__name__, remedy)
        return _to_device(items, self.device)

    def batch(self, inputs: Batch) -> Batch:
        """Return the inputs, which are the batch."""
        return inputs


class JoinedBatches:
    """Batches of several runs, stacked: tensors (runs, examples, ...).

    Args:
        runs: batches of each run, all of the same size.
    """

    def __init__(self, runs: Sequence[Batches]) -> None:
        self.runs = runs
        self._widths: list[int] = []

    def inputs(self, step: int) -> Batch:
        """Return the concatenated inputs of all runs."""
        parts = [run.inputs(step) for run in self.runs]
        self._widths = [len(part) for part in parts]
        return tuple(tensor for part in parts for tensor in part)

    def batch(self, inputs: Batch) -> Batch:
        """Return the stacked batches of all runs."""
        rest = iter(inputs)
        parts = [
            run.batch(tuple(next(rest) for _ in range(width)))
            for run, width in zip(self.runs, self._widths, strict=True)
        ]
        return tuple(torch.stack(tensors) for tensors in zip(*parts, strict=True))


class _PositionSampler:
    """Batch sampler: for each example its position in the run and its index in the data."""

    def __init__(self, order: Order, first: int, steps: int) -> None:
        self.order = order
        self.range = range(first, steps)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in self.range:
            yield list(enumerate(self.order.indices(step).tolist(), self.order.start(step)))

    def __len__(self) -> int:
        return len(self.range)


class _SeededExamples(Dataset[object]):
    """Data set that seeds random augmentation by the example's position in the run.

    Augmentation then depends neither on the number of loader processes nor on resumption.
    """

    def __init__(self, dataset: Dataset[object], seed: int) -> None:
        self.dataset = dataset
        self.seed = seed

    def __getitem__(self, place: tuple[int, int]) -> object:
        seed = example_seed(self.seed, place[0])
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 - it is the data set's choice, not ours
        return self.dataset[place[1]]


def _to_device(tensors: Sequence[Tensor], device: torch.device) -> Batch:
    return tuple(tensor.to(device, non_blocking=True) for tensor in tensors)
