"""Linear layers of a few outputs: one kernel forward, and one backward with sums for the weights.

Libraries of matrix products are made for wide ones: ten outputs take them longer than the hidden
layer before, and they want rounded inputs widened first.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.triton.sums import column_sums

MOST_OUTPUTS, MOST_INPUTS = 16, 512
_ROWS, _WARPS = 32, 4


def suits(x: Tensor, weight: Tensor) -> bool:
    """Whether the layer is narrow, and places in its rows are numbers of 32 bits."""
    outputs, width = weight.shape
    narrow = outputs <= MOST_OUTPUTS and width <= MOST_INPUTS
    return narrow and len(x) * max(outputs, width) < 2**31


@triton.jit
def _tiles(
    x, weight, rows, width, outputs, ROWS: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr
):
    """Inputs (ROWS, BLOCK) and weights (OUT, BLOCK), and where they are."""
    row, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    out = tl.arange(0, OUT)
    inside = columns < width
    at = row[:, None] * width + columns[None, :]
    there = (row < rows)[:, None] & inside[None, :]
    a = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    place = out[:, None] * width + columns[None, :]
    known = (out < outputs)[:, None] & inside[None, :]
    return row, out, at, there, a, place, known, tl.load(weight + place, mask=known, other=0.0)


@triton.jit
def _head_forward(
    x, weight, bias, result, rows, width, outputs, ROWS: tl.constexpr, OUT: tl.constexpr,
    BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, out, _at, _there, a, _place, _known, w = _tiles(
        x, weight, rows, width, outputs, ROWS, OUT, BLOCK
    )
    y = tl.dot(a, tl.trans(w), input_precision=PRECISION)
    y += tl.load(bias + out, mask=out < outputs, other=0.0)[None, :]
    keep = (row < rows)[:, None] & (out < outputs)[None, :]
    tl.store(result + row[:, None] * outputs + out[None, :], y, mask=keep)


@triton.jit
def _head_backward(
    x, weight, grad, grad_x, partial, rows, width, outputs, ROWS: tl.constexpr,
    OUT: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, out, at, there, a, place, known, w = _tiles(
        x, weight, rows, width, outputs, ROWS, OUT, BLOCK
    )
    keep = (row < rows)[:, None] & (out < outputs)[None, :]
    g = tl.load(grad + row[:, None] * outputs + out[None, :], mask=keep, other=0.0)
    to_x = tl.dot(g, w, input_precision=PRECISION)
    tl.store(grad_x + at, to_x.to(grad_x.dtype.element_ty), mask=there)
    partial += tl.program_id(0) * outputs * (width + 1)
    tl.store(partial + place, tl.dot(tl.trans(g), a, input_precision=PRECISION), mask=known)
    tl.store(partial + outputs * width + out, tl.sum(g, 0), mask=out < outputs)


def _launch(x: Tensor, weight: Tensor) -> tuple[tuple[int], tuple[int, ...], str]:
    outputs, width = weight.shape
    block = max(16, triton.next_power_of_2(width))
    exact = torch.get_float32_matmul_precision() == "highest"
    sizes = (len(x), width, outputs, _ROWS, MOST_OUTPUTS, block)
    return (triton.cdiv(len(x), _ROWS),), sizes, "ieee" if exact else "tf32"


class KernelHead(torch.autograd.Function):
    """x W^T + b in float32, of x (N, width) in float32 or bfloat16, W (outputs, width) and b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(N, outputs)."""
        ctx.save_for_backward(x, weight)
        grid, sizes, precision = _launch(x, weight)
        out = torch.empty(len(x), len(weight), dtype=torch.float32, device=x.device)
        _head_forward[grid](
            x.contiguous(), weight.contiguous(), bias, out, *sizes, precision, num_warps=_WARPS
        )
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients to all three."""
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            return (grad @ weight).to(x.dtype), grad.T @ x.to(grad.dtype), grad.sum(0)
        grid, sizes, precision = _launch(x, weight)
        x, grad_x = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
        partial = torch.empty(grid[0], weight.numel() + len(weight), device=x.device)
        _head_backward[grid](
            x, weight.contiguous(), grad.contiguous(), grad_x, partial, *sizes, precision,
            num_warps=_WARPS,
        )  # fmt: skip
        sums = column_sums(partial)
        return grad_x, sums[: weight.numel()].view(weight.shape), sums[weight.numel() :]
