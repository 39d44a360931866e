"""The filters of a group convolution from its kernel network, in one launch; gradients in two.

Rows are samples (element out, element in, tap) of the kernel, columns pairs (field out, field in):

    z  = gamma A^T + b  (+ s[element], s = gamma' A'^T: what the absolute element gives)
    phi = unit(unit(z) B^T + c),   unit(z) = (relu(z) - m) / d
    filters[(o i), tap, (f j)] = mask[tap] phi[i, j, tap] . V[o, f]

The network is small: its operations one by one cost what launching them costs. Each program keeps
some rows and all units in registers. Gradients are computed from the inputs alone, each program's
share is written down and all are added in a fixed order, so that they are the same in every run.
Products are sums of three in tf32, about as exact as one in float32.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.kernels.networks import Network

ROWS = 16  # samples of a program: with more, registers do not hold the gradients
BLOCK = 64  # columns at a time
_WARPS = 4
MEAN = tl.constexpr(1 / math.sqrt(2 * math.pi))
DEVIATION = tl.constexpr(math.sqrt(0.5 - 1 / (2 * math.pi)))
TURN = tl.constexpr(2 * math.pi)


@triton.jit
def _absolute(
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
def _filters(
    gamma, first, first_bias, second, second_bias, output, mask, bias, coordinates, directions,
    omega, absolute_weight, bank, full_bias, rows, columns, fields_in, taps, elements_out,
    elements_in, elements,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, LIFTING: tl.constexpr,
    BIASED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    tap, i, j = row % taps, row // taps // elements_in, row // taps % elements_in
    f, h = tl.arange(0, F), tl.arange(0, H)
    g = tl.load(gamma + row[:, None] * F + f[None, :], mask=inside[:, None], other=0.0)
    z = tl.dot(g, tl.load(first + h[None, :] * F + f[:, None]), input_precision="tf32x3")
    z += tl.load(first_bias + h)[None, :]
    if A > 0:
        _, _, _, _, s = _absolute(
            coordinates, directions, omega, absolute_weight, elements, H, F, A, E, SCALE
        )
        own = i if LIFTING else j
        which = (own[:, None] == tl.arange(0, E)[None, :]).to(tl.float32)
        z = tl.dot(which, s, z, input_precision="tf32x3")
    unit = (tl.maximum(z, 0.0) - MEAN) / DEVIATION
    z = tl.dot(unit, tl.load(second + h[None, :] * H + h[:, None]), input_precision="tf32x3")
    z += tl.load(second_bias + h)[None, :]
    phi = (tl.maximum(z, 0.0) - MEAN) / DEVIATION
    if MASKED:
        phi *= tl.load(mask + tap)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = column < columns
    v = tl.load(output + column[None, :] * H + h[:, None], mask=there[None, :], other=0.0)
    values = tl.dot(phi, v, input_precision="tf32x3")
    where = _where(column, i, j, tap, fields_in, taps, elements_out, elements_in)
    tl.store(bank + where, values, mask=inside[:, None] & there[None, :])
    if BIASED:
        channels = columns // fields_in * elements_out
        channel = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * BLOCK
        channel += tl.arange(0, BLOCK)
        while tl.min(channel, 0) < channels:
            there = channel < channels
            value = tl.load(bias + channel // elements_out, mask=there)
            tl.store(full_bias + channel, value, mask=there)
            channel += tl.num_programs(0) * tl.num_programs(1) * BLOCK


@triton.jit
def _where(column, i, j, tap, fields_in, taps, elements_out, elements_in):
    """Addresses (rows, columns) in the filters, channels last: out, tap, in."""
    out = (column // fields_in)[None, :] * elements_out + i[:, None]
    channel = (column % fields_in)[None, :] * elements_in + j[:, None]
    return (out * taps + tap[:, None]) * (fields_in * elements_in) + channel


@triton.jit
def _gradients(
    gamma, first, first_bias, second, second_bias, output, mask, coordinates, directions, omega,
    absolute_weight, given, shares, rows, columns, fields_in, taps, elements_out, elements_in,
    elements, length,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, LIFTING: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    tap, i, j = row % taps, row // taps // elements_in, row // taps % elements_in
    f, h = tl.arange(0, F), tl.arange(0, H)
    g = tl.load(gamma + row[:, None] * F + f[None, :], mask=inside[:, None], other=0.0)
    z = tl.dot(g, tl.load(first + h[None, :] * F + f[:, None]), input_precision="tf32x3")
    z += tl.load(first_bias + h)[None, :]
    if A > 0:
        cosine, sine, by_cosine, by_sine, s = _absolute(
            coordinates, directions, omega, absolute_weight, elements, H, F, A, E, SCALE
        )
        own = i if LIFTING else j
        which = (own[:, None] == tl.arange(0, E)[None, :]).to(tl.float32)
        z = tl.dot(which, s, z, input_precision="tf32x3")
    unit = (tl.maximum(z, 0.0) - MEAN) / DEVIATION
    y = tl.dot(unit, tl.load(second + h[None, :] * H + h[:, None]), input_precision="tf32x3")
    y += tl.load(second_bias + h)[None, :]
    phi = (tl.maximum(y, 0.0) - MEAN) / DEVIATION
    if MASKED:
        kept = tl.load(mask + tap)[:, None]
        phi *= kept
    share = shares + tl.program_id(0) * length
    back = tl.zeros([ROWS, H], tl.float32)
    column = tl.arange(0, BLOCK)
    while tl.min(column, 0) < columns:
        there = column < columns
        where = _where(column, i, j, tap, fields_in, taps, elements_out, elements_in)
        values = tl.load(given + where, mask=inside[:, None] & there[None, :], other=0.0)
        v = tl.load(output + column[:, None] * H + h[None, :], mask=there[:, None], other=0.0)
        back = tl.dot(values, v, back, input_precision="tf32x3")
        by_output = tl.dot(tl.trans(values), phi, input_precision="tf32x3")
        tl.store(share + column[:, None] * H + h[None, :], by_output, mask=there[:, None])
        column += BLOCK
    share += columns * H
    if MASKED:
        back *= kept
    back = tl.where(y > 0, back, 0.0) / DEVIATION
    by_second = tl.dot(tl.trans(back), unit, input_precision="tf32x3")
    tl.store(share + h[:, None] * H + h[None, :], by_second)
    tl.store(share + H * H + h, tl.sum(back, 0))
    weight = tl.load(second + h[:, None] * H + h[None, :])
    back = tl.dot(back, weight, input_precision="tf32x3")
    back = tl.where(z > 0, back, 0.0) / DEVIATION
    share += H * H + H
    by_first = tl.dot(tl.trans(back), g, input_precision="tf32x3")
    tl.store(share + h[:, None] * F + f[None, :], by_first)
    tl.store(share + H * F + h, tl.sum(back, 0))
    if A > 0:
        share += H * F + H
        d, e = tl.arange(0, F // 2), tl.arange(0, E)
        by_s = tl.dot(tl.trans(which), back, input_precision="tf32x3")  # (E, H)
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


def filters(network: Network, lifting: bool) -> tuple[Tensor, Tensor | None]:
    """The filters (fields out * elements out, fields in * elements in, k, k), channels last.

    Args:
        network: see there.
        lifting: whether the absolute element is the one that goes out.

    Returns:
        The filters, and the bias of each of their outputs.
    """
    gamma, output, bias = network.gamma, network.output, network.bias
    (elements_out, elements_in, taps, _), (fields_out, fields_in, _) = gamma.shape, output.shape
    k, channels = math.isqrt(taps), fields_out * elements_out
    shape = (channels, fields_in * elements_in, k, k)
    bank = torch.empty(shape, device=gamma.device, memory_format=torch.channels_last)
    full_bias = None if bias is None else gamma.new_empty(channels)
    lengths, sizes = _sizes(network, lifting)
    grid = (triton.cdiv(lengths[0], ROWS), triton.cdiv(lengths[1], BLOCK))
    tensors = [gamma if t is None else t for t in (*network, bank, full_bias)]
    _filters[grid](*tensors, *lengths, **sizes, BIASED=bias is not None, num_warps=_WARPS)
    return bank, full_bias


def gradients(network: Network, given: Tensor, lifting: bool) -> list[Tensor]:
    """By V, B, c, A, b, and where something is relaxed by A' and omega'.

    Args:
        network: as for :func:`filters`.
        given: the gradient by the filters, channels last.
        lifting: as for :func:`filters`.
    """
    lengths, sizes = _sizes(network, lifting)
    parts = [network.output, network.second, network.second_bias, network.first, network.first_bias]
    if network.absolute_weight is not None and network.omega is not None:
        parts += [network.absolute_weight, network.omega]
    counts = [part.numel() for part in parts]
    programs = triton.cdiv(lengths[0], ROWS)
    shares = given.new_empty(programs, sum(counts))
    tensors = [network.gamma if t is None else t for t in (*network[:7], *network[8:])]
    arguments = (*tensors, given, shares, *lengths, shares.shape[1])
    _gradients[(programs,)](*arguments, **sizes, num_warps=_WARPS)
    found = shares.sum(0).split(counts)
    return [each.view(part.shape) for each, part in zip(found, parts, strict=True)]


def _sizes(network: Network, lifting: bool) -> tuple[tuple[int, ...], dict[str, int | float]]:
    """The kernels' whole numbers, and their constants."""
    elements_out, elements_in, taps, features = network.gamma.shape
    fields_out, fields_in, hidden = network.output.shape
    absolute = network.coordinates
    elements, relaxed = (0, 0) if absolute is None else absolute.shape
    rows = elements_out * elements_in * taps
    columns = fields_out * fields_in
    lengths = (rows, columns, fields_in, taps, elements_out, elements_in, elements)
    constants = {
        "H": hidden,
        "F": features,
        "A": relaxed,
        "E": max(16, triton.next_power_of_2(elements)),
        "SCALE": math.sqrt(2 / features),
        "ROWS": ROWS,
        "BLOCK": BLOCK,
        "MASKED": network.mask is not None,
        "LIFTING": lifting,
    }
    return lengths, constants
