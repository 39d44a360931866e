r"""Rational-quadratic splines: one kernel forward and one backward, for the map and its inverse.

A thread takes one number through one spline. It walks over the bins twice (to normalise widths and
heights, and to find the bin), keeping only the bin's own six numbers; the backward kernel walks
again to spread their gradients over the parameters. The inverse x = f^{-1}(y) is differentiated
implicitly: with G the gradient that reaches x, y gets G / f'(x) and the parameters what f would
get from -G / f'(x).
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops._dispatch import differentiable_gradients

_BLOCK = 128


@triton.jit
def _normaliser(free, step, i, keep, BINS: tl.constexpr):
    """Largest free parameter and sum of exponentials, of a soft-max over the bins."""
    largest = tl.load(free + i, mask=keep, other=0.0)
    for b in tl.static_range(1, BINS):
        largest = tl.maximum(largest, tl.load(free + b * step + i, mask=keep, other=0.0))
    total = tl.zeros_like(largest)
    for b in tl.static_range(BINS):
        total += tl.exp(tl.load(free + b * step + i, mask=keep, other=0.0) - largest)
    return largest, total


@triton.jit
def _slope(
    free, step, i, keep, k, MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr,
    BINS: tl.constexpr, CIRCULAR: tl.constexpr,
):  # fmt: skip
    """Slope at knot k, and its derivative to the free parameter."""
    if CIRCULAR:
        at, inner = k % BINS, k >= 0
    else:
        at, inner = k - 1, (k > 0) & (k < BINS)
    value = tl.load(free + at * step + i, mask=keep & inner, other=0.0) + UNIT
    large = value > 20.0
    grown = tl.exp(tl.where(large, 0.0, value))
    softplus = tl.where(large, value, tl.log(1.0 + grown))
    # log(1 + e) loses small e: there the softplus is e itself.
    softplus = tl.where(grown < 1e-4, grown, softplus)
    rate = tl.where(large, 1.0, grown / (1.0 + grown))
    return tl.where(inner, MIN_SLOPE + softplus, 1.0), tl.where(inner, rate, 0.0), at, inner


@triton.jit
def _bin(
    x, parameters, step, i, keep, HALF: tl.constexpr, SHARE: tl.constexpr, MIN_SLOPE: tl.constexpr,
    UNIT: tl.constexpr, BINS: tl.constexpr, CIRCULAR: tl.constexpr, INVERSE: tl.constexpr,
):  # fmt: skip
    """The bin that holds x (a value of the map where INVERSE): its index and six numbers."""
    heights = parameters + BINS * step
    wmax, wsum = _normaliser(parameters, step, i, keep, BINS)
    hmax, hsum = _normaliser(heights, step, i, keep, BINS)
    rest: tl.constexpr = 1.0 - SHARE * BINS
    left, bottom = tl.zeros_like(x) - HALF, tl.zeros_like(x) - HALF
    x0, y0, w, h = left, bottom, tl.zeros_like(x), tl.zeros_like(x)
    k = tl.zeros_like(x).to(tl.int32)
    for b in tl.static_range(BINS):
        width = tl.exp(tl.load(parameters + b * step + i, mask=keep, other=0.0) - wmax) / wsum
        height = tl.exp(tl.load(heights + b * step + i, mask=keep, other=0.0) - hmax) / hsum
        width = 2.0 * HALF * (SHARE + rest * width)
        height = 2.0 * HALF * (SHARE + rest * height)
        here = (x >= (bottom if INVERSE else left)) | (b == 0)
        k = tl.where(here, b, k)
        x0, y0 = tl.where(here, left, x0), tl.where(here, bottom, y0)
        w, h = tl.where(here, width, w), tl.where(here, height, h)
        left += width
        bottom += height
    slopes = parameters + 2 * BINS * step
    d0, r0, a0, in0 = _slope(slopes, step, i, keep, k, MIN_SLOPE, UNIT, BINS, CIRCULAR)
    d1, r1, a1, in1 = _slope(slopes, step, i, keep, k + 1, MIN_SLOPE, UNIT, BINS, CIRCULAR)
    return k, x0, y0, w, h, d0, d1, r0, r1, a0, a1, in0, in1, wmax, wsum, hmax, hsum


@triton.jit
def _apply(
    given, parameters, step, i, keep, HALF: tl.constexpr, SHARE: tl.constexpr,
    MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr, CIRCULAR: tl.constexpr,
    INVERSE: tl.constexpr,
):  # fmt: skip
    """The mapped numbers and the logarithms of the slopes; parameters lie ``step`` apart."""
    x = tl.minimum(tl.maximum(given, -HALF), HALF)
    _k, x0, y0, w, h, d0, d1, _r0, _r1, _a0, _a1, _i0, _i1, _wm, _ws, _hm, _hs = _bin(
        x, parameters, step, i, keep, HALF, SHARE, MIN_SLOPE, UNIT, BINS, CIRCULAR, INVERSE
    )
    s = h / w
    bend = d0 + d1 - 2.0 * s
    if INVERSE:
        rise = x - y0
        a, b, c = h * (s - d0) + rise * bend, h * d0 - rise * bend, -s * rise
        root = tl.sqrt(tl.maximum(b * b - 4.0 * a * c, 0.0))
        t = tl.minimum(tl.maximum(2.0 * c / (-b - root), 0.0), 1.0)
    else:
        t = (x - x0) / w
    mixed = t * (1.0 - t)
    under = s + bend * mixed
    slope = d1 * t * t + 2.0 * s * mixed + d0 * (1.0 - t) * (1.0 - t)
    log_slope = 2.0 * tl.log(s) + tl.log(slope) - 2.0 * tl.log(under)
    if INVERSE:
        y, log_slope = x0 + t * w, -log_slope
    else:
        y = y0 + h * (s * t * t + d0 * mixed) / under
    inside = (given >= -HALF) & (given <= HALF)
    return tl.where(inside, y, given), tl.where(inside, log_slope, 0.0)


@triton.jit
def _gradient(
    given, mapped, grad_y, grad_log, parameters, grad_parameters, step, i, keep,
    HALF: tl.constexpr, SHARE: tl.constexpr, MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr,
    BINS: tl.constexpr, CIRCULAR: tl.constexpr, INVERSE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradient to the numbers; that to the parameters is stored."""
    inside = (given >= -HALF) & (given <= HALF)
    x = tl.minimum(tl.maximum(given, -HALF), HALF)
    k, x0, _y0, w, h, d0, d1, r0, r1, a0, a1, in0, in1, wmax, wsum, hmax, hsum = _bin(
        x, parameters, step, i, keep, HALF, SHARE, MIN_SLOPE, UNIT, BINS, CIRCULAR, INVERSE
    )
    if INVERSE:
        x = mapped
    s = h / w
    bend = d0 + d1 - 2.0 * s
    t = tl.minimum(tl.maximum((x - x0) / w, 0.0), 1.0)
    mixed = t * (1.0 - t)
    under = s + bend * mixed
    over = s * t * t + d0 * mixed
    slope = d1 * t * t + 2.0 * s * mixed + d0 * (1.0 - t) * (1.0 - t)
    first, second = grad_y, grad_log
    # d log f' / dx at fixed parameters
    bent = (2.0 * d1 * t - 2.0 * d0 * (1.0 - t) + 2.0 * s * (1.0 - 2.0 * t)) / slope
    bent = (bent - 2.0 * bend * (1.0 - 2.0 * t) / under) / w
    rate = s * s * slope / (under * under)
    if INVERSE:
        second = -second
        first = first + second * bent
        to_x = first / rate
        first = -to_x
    else:
        to_x = first * rate + second * bent
    to_x = tl.where(inside, to_x, grad_y)
    first, second = tl.where(inside, first, 0.0), tl.where(inside, second, 0.0)
    g_over = first * h / under
    g_under = -first * h * over / (under * under) - 2.0 * second / under
    g_slope = second / slope
    g_s = 2.0 * second / s + g_over * t * t + 2.0 * g_slope * mixed + g_under * (1.0 - 2.0 * mixed)
    g_d0 = (g_over + g_under) * mixed + g_slope * (1.0 - t) * (1.0 - t)
    g_d1 = g_under * mixed + g_slope * t * t
    g_mixed = g_over * d0 + g_under * bend + 2.0 * g_slope * s
    g_t = 2.0 * g_over * s * t + 2.0 * g_slope * (d1 * t - d0 * (1.0 - t))
    g_t += g_mixed * (1.0 - 2.0 * t)
    g_x0 = -g_t / w
    g_w = -(g_t * t + g_s * s) / w
    g_h = first * over / under + g_s / w
    rest: tl.constexpr = 2.0 * HALF * (1.0 - SHARE * BINS)
    heights = parameters + BINS * step
    wdot, hdot = tl.zeros_like(x), tl.zeros_like(x)
    for b in tl.static_range(BINS):
        ws = tl.exp(tl.load(parameters + b * step + i, mask=keep, other=0.0) - wmax) / wsum
        hs = tl.exp(tl.load(heights + b * step + i, mask=keep, other=0.0) - hmax) / hsum
        wdot += ws * tl.where(b < k, g_x0, tl.where(b == k, g_w, 0.0))
        hdot += hs * tl.where(b < k, first, tl.where(b == k, g_h, 0.0))
    for b in tl.static_range(BINS):
        ws = tl.exp(tl.load(parameters + b * step + i, mask=keep, other=0.0) - wmax) / wsum
        hs = tl.exp(tl.load(heights + b * step + i, mask=keep, other=0.0) - hmax) / hsum
        gw = rest * ws * (tl.where(b < k, g_x0, tl.where(b == k, g_w, 0.0)) - wdot)
        gh = rest * hs * (tl.where(b < k, first, tl.where(b == k, g_h, 0.0)) - hdot)
        tl.store(grad_parameters + b * step + i, gw, mask=keep)
        tl.store(grad_parameters + (BINS + b) * step + i, gh, mask=keep)
    for b in tl.static_range(ROWS - 2 * BINS):
        g = tl.where(in0 & (a0 == b), g_d0 * r0, 0.0) + tl.where(in1 & (a1 == b), g_d1 * r1, 0.0)
        tl.store(grad_parameters + (2 * BINS + b) * step + i, g, mask=keep)
    return to_x


