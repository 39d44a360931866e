"""Rules for ``torch.vmap``: the axis over several models is folded into another axis.

Kernels read memory, and vmap's tensors hide it. But what a kernel does to one image or matrix it
does to any number of them, so the models' axis may be one more of those: one launch serves all.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symmetries.ops._dispatch import usable

Function = Callable[..., Any]


def foldable(
    operation: str, *tensors: Tensor, dtypes: tuple[torch.dtype, ...] = (torch.float32,)
) -> bool:
    """Return whether vmap hides tensors, of one level, that the fused form could take.

    Args:
        operation: a name from ``OPERATIONS`` of :mod:`symmetries.ops`.
        tensors: that the kernels read.
        dtypes: that the kernels support.
    """
    if not torch._C._are_functorch_transforms_active():
        return False
    hidden = [torch._C._functorch.is_batchedtensor(tensor) for tensor in tensors]
    inner = [
        torch._C._functorch.get_unwrapped(tensor) if wrapped else tensor
        for tensor, wrapped in zip(tensors, hidden, strict=True)
    ]
    return any(hidden) and usable(operation, *inner, dtypes=dtypes)


def fold(function: Function, *tensors: Tensor, axes: tuple[int, ...] | None = None) -> Any:
    """Return ``function(*tensors)`` under vmap, with one call for all models.

    Args:
        function: of tensors, to one or several.
        tensors: at least one of them hidden by vmap.
        axes: of each tensor, the axis along which the function treats rows alike; the results
            have it first. None: the function takes any leading axes.

    Example:
        >>> calls = []
        >>> def square(x):
        ...     calls.append(x.shape)
        ...     return x * x
        >>> torch.vmap(lambda x: fold(square, x, axes=(0,)))(torch.ones(3, 2)).shape, calls
        (torch.Size([3, 2]), [torch.Size([6])])
    """
    return _Folded.apply(function, axes, *tensors)  # type: ignore[no-untyped-call]


class _Folded(torch.autograd.Function):
    """A vmap rule without a gradient of its own: the called function provides the gradients."""

    @staticmethod
    def forward(function: Function, axes: tuple[int, ...] | None, *tensors: Tensor) -> Any:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save nothing."""

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        function: Function,
        axes: tuple[int, ...] | None,
        *tensors: Tensor,
    ) -> tuple[Any, Any]:
        models = info.batch_size
        stacked = []
        for tensor, where in zip(tensors, in_dims[2:], strict=True):
            if where is None:  # the same for all models
                stacked.append(tensor.expand(models, *tensor.shape))
            else:
                stacked.append(tensor.movedim(where, 0))
        if axes is not None:
            stacked = [
                tensor.movedim(0, axis).flatten(axis, axis + 1)
                for tensor, axis in zip(stacked, axes, strict=True)
            ]
        out = function(*stacked)
        if axes is not None:
            several = isinstance(out, tuple)
            parts = out if several else (out,)
            parts = tuple(part.unflatten(0, (models, -1)) for part in parts)
            out = parts if several else parts[0]
        return out, (0,) * len(out) if isinstance(out, tuple) else 0
