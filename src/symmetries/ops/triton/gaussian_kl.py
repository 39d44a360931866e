r"""KL(N(mu, L L') || N(0, alpha I)) of every run as one kernel each way.

With e = tr S + mu'mu and D numbers in mu it is (D log alpha - log det S - D + e / alpha) / 2; an
alpha that is learned in closed form is e / D, and the gradients are the same.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024


@triton.jit
def _forward(
    mean, log_diagonal, below, prior, kl, alpha, D, LEARN: tl.constexpr, BLOCK: tl.constexpr
):
    run = tl.program_id(0)
    squares, logs = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    first = 0
    while first < D:
        d = first + tl.arange(0, BLOCK)
        m = tl.load(mean + run * D + d, mask=d < D, other=0.0)
        s = tl.load(log_diagonal + run * D + d, mask=d < D, other=0.0)
        squares += m * m + tl.where(d < D, tl.exp(2.0 * s), 0.0)
        logs += s
        first += BLOCK
    energy = tl.sum(squares, 0) + tl.load(below + run)
    a = energy / D if LEARN else tl.load(prior + run)
    tl.store(alpha + run, a)
    tl.store(kl + run, 0.5 * (D * tl.log(a) - D + energy / a) - tl.sum(logs, 0))


@triton.jit
def _backward(mean, log_diagonal, alpha, grad, to_mean, to_log, to_below, D, BLOCK: tl.constexpr):
    run = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at, inside = run * D + d, d < D
    g = tl.load(grad + run)
    share = g / tl.load(alpha + run)
    tl.store(to_mean + at, share * tl.load(mean + at, mask=inside, other=0.0), mask=inside)
    square = tl.exp(2.0 * tl.load(log_diagonal + at, mask=inside, other=0.0))
    tl.store(to_log + at, share * square - g, mask=inside)
    if tl.program_id(1) == 0:
        tl.store(to_below + run, 0.5 * share)


class FusedKL(torch.autograd.Function):
    """The KL (R,) of posteriors with means and log-diagonals (R, outputs, D)."""

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        log_diagonal: Tensor,
        below: Tensor,
        prior_variance: Tensor,
        learn_prior: bool,
    ) -> Tensor:
        """``below`` (R,): sums of squares of the factors below their diagonals."""
        mean, log_diagonal = mean.contiguous(), log_diagonal.contiguous()
        kl, alpha = torch.empty_like(below), torch.empty_like(below)
        dim = mean[0].numel()
        _forward[(len(mean),)](
            mean, log_diagonal, below.contiguous(), prior_variance, kl, alpha, dim, learn_prior,
            BLOCK, num_warps=8,
        )  # fmt: skip
        ctx.save_for_backward(mean, log_diagonal, alpha)
        return kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Gradients to means, log-diagonals and sums of squares."""
        mean, log_diagonal, alpha = ctx.saved_tensors
        out = [torch.empty_like(t) for t in (mean, log_diagonal, alpha)]
        dim = mean[0].numel()
        _backward[(len(mean), triton.cdiv(dim, BLOCK))](
            mean, log_diagonal, alpha, grad.contiguous(), *out, dim, BLOCK
        )
        return out[0], out[1], out[2], None, None