@triton.jit
def _forward(
    x_in, parameters, y_out, log_out, n, HALF: tl.constexpr, SHARE: tl.constexpr,
    MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr, CIRCULAR: tl.constexpr,
    INVERSE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    given = tl.load(x_in + i, mask=keep, other=0.0)
    y, log_slope = _apply(
        given, parameters, n, i, keep, HALF, SHARE, MIN_SLOPE, UNIT, BINS, CIRCULAR, INVERSE
    )
    tl.store(y_out + i, y, mask=keep)
    tl.store(log_out + i, log_slope, mask=keep)


@triton.jit
def _backward(
    x_in, y_out, parameters, grad_y, grad_log, grad_x, grad_parameters, n, HALF: tl.constexpr,
    SHARE: tl.constexpr, MIN_SLOPE: tl.constexpr, UNIT: tl.constexpr, BINS: tl.constexpr,
    CIRCULAR: tl.constexpr, INVERSE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    given = tl.load(x_in + i, mask=keep, other=0.0)
    mapped = tl.load(y_out + i, mask=keep, other=0.0)
    first = tl.load(grad_y + i, mask=keep, other=0.0)
    second = tl.load(grad_log + i, mask=keep, other=0.0)
    to_x = _gradient(
        given, mapped, first, second, parameters, grad_parameters, n, i, keep,
        HALF, SHARE, MIN_SLOPE, UNIT, BINS, CIRCULAR, INVERSE, ROWS,
    )  # fmt: skip
    tl.store(grad_x + i, to_x, mask=keep)


class KernelSpline(torch.autograd.Function):
    """The kernels as a differentiable function; ``plain`` is torch's form of the same function.

    ``constants`` are the half length, the smallest share of a bin, the smallest slope, the free
    parameter of slope one, the number of bins, and whether the interval is a circle.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        parameters: Tensor,
        constants: tuple[float, float, float, float, int, bool],
        inverse: bool,
        plain: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """The mapped x (...) and the logarithm of the slope (...)."""
        x, parameters = x.contiguous(), parameters.contiguous()
        y, log_slope = torch.empty_like(x), torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, _BLOCK),)
        _forward[grid](x, parameters, y, log_slope, n, *constants, inverse, _BLOCK)
        ctx.save_for_backward(x, parameters, y)
        ctx.constants, ctx.inverse, ctx.plain = constants, inverse, plain
        return y, log_slope

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to x and to the parameters."""
        x, parameters, y = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted
            inputs, grads = (x, parameters), (grad_y, grad_log)
            found = differentiable_gradients(ctx.plain(*inputs), inputs, grads)
            return *found, None, None, None
        n = x.numel()
        grad_x, grad_parameters = torch.empty_like(x), torch.empty_like(parameters)
        _backward[(triton.cdiv(n, _BLOCK),)](
            x, y, parameters, grad_y.contiguous(), grad_log.contiguous(), grad_x, grad_parameters,
            n, *ctx.constants, ctx.inverse, len(parameters), _BLOCK,
        )  # fmt: skip
        return grad_x, grad_parameters, None, None, None
