"""Features phi of filters that depend on the position, in two launches; gradients in three.

    z[p, t] = s[p + t] + r[t],   s = gamma' A'^T at each pixel,   r = gamma A^T + b at each tap
    phi[p, t] = unit(unit(z) B^T + c)

Pixels are those that some tap of some place p reads, a margin outside the image included. Gradients
are computed from the inputs alone; programs write down their shares of them, and all are added in a
fixed order, so that they are the same in every run.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from symmetries.ops.kernel_network import PositionNetwork
from symmetries.ops.triton.launching import Launch, Watched
from symmetries.ops.triton.small_layers import absolute, absolute_back, second_back, second_layer

ROWS = 64  # samples (place, tap) of a program
PIXELS = 32  # or so many pixels, for what depends on them alone
PLACES = 32  # or all taps of so many positions
COLUMNS = 64  # numbers that a program adds up


@triton.jit
def _table(
    gamma, first, first_bias, coordinates, directions, omega, absolute_weight, table, pixels, taps,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
):  # fmt: skip
    """Load s of some pixels, or r of some taps; taps are stored after all pixels."""
    f, h = tl.arange(0, F), tl.arange(0, H)
    begin = tl.program_id(0) * E
    if begin < pixels:
        pixel = begin + tl.arange(0, E)
        _, _, _, _, s = absolute(
            coordinates + begin * A, directions, omega, absolute_weight, pixels - begin,
            H, F, A, E, SCALE,
        )  # fmt: skip
        tl.store(table + pixel[:, None] * H + h[None, :], s, mask=(pixel < pixels)[:, None])
    else:
        tap = begin - tl.cdiv(pixels, E) * E + tl.arange(0, E)
        there = (tap < taps)[:, None]
        g = tl.load(gamma + tap[:, None] * F + f[None, :], mask=there, other=0.0)
        r = tl.dot(g, tl.load(first + h[None, :] * F + f[:, None]), input_precision="tf32x3")
        r += tl.load(first_bias + h)[None, :]
        tl.store(table + (pixels + tap)[:, None] * H + h[None, :], r, mask=there)


@triton.jit
def _seen(
    table, rows, taps, pixels, width, across, H: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr
):
    """This program's rows, whether they exist, and z (ROWS, H)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    h = tl.arange(0, H)
    inside = row < rows
    tap, place = row % taps, row // taps
    pixel = (place // width + tap // K) * across + place % width + tap % K
    there = inside[:, None]
    z = tl.load(table + pixel[:, None] * H + h[None, :], mask=there, other=0.0)
    z += tl.load(table + (pixels + tap)[:, None] * H + h[None, :], mask=there, other=0.0)
    return row, inside, z


@triton.jit
def _phi(
    table, second, second_bias, phi, rows, taps, pixels, width, across,
    H: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row, inside, z = _seen(table, rows, taps, pixels, width, across, H, K, ROWS)
    _, _, made = second_layer(z, second, second_bias, H)
    h = tl.arange(0, H)
    tl.store(phi + row[:, None] * H + h[None, :], made, mask=inside[:, None])


@triton.jit
def _phi_back(
    table, second, second_bias, given, by_z, shares, rows, taps, pixels, width, across,
    H: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradient by z, and shares of those by B and c."""
    row, inside, z = _seen(table, rows, taps, pixels, width, across, H, K, ROWS)
    unit, y, _ = second_layer(z, second, second_bias, H)
    h = tl.arange(0, H)
    where = row[:, None] * H + h[None, :]
    back = tl.load(given + where, mask=inside[:, None], other=0.0)
    share = shares + tl.program_id(0) * (H * H + H)
    back = second_back(share, back, unit, y, z, second, H)
    tl.store(by_z + where, back, mask=inside[:, None])


@triton.jit
def _table_back(
    gamma, coordinates, directions, omega, absolute_weight, by_z, shares, pixels, taps, places,
    height, width, across, begin_r, begin_s,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, E: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, TAPS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """Shares of the gradients by A' and omega', of some pixels, or by A and b, of positions."""
    f, h = tl.arange(0, F), tl.arange(0, H)
    begin = tl.program_id(0) * E
    if begin < pixels:
        pixel = begin + tl.arange(0, E)
        row, column = pixel // across, pixel % across
        by_s = tl.zeros([E, H], tl.float32)
        for tap in range(K * K):
            y, x = row - tap // K, column - tap % K
            there = (pixel < pixels) & (y >= 0) & (y < height) & (x >= 0) & (x < width)
            where = ((y * width + x) * taps + tap)[:, None] * H + h[None, :]
            by_s += tl.load(by_z + where, mask=there[:, None], other=0.0)
        cosine, sine, by_cosine, by_sine, _ = absolute(
            coordinates + begin * A, directions, omega, absolute_weight, pixels - begin,
            H, F, A, E, SCALE,
        )  # fmt: skip
        absolute_back(
            shares + begin_s + tl.program_id(0) * (H * F + A), by_s, cosine, sine, by_cosine,
            by_sine, coordinates + begin * A, directions, pixels - begin, H, F, A, E,
        )  # fmt: skip
    else:
        chunk = tl.program_id(0) - tl.cdiv(pixels, E)
        t = tl.arange(0, TAPS)
        exists = (t < taps)[:, None]
        by_r = tl.zeros([TAPS, H], tl.float32)
        for step in range(PLACES):
            line = (chunk * PLACES + step) * taps + t
            known = exists & (line < places * taps)[:, None]
            by_r += tl.load(by_z + line[:, None] * H + h[None, :], mask=known, other=0.0)
        g = tl.load(gamma + t[:, None] * F + f[None, :], mask=exists, other=0.0)
        by_first = tl.dot(tl.trans(by_r), g, input_precision="tf32x3")
        share = shares + begin_r + chunk * (H * F + H)
        tl.store(share + h[:, None] * F + f[None, :], by_first)
        tl.store(share + H * F + h, tl.sum(by_r, 0))


@triton.jit
def _sums(
    shares, out, programs, chunks, blocks, length, length_r, length_s, begin_r, begin_s,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All shares added: by B and c, then A and b, then A' and omega'."""
    which, first = tl.program_id(0), tl.cdiv(length, COLUMNS)
    two, three = which >= first, which >= first + tl.cdiv(length_r, COLUMNS)
    count = tl.where(three, blocks, tl.where(two, chunks, programs))
    wide = tl.where(three, length_s, tl.where(two, length_r, length))
    begin = tl.where(three, begin_s, tl.where(two, begin_r, 0))
    target = tl.where(three, length + length_r, tl.where(two, length, 0))
    before = tl.where(three, first + tl.cdiv(length_r, COLUMNS), tl.where(two, first, 0))
    column = (which - before) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    row = tl.arange(0, ROWS)
    while tl.min(row, 0) < count:
        there = (row < count)[:, None] & (column < wide)[None, :]
        where = begin + row[:, None] * wide + column[None, :]
        total += tl.sum(tl.load(shares + where, mask=there, other=0.0), 0)
        row += ROWS
    tl.store(out + target + column, total, mask=column < wide)


class FusedFeatures(Watched):
    """The kernels for one layer and one size of images: phi of its network, and the gradients.

    Args:
        network: of the layer. Its tensors may change, their shapes may not.
        size: height and width of what the layer gives.
    """

    biased = False

    def __init__(self, network: PositionNetwork, size: tuple[int, int]) -> None:
        super().__init__(network)
        (taps, features), (pixels, relaxed) = network.gamma.shape, network.coordinates.shape
        hidden, k = len(network.first), math.isqrt(taps)
        (height, width), across = size, size[1] + k - 1
        places = height * width
        rows = places * taps
        self.shape: tuple[int, ...] = (places, taps, 1, hidden)
        self.channels = 0
        self.pixels = pixels
        blocks, chunks = triton.cdiv(pixels, PIXELS), triton.cdiv(places, PLACES)
        programs = triton.cdiv(rows, ROWS)
        table: dict[str, int | float] = {"H": hidden, "F": features, "A": relaxed, "E": PIXELS}
        table["SCALE"] = math.sqrt(2 / features)
        seen = {"H": hidden, "K": k, "ROWS": ROWS}
        grid = (blocks + triton.cdiv(taps, PIXELS), 1)
        self._table = Launch(_table, grid, (pixels, taps), table)
        numbers: tuple[int, ...] = (rows, taps, pixels, width, across)
        self._make = Launch(_phi, (programs, 1), numbers, seen)
        self._back = Launch(_phi_back, (programs, 1), numbers, seen)
        products = hidden * features
        lengths = (hidden * hidden + hidden, products + hidden, products + relaxed)
        begin_r = programs * lengths[0]
        begin_s = begin_r + chunks * lengths[1]
        self.shares = begin_s + blocks * lengths[2]
        numbers = (pixels, taps, places, height, width, across, begin_r, begin_s)
        sizes = {**table, "K": k, "TAPS": max(16, triton.next_power_of_2(taps)), "PLACES": PLACES}
        self._table_back = Launch(_table_back, (blocks + chunks, 1), numbers, sizes)
        numbers = (programs, chunks, blocks, *lengths, begin_r, begin_s)
        grid = (sum(triton.cdiv(length, COLUMNS) for length in lengths), 1)
        self._add = Launch(_sums, grid, numbers, {"ROWS": 32, "COLUMNS": COLUMNS})
        self._layers = [network.second, network.second_bias]
        self._ahead = [*self.tensors[:3], *self.tensors[5:]]

    def _tables(self) -> Tensor:
        """The s of each pixel, then r at each tap."""
        lines = self.pixels + self.shape[1]
        table = torch.empty(lines * self.shape[3], device=self.device)
        self._table(*self._ahead, table)
        return table

    def make(self) -> tuple[Tensor, None]:
        """phi, (positions, k k, 1, hidden)."""
        phi = torch.empty(self.shape, device=self.device)
        self._make(self._tables(), *self._layers, phi)
        return phi, None

    def gradients(self, given: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        """By what is learned, in the order of :meth:`PositionNetwork.learned`.

        Args:
            given: the gradient by phi.
        """
        self.check_fit()
        given = given.contiguous()
        by_z = torch.empty_like(given)
        shares = torch.empty(self.shares, device=self.device)
        out = torch.empty(sum(self.counts), device=self.device)
        self._back(self._tables(), *self._layers, given, by_z, shares)
        self._table_back(self.tensors[0], *self.tensors[5:], by_z, shares)
        self._add(shares, out)
        return self.shaped(out)
