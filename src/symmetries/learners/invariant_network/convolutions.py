"""Convolutions as products of matrices, for gradients of several models or examples at once.

``torch.vmap`` makes grouped convolutions of several that have filters or gradients of their own.
GPU libraries compute their gradients slowly; batched products of matrices are fast.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

LARGEST = 2**27  # numbers in the patches of all models and examples, at most


def convolutions_as_products(device: torch.device) -> AbstractContextManager[Any]:
    """Return the context below on a GPU; on a CPU convolutions are faster as they are."""
    return ConvolutionsAsProducts() if device.type == "cuda" else nullcontext()


class ConvolutionsAsProducts(TorchFunctionMode):
    """While active inside transforms of ``torch.func``, convolutions are products of matrices.

    Those with groups, dilations or named paddings, and those whose patches would not be small, are
    left as they are.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what func returns
        """Replace convolutions, and call all other functions unchanged."""
        if func is F.conv2d:
            return self._conv2d(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _conv2d(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
    ) -> Tensor:
        plain = groups == 1 and dilation in (1, (1, 1)) and not isinstance(padding, str)
        if plain and input.ndim == 4 and torch._C._are_functorch_transforms_active():
            steps = (stride, stride) if isinstance(stride, int) else stride
            patches = _plain(input).numel() * weight[0, 0].numel() / math.prod(steps)
            if patches <= LARGEST:
                edges = (padding, padding) if isinstance(padding, int) else padding
                return conv2d_by_products(input, weight, bias, steps, edges)  # type: ignore[arg-type]
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv2d_by_products(
    images: Tensor,
    filters: Tensor,
    bias: Tensor | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> Tensor:
    """Return the convolution (N, O, H', W'), by a product with all patches of the images.

    Args:
        images: (N, C, H, W).
        filters: (O, C, h, w).
        bias: (O,) or None.
        stride: along the height and the width.
        padding: with zeros, on both sides of the height and of the width.

    Example:
        >>> x, w, b = torch.rand(6, 3, 8, 8), torch.rand(4, 3, 3, 3), torch.rand(4)
        >>> found = conv2d_by_products(x, w, b, (2, 2), (1, 1))
        >>> bool((found - F.conv2d(x, w, b, 2, 1)).abs().max() < 1e-5)
        True
    """
    count, channels = images.shape[:2]
    high, wide = filters.shape[2:]
    padded = F.pad(images, (padding[1], padding[1], padding[0], padding[0]))
    across = padded.shape[-1]
    rows = (padded.shape[-2] - high) // stride[0] + 1
    columns = (across - wide) // stride[1] + 1
    pixels = _grid(high, wide, across, 1, images.device)
    corners = _grid(rows, columns, stride[0] * across, stride[1], images.device)
    places = (pixels[:, None] + corners).flatten()
    patches = padded.flatten(2).index_select(2, places)
    patches = patches.reshape(count, channels * len(pixels), len(corners))
    found: Tensor = filters.flatten(1).expand(count, -1, -1).bmm(patches)
    found = found if bias is None else found + bias[:, None]
    return found.unflatten(2, (rows, columns))


def _grid(rows: int, columns: int, down: int, across: int, device: torch.device) -> Tensor:
    """Return positions of rows and columns in a flattened image."""
    first = torch.arange(rows, device=device) * down
    return (first[:, None] + torch.arange(columns, device=device) * across).flatten()


def _plain(tensor: Tensor) -> Tensor:
    """Return the tensor that transforms of torch.func hide, with all their axes."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
