"""Work beside the main line of a step, on streams of its own: branches of its CUDA graph.

A step of small kernels is one long chain, of which each fills a part of the GPU. What nobody waits
for soon (gradients of weights), and what is known early (rounded weights, what dropout leaves),
need not be in it.

Memory stays in order by two rules: work on a branch begins after all that was launched before it,
and what it reads lives until the main line has waited for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn

from symmetries.ops.adam import has_kernel, round_all
from symmetries.ops.available import usable

T = TypeVar("T")
_URGENT, _PATIENT = -1, 0  # priorities; a graph's main line is urgent


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, ...]:
    """One for what the main line will wait for, two for what it need not."""
    priorities = (_URGENT, _PATIENT, _PATIENT)
    return tuple(torch.cuda.Stream(device, priority) for priority in priorities)


class RoundedWeights:
    """Copies in bfloat16 of weights that do not change while this lives.

    (If they do all the same, the copies are made anew; but not in a CUDA graph.)

    Args:
        module: whose they are.
    """

    def __init__(self, module: nn.Module) -> None:
        self.own = {id(weight): weight for weight in module.parameters()}
        self._made: dict[int, tuple[int, int, Tensor]] = {}

    def of(self, weight: Tensor) -> Tensor | None:
        """The copy, None for other modules' weights."""
        if id(weight) not in self.own:
            return None
        version, place, copy = self._made.get(id(weight), (-1, 0, weight))
        if (version, place) != (weight._version, weight.data_ptr()):
            copy = weight.detach().to(torch.bfloat16)
            self._made[id(weight)] = (weight._version, weight.data_ptr(), copy)
        return copy


class Branches:
    """Of one loss, in which every weight is used once, and its gradient is not added to another.

    Args:
        device: of the loss; away from CUDA everything runs where it is called.
        frozen: rounded weights that are known already.
    """

    def __init__(self, device: torch.device, frozen: RoundedWeights | None = None) -> None:
        self.device = device
        self._streams = _streams(device) if device.type == "cuda" else None
        self._frozen = frozen
        self._kept: list[Sequence[Tensor]] = []
        self._made: dict[int, tuple[Tensor, torch.cuda.Event | None]] = {}
        self._used: set[int] = set()
        self._turn = 0
        self._waiting = False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Work that goes on beside the main line, until they :meth:`meet`."""
        with self._on(0):
            yield

    def meet(self) -> None:
        """Let the current stream wait for what was done apart."""
        if self._streams is not None and 0 in self._used:
            torch.cuda.current_stream(self.device).wait_stream(self._streams[0])

    @contextmanager
    def _on(self, which: int) -> Iterator[None]:
        if self._streams is None:
            yield
            return
        stream = self._streams[which]
        self._used.add(which)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        """Let the current stream wait for all branches that were used (others are not captured)."""
        if self._streams is not None:
            for which in self._used:
                torch.cuda.current_stream(self.device).wait_stream(self._streams[which])
        self._kept.clear()
        self._waiting = False

    def ahead(self, work: Callable[[], Sequence[Tensor]], *owners: object) -> None:
        """Do work before it is needed: one tensor for each owner, see :meth:`made_for`."""
        with self._on(1):
            made = work()
            event = None if self._streams is None else self._streams[1].record_event()
        for owner, tensor in zip(owners, made, strict=True):
            self._made[id(owner)] = (tensor, event)

    def round_ahead(self, weights: Sequence[Tensor]) -> None:
        """Round weights to bfloat16."""
        if weights:
            self.ahead(lambda: rounded_copies(weights), *weights)

    def drop_ahead(self, modules: Mapping[nn.Module, tuple[int, int, float]]) -> None:
        """Draw what dropout leaves, for modules that drop a share of the units of a matrix.

        Args:
            modules: rows and columns of the matrices, and the shares; what is made is 0 where
                units are dropped.
        """
        if modules:
            self.ahead(lambda: left_by_dropout([*modules.values()], self.device), *modules)

    def made_for(self, owner: object) -> Tensor | None:
        """What was made ahead, if anything was; the current stream waits for it."""
        tensor, event = self._made.get(id(owner), (None, None))
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        return tensor

    def rounded(self, weight: Tensor) -> Tensor | None:
        """A weight in bfloat16, if that is known."""
        known = None if self._frozen is None else self._frozen.of(weight)
        return self.made_for(weight) if known is None else known

    def later(self, work: Callable[[], T], *reads: Tensor) -> T:
        """In a backward pass: do work whose results nobody needs before its end."""
        if self._streams is not None and not self._waiting:
            self._waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self.join)
        self._kept.append(reads)
        self._turn = 1 - self._turn
        with self._on(1 + self._turn):
            return work()


def rounded_copies(weights: Sequence[Tensor]) -> list[Tensor]:
    """Weights in bfloat16."""
    if has_kernel(weights):
        return round_all(weights)
    return [weight.detach().to(torch.bfloat16) for weight in weights]


def left_by_dropout(sizes: Sequence[tuple[int, int, float]], device: torch.device) -> list[Tensor]:
    """Matrices of ones (uint8), with zeros in the places of a share of them.

    Args:
        sizes: rows, columns and the share.
        device: of the matrices.
    """
    shares = sorted({share for _, _, share in sizes})
    seeds = torch.randint(2**63 - 1, (len(shares),), device=device)
    if not usable(seeds, dtypes=(torch.int64,)):
        place = {"dtype": torch.uint8, "device": device}
        return [torch.empty(r, c, **place).bernoulli_(1 - p) for r, c, p in sizes]  # type: ignore[call-overload]
    from symmetries.ops.dropout import draw_kept

    found: dict[int, Tensor] = {}
    for seed, share in zip(seeds, shares, strict=True):
        some = [i for i, (_, _, p) in enumerate(sizes) if p == share]
        found |= zip(some, draw_kept(seed, [sizes[i][:2] for i in some], share), strict=True)
    return [found[i] for i in range(len(sizes))]


_current: ContextVar[Branches | None] = ContextVar("branches", default=None)


def current_branches() -> Branches | None:
    """Those of the loss that is being computed."""
    return None if torch.compiler.is_compiling() else _current.get()


@contextmanager
def branches(
    device: torch.device, wanted: bool = True, frozen: RoundedWeights | None = None
) -> Iterator[Branches | None]:
    """Let the functions inside use branches, where that is worth while: on CUDA."""
    if not (wanted and device.type == "cuda"):
        yield None
        return
    made = Branches(device, frozen)
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        made.join()


def later_if_alone(
    made: Branches | None, weights: Sequence[Tensor | None], work: Callable[[], T], *reads: Tensor
) -> T:
    """Work that gives gradients to weights: on a branch if nobody looks at these before its end."""
    if made is None or torch.is_anomaly_enabled() or not all(map(_unwatched, weights)):
        return work()
    return made.later(work, *reads)


def _unwatched(weight: Tensor | None) -> bool:
    """Whether a gradient will just be kept: not handed on, nor added to one, nor shown to hooks."""
    if weight is None or not weight.requires_grad:
        return True
    hooks = weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None)
    return weight.is_leaf and weight.grad is None and not hooks
