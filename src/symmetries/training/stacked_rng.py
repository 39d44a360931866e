"""Random numbers by model and by example: each draws those of its own run, also in dropout."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from symmetries.training.step import Steps

Call = Callable[..., Tensor]


class StackedRng(TorchFunctionMode):
    """While active inside ``torch.vmap``, random functions give each model its own numbers.

    Draws with the step's generator use the generator of the model's own run; draws without one,
    such as dropout's, use its substitute for the global generator. Any other generator gives all
    models the same numbers. Methods that fill a tensor (``x.normal_()``) are refused by vmap, and
    requests for the channels-last layout are ignored. On CUDA, dropout's masks differ from those
    of torch's own GPU kernel but have the same distribution.

    Args:
        step: holds the generators of all runs.
        member: index of the model, over which ``vmap`` maps.
    """

    def __init__(self, step: Steps, member: Tensor) -> None:
        super().__init__()
        self.step = step
        self.member = member

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what func returns
        """Replace functions that draw random numbers."""
        options = dict(kwargs or {})
        if func is F.dropout:
            return self._dropout(*args, **options)
        if func in LAYOUTS and options.get("memory_format") is torch.channels_last:
            del options["memory_format"]  # only a layout, which vmap does not support
            return func(*args, **options) if len(args) + len(options) > 1 else args[0]
        if func not in DRAWS:
            return func(*args, **options)
        given: torch.Generator | None = options.pop("generator", None)
        own = given is None or given is self.step.generator
        sources = self.step.layers if given is None else self.step.generators
        state = None if own else given.get_state()  # type: ignore[union-attr]
        tensors = [part for part in args if isinstance(part, Tensor)]

        def draw(member: int, *parts: Tensor) -> Tensor:
            if state is not None:
                given.set_state(state)  # type: ignore[union-attr]
            rest = iter(parts)
            filled = [next(rest) if isinstance(part, Tensor) else part for part in args]
            source = sources[member] if own else given
            return DRAWS[func](*filled, generator=source, **options)

        return _EachMember.apply(self.member, draw, *tensors)  # type: ignore[no-untyped-call]

    def _dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        """Like ``torch.nn.functional.dropout``, with masks per model."""
        if not training or p == 0.0:
            return input

        def draw(member: int, x: Tensor) -> Tensor:
            mask = torch.empty_like(x).bernoulli_(1 - p, generator=self.step.layers[member])
            return mask.div_(1 - p)

        mask: Tensor = _EachMember.apply(self.member, draw, input.detach())  # type: ignore[no-untyped-call]
        return input * mask


class _EachMember(torch.autograd.Function):
    """A function of a model's index and its tensors, called for each model in turn."""

    @staticmethod
    def forward(member: Tensor, call: Call, *tensors: Tensor) -> Tensor:
        return call(int(member), *tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401 - of torch
        in_dims: tuple[int | None, ...],
        member: Tensor,
        call: Call,
        *tensors: Tensor,
    ) -> tuple[Tensor, int]:
        axes = in_dims[2:]
        parts = []
        for r in range(info.batch_size):
            own = [t if d is None else t.select(d, r) for t, d in zip(tensors, axes, strict=True)]
            parts.append(call(r, *own))
        return torch.stack(parts), 0


def _like(kind: Call) -> Call:
    """Return ``rand_like`` or similar with a generator, which not all versions of torch accept."""

    def draw(x: Tensor, *, generator: torch.Generator, **options: Any) -> Tensor:  # noqa: ANN401
        options = {"dtype": x.dtype, "device": x.device, **options}
        return kind(x.shape, generator=generator, **options)

    return draw


LAYOUTS = (torch.Tensor.to, torch.Tensor.contiguous)
DRAWS: dict[Callable[..., Any], Call] = {
    torch.rand: torch.rand,
    torch.randn: torch.randn,
    torch.randint: torch.randint,
    torch.randperm: torch.randperm,
    torch.normal: torch.normal,
    torch.bernoulli: torch.bernoulli,
    torch.multinomial: torch.multinomial,
    torch.rand_like: _like(torch.rand),
    torch.randn_like: _like(torch.randn),
}


class DropoutByRows(TorchFunctionMode):
    """While active, ``dropout`` draws masks for the rows of all processes and keeps its own.

    The first axis must run over the examples, in order (an example may have several adjacent rows).
    It is needed only with several processes.

    Args:
        rank: index of this process.
        world: number of processes.
    """

    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.rank = rank
        self.world = world

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what func returns
        """Replace dropout, and call all other functions unchanged."""
        if func is F.dropout:
            return self.dropout(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        """Like ``torch.nn.functional.dropout``, with masks per example."""
        if not training or p == 0.0 or input.ndim == 0:
            return torch.dropout(input, p, training)
        rows = len(input)
        every = torch.ones_like(input).repeat(self.world, *[1] * (input.ndim - 1))
        _, kept = torch.native_dropout(every, p, True)
        mask = kept[rows * self.rank : rows * (self.rank + 1)]
        return input * mask / (1 - p)
