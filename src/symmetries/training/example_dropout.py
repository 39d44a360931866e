"""Dropout with one mask per example, independent of the number of processes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


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
