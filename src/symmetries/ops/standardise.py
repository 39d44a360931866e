"""(x - mean) / scale with both numbers on the device, rounded on the way out: one pass."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


@triton.jit
def _forward(x, mean, scale, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = (tl.load(x + i, mask=i < n, other=0.0) - tl.load(mean)) * (1.0 / tl.load(scale))
    tl.store(out + i, value.to(out.dtype.element_ty), mask=i < n)


class KernelStandardise(torch.autograd.Function):
    """Standardised x, of another type; mean and scale (without axes) are constants."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
        """Like x (...)."""
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=dtype, device=x.device)
        _forward[(triton.cdiv(x.numel(), _BLOCK),)](x, mean, scale, out, x.numel(), _BLOCK)
        ctx.save_for_backward(scale)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient to x."""
        (scale,) = ctx.saved_tensors
        return grad.to(scale.dtype) / scale, None, None, None
