"""The mean over transformations of a function of responses, as one kernel each way.

Responses are read once forward and once backward; nothing else of their size is stored.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

FUNCTIONS = {"cos": 0, "relu": 1}
BLOCK = 128  # units of a program: small, so that a small batch fills the device
TOGETHER = 8  # transformations that are read at the same time


@triton.jit
def _forward(
    responses, bias, out, slope, B, U, run_step, sample_step, row_step, bias_step, S, scale,
    TOGETHER: tl.constexpr, KIND: tl.constexpr, SLOPE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r, b = tl.program_id(0) // B, tl.program_id(0) % B
    u = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offset = tl.load(bias + r * bias_step + u, mask=u < U, other=0.0)[None, :]
    start = responses + r.to(tl.int64) * run_step + b.to(tl.int64) * row_step
    total = tl.zeros([TOGETHER, BLOCK], tl.float32)
    slopes = tl.zeros([TOGETHER, BLOCK], tl.float32)
    for first in range(0, S, TOGETHER):
        s = first + tl.arange(0, TOGETHER)
        keep = (s < S)[:, None] & (u < U)[None, :]
        at = start + s.to(tl.int64)[:, None] * sample_step + u[None, :]
        value = tl.load(at, mask=keep, other=0.0) + offset
        if KIND == 0:
            total += tl.where(keep, tl.cos(value), 0.0)
            if SLOPE:
                slopes -= tl.where(keep, tl.sin(value), 0.0)
        else:
            total += tl.where(keep, tl.maximum(value, 0.0), 0.0)
            if SLOPE:
                slopes += tl.where(keep & (value > 0.0), 1.0, 0.0)
    goal = tl.program_id(0).to(tl.int64) * U + u
    tl.store(out + goal, tl.sum(total, 0) * (scale / S), mask=u < U)
    if SLOPE:
        tl.store(slope + goal, tl.sum(slopes, 0) * (scale / S), mask=u < U)


@triton.jit
def _backward(
    responses, bias, grad, out, B, U, run_step, sample_step, row_step, bias_step, S, scale,
    TOGETHER: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r, b = tl.program_id(0) // B, tl.program_id(0) % B
    u = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offset = tl.load(bias + r * bias_step + u, mask=u < U, other=0.0)[None, :]
    g = tl.load(grad + tl.program_id(0).to(tl.int64) * U + u, mask=u < U, other=0.0)[None, :]
    g *= scale / S
    start = r.to(tl.int64) * run_step + b.to(tl.int64) * row_step
    for first in range(0, S, TOGETHER):
        s = first + tl.arange(0, TOGETHER)
        keep = (s < S)[:, None] & (u < U)[None, :]
        at = start + s.to(tl.int64)[:, None] * sample_step + u[None, :]
        value = tl.load(responses + at, mask=keep, other=0.0) + offset
        slope = -tl.sin(value) if KIND == 0 else tl.where(value > 0.0, 1.0, 0.0)
        tl.store(out + at, slope * g, mask=keep)


class FusedOrbitMean(torch.autograd.Function):
    """Mean over s of scale f(responses[:, s] + bias): (R, S, B, U), (R or 1, U) to (R, B, U)."""

    @staticmethod
    def forward(
        ctx: Any, responses: Tensor, bias: Tensor, function: str, scale: float = 1.0
    ) -> Tensor:
        """The means; responses may be any view whose last axis is dense."""
        runs, samples, batch, units = responses.shape
        out = torch.empty(runs, batch, units, dtype=responses.dtype, device=responses.device)
        slope = torch.empty_like(out) if ctx.needs_input_grad[1] else out
        block = min(BLOCK, triton.next_power_of_2(units))
        steps = (*responses.stride()[:3], bias.stride(0) if len(bias) > 1 else 0)
        _forward[(runs * batch, triton.cdiv(units, block))](
            responses, bias, out, slope, batch, units, *steps, samples, scale, TOGETHER,
            FUNCTIONS[function], ctx.needs_input_grad[1], block,
        )  # fmt: skip
        ctx.save_for_backward(responses, bias, slope)
        ctx.function, ctx.steps, ctx.block, ctx.scale = function, steps, block, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        """Gradients to the responses and to the bias."""
        responses, bias, slope = ctx.saved_tensors
        runs, samples, batch, units = responses.shape
        grad = grad.contiguous()
        to_responses = to_bias = None
        if ctx.needs_input_grad[0]:
            to_responses = torch.empty_strided(
                responses.shape, responses.stride(), dtype=grad.dtype, device=grad.device
            )
            _backward[(runs * batch, triton.cdiv(units, ctx.block))](
                responses, bias, grad, to_responses, batch, units, *ctx.steps, samples, ctx.scale,
                TOGETHER,
                FUNCTIONS[ctx.function], ctx.block,
            )  # fmt: skip
        if ctx.needs_input_grad[1]:
            to_bias = (grad * slope).sum(1)
            to_bias = to_bias.sum(0, keepdim=True) if len(bias) == 1 else to_bias
        return to_responses, to_bias, None, None
