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

from symmetries.ops.kernel_network import Network
from symmetries.ops.triton.launching import Launch, Watched
from symmetries.ops.triton.small_layers import absolute, absolute_back, second_back, second_layer

ROWS = 16  # samples of a program: with more, registers do not hold the gradients
BLOCK = 64  # columns at a time


@triton.jit
def _samples(rows, taps, elements_in, ROWS: tl.constexpr):
    """Which of this program's rows there are; their taps, elements out and elements in."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    return row < rows, row % taps, row // taps // elements_in, row // taps % elements_in


@triton.jit
def _first_layer(
    gamma, first, first_bias, inside, H: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr
):
    """The rows' features gamma (ROWS, F), and gamma A^T + b (ROWS, H)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    f, h = tl.arange(0, F), tl.arange(0, H)
    g = tl.load(gamma + row[:, None] * F + f[None, :], mask=inside[:, None], other=0.0)
    z = tl.dot(g, tl.load(first + h[None, :] * F + f[:, None]), input_precision="tf32x3")
    return g, z + tl.load(first_bias + h)[None, :]


@triton.jit
def _which(i, j, E: tl.constexpr, LIFTING: tl.constexpr):
    """One at each row's absolute element (ROWS, E), zero elsewhere."""
    own = i if LIFTING else j
    return (own[:, None] == tl.arange(0, E)[None, :]).to(tl.float32)


@triton.jit
def _filters(
    gamma, first, first_bias, second, second_bias, output, mask, bias, coordinates, directions,
    omega, absolute_weight, bank, full_bias, rows, columns, fields_in, taps, elements_out,
    elements_in, elements,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, LIFTING: tl.constexpr,
    BIASED: tl.constexpr,
):  # fmt: skip
    inside, tap, i, j = _samples(rows, taps, elements_in, ROWS)
    h = tl.arange(0, H)
    _, z = _first_layer(gamma, first, first_bias, inside, H, F, ROWS)
    if A > 0:
        _, _, _, _, s = absolute(
            coordinates, directions, omega, absolute_weight, elements, H, F, A, E, SCALE
        )
        z = tl.dot(_which(i, j, E, LIFTING), s, z, input_precision="tf32x3")
    _, _, phi = second_layer(z, second, second_bias, H)
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
    gamma, first, first_bias, second, second_bias, output, mask, bias, coordinates, directions,
    omega, absolute_weight, given, shares, rows, columns, fields_in, taps, elements_out,
    elements_in, elements, length,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr, LIFTING: tl.constexpr,
):  # fmt: skip
    inside, tap, i, j = _samples(rows, taps, elements_in, ROWS)
    f, h = tl.arange(0, F), tl.arange(0, H)
    g, z = _first_layer(gamma, first, first_bias, inside, H, F, ROWS)
    if A > 0:
        cosine, sine, by_cosine, by_sine, s = absolute(
            coordinates, directions, omega, absolute_weight, elements, H, F, A, E, SCALE
        )
        which = _which(i, j, E, LIFTING)
        z = tl.dot(which, s, z, input_precision="tf32x3")
    unit, y, phi = second_layer(z, second, second_bias, H)
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
    back = second_back(share, back, unit, y, z, second, H)
    share += H * H + H
    by_first = tl.dot(tl.trans(back), g, input_precision="tf32x3")
    tl.store(share + h[:, None] * F + f[None, :], by_first)
    tl.store(share + H * F + h, tl.sum(back, 0))
    if A > 0:
        share += H * F + H
        by_s = tl.dot(tl.trans(which), back, input_precision="tf32x3")  # (E, H)
        absolute_back(
            share, by_s, cosine, sine, by_cosine, by_sine, coordinates, directions, elements,
            H, F, A, E,
        )  # fmt: skip


@triton.jit
def _total(
    shares, given_bias, out, programs, length, channels, elements_out,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """Add the shares of all programs; the gradients of the biases of the fields follow them."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    row = tl.arange(0, ROWS)
    while tl.min(row, 0) < programs:
        there = (row < programs)[:, None] & (column < length)[None, :]
        where = row.to(tl.int64)[:, None] * length + column[None, :]
        total += tl.sum(tl.load(shares + where, mask=there, other=0.0), 0)
        row += ROWS
    field = column - length
    e = tl.arange(0, ELEMENTS)
    there = (field >= 0)[:, None] & (field * elements_out < channels)[:, None]
    there = there & (e < elements_out)[None, :]
    where = field[:, None] * elements_out + e[None, :]
    total += tl.sum(tl.load(given_bias + where, mask=there, other=0.0), 1)
    tl.store(out + column, total, mask=column < length + channels // elements_out)


class FusedFilters(Watched):
    """The kernels for one layer: filters of its network, and the gradients.

    Args:
        network: of the layer. Its tensors may change, their shapes may not.
        lifting: whether the absolute element is the one that goes out.
    """

    def __init__(self, network: Network, lifting: bool) -> None:
        elements_out, elements_in, taps, features = network.gamma.shape
        fields_out, fields_in, hidden = network.output.shape
        absolute = network.coordinates
        elements, relaxed = (0, 0) if absolute is None else absolute.shape
        rows, columns = elements_out * elements_in * taps, fields_out * fields_in
        k, self.channels = math.isqrt(taps), fields_out * elements_out
        self.shape: tuple[int, ...] = (self.channels, fields_in * elements_in, k, k)
        super().__init__(network)
        self.biased = biased = network.bias is not None
        self.length = sum(self.counts) - (fields_out if biased else 0)
        numbers: tuple[int, ...] = (rows, columns, fields_in, taps)
        numbers = (*numbers, elements_out, elements_in, elements)
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
        self.programs = triton.cdiv(rows, ROWS)
        grid = (self.programs, triton.cdiv(columns, BLOCK))
        self._make = Launch(_filters, grid, numbers, {**constants, "BIASED": biased})
        numbers = (*numbers, self.length)
        self._back = Launch(_gradients, (self.programs, 1), numbers, constants)
        self.total = sum(self.counts)
        channels = self.channels if biased else 0
        numbers = (self.programs, self.length, channels, elements_out)
        sizes = {"ROWS": 32, "BLOCK": 64, "ELEMENTS": triton.next_power_of_2(elements_out)}
        self._add = Launch(_total, (triton.cdiv(self.total, 64), 1), numbers, sizes)

    def make(self) -> tuple[Tensor, Tensor | None]:
        """The filters (fields out * elements out, fields in * elements in, k, k), and their bias.

        Channels last in memory; the bias has one number for each of their outputs. After
        :meth:`fit` only.
        """
        bank = torch.empty(self.shape, device=self.device, memory_format=torch.channels_last)
        full_bias = torch.empty(self.channels, device=self.device) if self.biased else None
        self.run(self._make, bank, bank if full_bias is None else full_bias)
        return bank, full_bias

    def gradients(self, given: Tensor, given_bias: Tensor) -> tuple[Tensor, ...]:
        """By what is learned, in the order of :meth:`Network.learned`.

        Args:
            given: the gradient by the filters.
            given_bias: that by their bias; anything where there is none.
        """
        given = given.contiguous(memory_format=torch.channels_last)
        shares = torch.empty(self.programs * self.length, device=self.device)
        out = torch.empty(self.total, device=self.device)
        self.check_fit()
        self.run(self._back, given, shares)
        self._add(shares, given_bias, out)
        return self.shaped(out)
