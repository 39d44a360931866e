"""Lower triangles in one pass: what is below the diagonal of two matrices added, zero above."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add(grad, lower, factor, D, per_run, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    below = j < row % D
    scale = tl.load(factor + row // D // per_run)
    value = tl.load(grad + row * D + j, mask=below, other=0.0)
    value += scale * tl.load(lower + row * D + j, mask=below, other=0.0)
    tl.store(grad + row * D + j, value, mask=j < D)


def add_below_(grad: Tensor, lower: Tensor, factor: Tensor) -> Tensor:
    """In place: grad + factor times lower strictly below the diagonal, 0 elsewhere.

    Args:
        grad: (R, outputs, D, D).
        lower: the same shape.
        factor: (R,).
    """
    dim = grad.shape[-1]
    rows = grad.numel() // dim
    block = triton.next_power_of_2(dim)
    _add[(rows,)](grad, lower.contiguous(), factor.contiguous(), dim, grad.shape[1], block)
    return grad
