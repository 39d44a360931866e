"""Work beside the main line of a step, on streams of its own: branches of its CUDA graph.

A step of small kernels is one long chain, of which each fills a part of the GPU. What nobody waits
for soon (gradients of weights), and what is known early (rounded weights, what dropout leaves),
need not be in it.

Memory stays in order by two rules: work on a branch begins after all that was launched before it,
and what it reads lives until the main line has waited for it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

T = TypeVar("T")


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


class Branches:
    """Of one loss, in which every weight is used once, and its gradient is not added to another.

    Args:
        device: of the loss; away from CUDA everything runs where it is called.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._streams = _streams(device) if device.type == "cuda" else None
        self._kept: list[Sequence[Tensor]] = []
        self._rounded: dict[int, Tensor] = {}
        self._masks: dict[int, Tensor] = {}
        self._ready: torch.cuda.Event | None = None
        self._waiting = False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Work that goes on beside the main line, and is waited for in the end."""
        with self._on(0):
            yield

    @contextmanager
    def _on(self, which: int) -> Iterator[None]:
        if self._streams is None:
            yield
            return
        stream = self._streams[which]
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        """Let the current stream wait for all branches."""
        for stream in self._streams or ():
            torch.cuda.current_stream(stream.device).wait_stream(stream)
        self._kept.clear()
        self._waiting = False

    def meet(self) -> None:
        """Let the current stream wait for what was done apart."""
        if self._streams is not None:
            stream = self._streams[0]
            torch.cuda.current_stream(stream.device).wait_stream(stream)

    def ahead(
        self, weights: Sequence[Tensor], drops: Sequence[tuple[nn.Module, int, int, float]]
    ) -> None:
        """Round weights to bfloat16, and draw what dropout leaves, before they are needed.

        Args:
            weights: float32.
            drops: for each module that drops units, rows, columns, and the probability.
        """
        with self._on(1):
            copies = [torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights]
            if copies:
                torch._foreach_copy_(copies, [weight.detach() for weight in weights])
            self._rounded = {w.data_ptr(): c for w, c in zip(weights, copies, strict=True)}
            for module, rows, columns, p in drops:
                ones = torch.ones(rows, columns, dtype=torch.bfloat16, device=self.device)
                self._masks[id(module)] = F.dropout(ones, p)
            if self._streams is not None:
                self._ready = self._streams[1].record_event()

    def rounded(self, weight: Tensor) -> Tensor | None:
        """The weight in bfloat16, if that was done ahead."""
        return self._made(self._rounded.get(weight.data_ptr()))

    def mask(self, module: nn.Module) -> Tensor | None:
        """What dropout leaves, if that was drawn ahead: 0 where a unit is dropped."""
        return self._made(self._masks.get(id(module)))

    def _made(self, tensor: Tensor | None) -> Tensor | None:
        """Let the current stream wait for it."""
        if tensor is not None and self._ready is not None:
            torch.cuda.current_stream(tensor.device).wait_event(self._ready)
        return tensor

    def later(self, work: Callable[[], T], *reads: Tensor) -> T:
        """In a backward pass: do work whose results nobody needs before its end."""
        if self._streams is not None and not self._waiting:
            self._waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self.join)
        self._kept.append(reads)
        with self._on(1):
            return work()


_current: ContextVar[Branches | None] = ContextVar("branches", default=None)


def current_branches() -> Branches | None:
    """Those of the loss that is being computed."""
    return _current.get()


@contextmanager
def branches(device: torch.device, wanted: bool = True) -> Iterator[Branches | None]:
    """Let the functions inside use branches, where that is worth while: on CUDA."""
    if not (wanted and device.type == "cuda"):
        yield None
        return
    made = Branches(device)
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        made.join()


def later_if_alone(
    made: Branches | None, weights: Sequence[Tensor | None], work: Callable[[], T], *reads: Tensor
) -> T:
    """Work that gives gradients to weights: on a branch if there is one and they have none yet."""
    if made is None or any(w is not None and w.grad is not None for w in weights):
        return work()
    return made.later(work, *reads)
