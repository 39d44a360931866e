"""Layers of a small kernel network, for kernels that keep some rows and all units in registers.

    s = gamma' A'^T,   y = unit(z) B^T + c,   unit(z) = (relu(z) - m) / d

and their gradients, stored as a program's share of them. Products are sums of three in tf32, about
as exact as one in float32.
"""

import math

import triton
import triton.language as tl

MEAN = tl.constexpr(1 / math.sqrt(2 * math.pi))
DEVIATION = tl.constexpr(math.sqrt(0.5 - 1 / (2 * math.pi)))
TURN = tl.constexpr(2 * math.pi)


@triton.jit
def absolute(
    coordinates, directions, omega, weight, elements,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
):  # fmt: skip
    """Cosines and sines (E, F / 2) of gamma', their rows (F / 2, H) of A', and s (E, H)."""
    e, d, h = tl.arange(0, E), tl.arange(0, F // 2), tl.arange(0, H)
    phase = tl.zeros([E, F // 2], tl.float32)
    for a in tl.static_range(A):
        b = tl.load(coordinates + e * A + a, mask=e < elements, other=0.0)
        w = tl.load(directions + d * A + a) * tl.load(omega + a) * TURN
        phase += b[:, None] * w[None, :]
    cosine, sine = tl.cos(phase) * SCALE, tl.sin(phase) * SCALE
    by_cosine = tl.load(weight + h[None, :] * F + d[:, None])
    by_sine = tl.load(weight + h[None, :] * F + d[:, None] + F // 2)
    s = tl.dot(cosine, by_cosine, input_precision="tf32x3")
    s = tl.dot(sine, by_sine, s, input_precision="tf32x3")
    return cosine, sine, by_cosine, by_sine, s


@triton.jit
def absolute_back(
    share, by_s, cosine, sine, by_cosine, by_sine, coordinates, directions, elements,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Stores the gradients by A' (H, F) and omega' (A,), given that by s (E, H)."""
    e, d, h = tl.arange(0, E), tl.arange(0, F // 2), tl.arange(0, H)
    by_weight = tl.dot(tl.trans(by_s), cosine, input_precision="tf32x3")
    tl.store(share + h[:, None] * F + d[None, :], by_weight)
    by_weight = tl.dot(tl.trans(by_s), sine, input_precision="tf32x3")
    tl.store(share + h[:, None] * F + d[None, :] + F // 2, by_weight)
    by_phase = tl.dot(by_s, tl.trans(by_sine), input_precision="tf32x3") * cosine
    by_phase -= tl.dot(by_s, tl.trans(by_cosine), input_precision="tf32x3") * sine
    for a in tl.static_range(A):
        b = tl.load(coordinates + e * A + a, mask=e < elements, other=0.0)
        w = tl.load(directions + d * A + a) * TURN
        total = tl.sum(tl.sum(by_phase * b[:, None] * w[None, :], 1), 0)
        tl.store(share + H * F + a, total)


@triton.jit
def second_layer(z, second, second_bias, H: tl.constexpr):
    """unit(z), y = unit(z) B^T + c, and unit(y), each (ROWS, H)."""
    h = tl.arange(0, H)
    unit = (tl.maximum(z, 0.0) - MEAN) / DEVIATION
    y = tl.dot(unit, tl.load(second + h[None, :] * H + h[:, None]), input_precision="tf32x3")
    y += tl.load(second_bias + h)[None, :]
    return unit, y, (tl.maximum(y, 0.0) - MEAN) / DEVIATION


@triton.jit
def second_back(share, back, unit, y, z, second, H: tl.constexpr):
    """The gradient by z (ROWS, H), given that by unit(y); stores those by B (H, H) and c (H,)."""
    h = tl.arange(0, H)
    back = tl.where(y > 0, back, 0.0) / DEVIATION
    by_second = tl.dot(tl.trans(back), unit, input_precision="tf32x3")
    tl.store(share + h[:, None] * H + h[None, :], by_second)
    tl.store(share + H * H + h, tl.sum(back, 0))
    weight = tl.load(second + h[:, None] * H + h[None, :])
    back = tl.dot(back, weight, input_precision="tf32x3")
    return tl.where(z > 0, back, 0.0) / DEVIATION
