"""Adam on lower triangles: what is above the diagonal is zero, and neither read nor moved."""

import math

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _adam(
    weight, grad, first, second, step, rate, D, log1, log2, beta1, beta2, eps, BLOCK: tl.constexpr
):
    """One row: what is below the diagonal moves, the rest is not read."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    below = j < row % D
    at = row * D + j
    t = tl.load(step)
    g = tl.load(grad + at, mask=below, other=0.0)
    m = tl.load(first + at, mask=below, other=0.0)
    v = tl.load(second + at, mask=below, other=0.0)
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    size = tl.load(rate) / (1.0 - tl.exp(t * log1))
    root = tl.sqrt(v) / tl.sqrt(1.0 - tl.exp(t * log2)) + eps
    w = tl.load(weight + at, mask=below, other=0.0) - size * m / root
    tl.store(weight + at, w, mask=below)
    tl.store(first + at, m, mask=below)
    tl.store(second + at, v, mask=below)


def adam_below_(
    weight: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    step: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """A step of Adam (Kingma and Ba 2014) in place, strictly below the diagonals.

    Args:
        weight: (..., D, D).
        grad: of the same shape.
        moments: averages of the gradient and of its square.
        step: its number, from 1, as a tensor.
        rate: as a tensor.
        betas: of the averages.
        eps: added to the root.
    """
    dim = weight.shape[-1]
    logs = (math.log(beta) if beta else -math.inf for beta in betas)
    _adam[(weight.numel() // dim,)](
        weight, grad.contiguous(), *moments, step, rate, dim, *logs, *betas, eps,
        triton.next_power_of_2(dim),
    )  # fmt: skip
