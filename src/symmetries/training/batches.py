"""Which examples make up the batch of a step, and how they come to the device.

The examples of a run form one endless row: epoch after epoch, each a permutation drawn from
(seed, epoch). Step s takes the places s B to (s + 1) B - 1 of that row, so every example is seen
once per epoch, all batches have one size (a CUDA graph needs that), and a resumed run knows its
place from the step's number alone. With several processes, each takes its share of those B places.
"""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from symmetries._validation.checks import invalid
from symmetries.training.step import example_seed, order_seed

Batch = tuple[Tensor, ...]
AHEAD = 8  # steps gathered before they are needed
THREADS = 4  # that gather: one alone is slower than a GPU with a small network


@runtime_checkable
class Images(Protocol):
    """A set of images with or without labels, such as ``symmetries.data.ImageSet``."""

    @property
    def images(self) -> Tensor:
        """Images (N, C, H, W)."""

    @property
    def labels(self) -> Tensor | None:
        """Labels (N,)."""


Data = Batch | Images | Dataset[object]


class Order:
    """The examples of each step, as indices into the data.

    Args:
        examples: how many there are.
        batch_size: examples per step over all processes.
        seed: of the run.
        rank: number of this process.
        world: number of processes.
        device: where the indices are needed.

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
        self._epochs: dict[int, Tensor] = {}

    def start(self, step: int) -> int:
        """Place of this process's first example of a step in the row of all epochs."""
        return step * self.batch_size + self.rank * self.share

    def indices(self, step: int) -> Tensor:
        """Indices (share,) of this process's examples at a step."""
        epoch, offset = divmod(self.start(step), self.examples)
        piece = self._epoch(epoch)[offset : offset + self.share]
        if len(piece) == self.share:
            return piece
        pieces, missing = [piece], self.share - len(piece)
        while missing > 0:
            epoch += 1
            pieces.append(self._epoch(epoch)[:missing])
            missing -= len(pieces[-1])
        return torch.cat(pieces)

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._epochs:
            generator = torch.Generator().manual_seed(order_seed(self.seed, epoch))
            order = torch.randperm(self.examples, generator=generator)
            self._epochs = {key: self._epochs[key] for key in self._epochs if key == epoch - 1}
            self._epochs[epoch] = order if self.device is None else order.to(self.device)
        return self._epochs[epoch]


class Batches(Protocol):
    """Gives the batch of a step in two halves, of which the second can be part of a CUDA graph."""

    def inputs(self, step: int) -> Batch:
        """What changes from step to step, on the device; always of the same shapes."""

    def batch(self, inputs: Batch) -> Batch:
        """The batch that belongs to ``inputs``: device work only."""


class ResidentBatches:
    """Tensors that live on the device and are indexed there."""

    def __init__(self, tensors: Batch, order: Order) -> None:
        self.tensors = tensors
        self.order = order

    def inputs(self, step: int) -> Batch:
        """The indices of the step's examples."""
        return (self.order.indices(step),)

    def batch(self, inputs: Batch) -> Batch:
        """The examples themselves."""
        return tuple(tensor.index_select(0, inputs[0]) for tensor in self.tensors)


class HostBatches:
    """Tensors too large for the device, also memory-mapped: gathered on the host, then moved.

    Threads gather the examples of the next steps into pinned memory and send them on a stream of
    their own, while the device computes.

    Args:
        tensors: one row per example.
        order: which examples.
        device: where they go.
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
        """The examples of a step, moved to the device."""
        for later in range(step, min(step + AHEAD, self.steps)):
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
        """The inputs are the batch."""
        return inputs

    def _gather(self, index: Tensor) -> tuple[Batch, torch.cuda.Event | None]:
        if self._stream is None:
            rows = tuple(tensor.index_select(0, index) for tensor in self.tensors)
            return _to_device(rows, self.device), None
        with torch.cuda.stream(self._stream):
            rows = _to_device([_pinned_rows(tensor, index) for tensor in self.tensors], self.device)
            return rows, self._stream.record_event()


def _pinned_rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows gathered straight into memory that the device can read by itself."""
    rows = torch.empty(len(index), *tensor.shape[1:], dtype=tensor.dtype, pin_memory=True)
    return torch.index_select(tensor, 0, index, out=rows)


class LoadedBatches:
    """A ``Dataset`` behind a ``DataLoader``, in the same order as tensors would come.

    Args:
        dataset: with a length and items that collate to tensors.
        order: which examples.
        device: where they go.
        workers: loader processes.
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
            batch_sampler=_Places(order, first, steps),
            num_workers=workers,
            pin_memory=device.type == "cuda",
            generator=torch.Generator(),
        )
        self.loaded = iter(loader)

    def inputs(self, step: int) -> Batch:
        """The next examples; steps must be asked for in turn."""
        if step != self.next_step:
            raise invalid("step", f"the next step, {self.next_step}", step, "go step by step")
        self.next_step += 1
        items = next(self.loaded)
        items = [items] if isinstance(items, Tensor) else items
        if not isinstance(items, Sequence) or not all(isinstance(item, Tensor) for item in items):
            remedy = "return a tensor or a tuple of tensors and numbers from __getitem__"
            raise invalid("data", "items that collate to tensors", type(items).__name__, remedy)
        return _to_device(items, self.device)

    def batch(self, inputs: Batch) -> Batch:
        """The inputs are the batch."""
        return inputs


class JoinedBatches:
    """The batches of several runs side by side: tensors (runs, examples, ...).

    Args:
        runs: the batches of each; all of one size.
    """

    def __init__(self, runs: Sequence[Batches]) -> None:
        self.runs = runs
        self._widths: list[int] = []

    def inputs(self, step: int) -> Batch:
        """What each run needs, one after the other."""
        parts = [run.inputs(step) for run in self.runs]
        self._widths = [len(part) for part in parts]
        return tuple(tensor for part in parts for tensor in part)

    def batch(self, inputs: Batch) -> Batch:
        """The batches of all runs, stacked."""
        rest = iter(inputs)
        parts = [
            run.batch(tuple(next(rest) for _ in range(width)))
            for run, width in zip(self.runs, self._widths, strict=True)
        ]
        return tuple(torch.stack(tensors) for tensors in zip(*parts, strict=True))


class _Places:
    """Sampler of batches: for each example its place in the run and its index in the data."""

    def __init__(self, order: Order, first: int, steps: int) -> None:
        self.order = order
        self.range = range(first, steps)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in self.range:
            yield list(enumerate(self.order.indices(step).tolist(), self.order.start(step)))

    def __len__(self) -> int:
        return len(self.range)


class _SeededExamples(Dataset[object]):
    """A data set whose own random numbers (augmentation) belong to the example's place in the run.

    So they do not depend on how many loader processes there are, nor on where a run was resumed.
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
