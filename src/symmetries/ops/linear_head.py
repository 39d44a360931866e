"""A linear layer with few outputs, in full precision, on hidden units that may be rounded."""

import torch
from torch import Tensor, nn

from symmetries.ops._dispatch import usable

_DTYPES = (torch.float32, torch.bfloat16)


def linear_head(x: Tensor, linear: nn.Linear) -> Tensor:
    """W x + b in the weights' precision, of hidden units that may be rounded to bfloat16.

    Args:
        x: (N, inputs).
        linear: W and b, of a few outputs.

    Returns:
        (N, outputs).

    Example:
        >>> linear_head(torch.randn(5, 8, dtype=torch.bfloat16), nn.Linear(8, 3)).dtype
        torch.float32
    """
    weight, bias = linear.weight, linear.bias
    takes = bias is not None and usable("head", weight, bias)
    if takes and usable("head", x, dtypes=_DTYPES) and x.ndim == 2:
        from symmetries.ops.triton.linear_head import KernelHead, suits

        if suits(x, weight):
            made: Tensor = KernelHead.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            return made
    out: Tensor = linear(x.to(weight.dtype))
    return out
