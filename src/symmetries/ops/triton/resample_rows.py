"""Bilinear resampling of tables whose rows are pixels, and its exact transpose, as kernels.

A table (P, K) holds K pictures side by side, so the weights of a pixel are computed once for all
of them and every load is a run of neighbouring numbers. ``gather`` reads four rows for each pixel.
``scatter``, the transpose, does not add to memory: each pixel looks for the pixels that would have
read it, in the box that the inverse map says, so that results are the same every time. Outside the
image lies zero.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_PIXELS = 16


@triton.jit
def _point(theta, row, column, H: tl.constexpr, W: tl.constexpr):
    """Output point (x, y) of pixels, and the source row and column."""
    unit: tl.constexpr = H if H > W else W
    pixel: tl.constexpr = 1.0 / unit
    x = (2 * column + 1 - W).to(tl.float32) * pixel
    y = (H - 1 - 2 * row).to(tl.float32) * pixel
    sx = tl.load(theta) * x + tl.load(theta + 1) * y + tl.load(theta + 2)
    sy = tl.load(theta + 3) * x + tl.load(theta + 4) * y + tl.load(theta + 5)
    # Points far outside are brought near, where they still see only zero: no integer overflows.
    far: tl.constexpr = 4.0 + 4.0 * (H + W)
    column_at = tl.minimum(tl.maximum(0.5 * (sx * unit + (W - 1)), -far), far)
    row_at = tl.minimum(tl.maximum(0.5 * ((H - 1) - sy * unit), -far), far)
    return x, y, row_at, column_at


@triton.jit
def _gather(
    table, theta, out, P, K, S, T, channels, table_group, table_sample,
    H: tl.constexpr, W: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    g, s = tl.program_id(0) // S, tl.program_id(0) % S
    p = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    k = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    keep, inner = p < P, k < K
    _x, _y, row_at, column_at = _point(theta + (g // channels * S + s) * 6, p // W, p % W, H, W)
    r0, c0 = tl.floor(row_at), tl.floor(column_at)
    fr, fc = row_at - r0, column_at - c0
    start = table + g.to(tl.int64) * table_group + s.to(tl.int64) * table_sample
    total = tl.zeros([PIXELS, BLOCK], tl.float32)
    for a in tl.static_range(2):
        for b in tl.static_range(2):
            r, c = r0.to(tl.int32) + a, c0.to(tl.int32) + b
            inside = keep & (r >= 0) & (r < H) & (c >= 0) & (c < W)
            weight = (fr if a == 1 else 1.0 - fr) * (fc if b == 1 else 1.0 - fc)
            at = start + (r * W + c)[:, None] * T + k[None, :]
            value = tl.load(at, mask=inside[:, None] & inner[None, :], other=0.0)
            total += tl.where(inside, weight, 0.0)[:, None] * value
    goal = out + ((g.to(tl.int64) * P + p[:, None]) * S + s) * K + k[None, :]
    tl.store(goal, total, mask=keep[:, None] & inner[None, :])


@triton.jit
def _scatter(
    table, theta, out, P, K, S, T, channels, table_group, table_sample,
    H: tl.constexpr, W: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    g, s = tl.program_id(0) // S, tl.program_id(0) % S
    q = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    k = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    keep, inner = q < P, k < K
    matrix = theta + (g // channels * S + s) * 6
    t0, t1, t2 = tl.load(matrix), tl.load(matrix + 1), tl.load(matrix + 2)
    t3, t4, t5 = tl.load(matrix + 3), tl.load(matrix + 4), tl.load(matrix + 5)
    unit: tl.constexpr = H if H > W else W
    det = t0 * t4 - t1 * t3
    det = tl.where(tl.abs(det) < 1e-12, 1e-12, det)
    i0, i1, i3, i4 = t4 / det, -t1 / det, -t3 / det, t0 / det
    # The point of each target pixel, and the pixel (row, column) that reads there.
    row, column = q // W, q % W
    x = (2 * column + 1 - W).to(tl.float32) / unit - t2
    y = (H - 1 - 2 * row).to(tl.float32) / unit - t5
    sc = 0.5 * ((i0 * x + i1 * y) * unit + (W - 1))
    sr = 0.5 * ((H - 1) - (i3 * x + i4 * y) * unit)
    # Sources lie within one pixel of it after the map: a box around it before.
    wide = tl.abs(i0) + tl.abs(i1) + 1e-3
    high = tl.abs(i3) + tl.abs(i4) + 1e-3
    first_c = tl.minimum(tl.maximum(tl.ceil(sc - wide), 0.0), W).to(tl.int32)
    first_r = tl.minimum(tl.maximum(tl.ceil(sr - high), 0.0), H).to(tl.int32)
    columns = tl.minimum(tl.floor(2.0 * wide), W - 1.0).to(tl.int32) + 1
    rows = tl.minimum(tl.floor(2.0 * high), H - 1.0).to(tl.int32) + 1
    start = table + g.to(tl.int64) * table_group + s.to(tl.int64) * table_sample
    # Where the first of them reads, in pixels from the target; the others by steps from there.
    px = (2 * first_c + 1 - W).to(tl.float32) / unit
    py = (H - 1 - 2 * first_r).to(tl.float32) / unit
    away_c = 0.5 * ((t0 * px + t1 * py + t2) * unit + (W - 1)) - column.to(tl.float32)
    away_r = 0.5 * ((H - 1) - (t3 * px + t4 * py + t5) * unit) - row.to(tl.float32)
    total = tl.zeros([PIXELS, BLOCK], tl.float32)
    down = 0
    while down < rows:
        across = 0
        while across < columns:
            to_c, to_r = away_c + t0 * across - t1 * down, away_r - t3 * across + t4 * down
            weight = tl.maximum(1.0 - tl.abs(to_c), 0.0) * tl.maximum(1.0 - tl.abs(to_r), 0.0)
            r, c = first_r + down, first_c + across
            inside = keep & (r < H) & (c < W) & (weight > 0.0)
            at = start + (r * W + c)[:, None] * T + k[None, :]
            value = tl.load(at, mask=inside[:, None] & inner[None, :], other=0.0)
            total += weight[:, None] * value
            across += 1
        down += 1
    goal = out + ((g.to(tl.int64) * P + q[:, None]) * S + s) * K + k[None, :]
    tl.store(goal, total, mask=keep[:, None] & inner[None, :])


@triton.jit
def _slope(
    at_output, at_input, theta, partial, P, K, S, channels,
    output_group, output_sample, output_row, input_group, input_sample, input_row,
    H: tl.constexpr, W: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Six sums over pixels and pictures: slope of sum_p out(p) sum_taps weight in(tap)."""
    g, s = tl.program_id(0) // S, tl.program_id(0) % S
    p = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    keep = p < P
    unit: tl.constexpr = H if H > W else W
    x, y, row_at, column_at = _point(theta + (g // channels * S + s) * 6, p // W, p % W, H, W)
    r0, c0 = tl.floor(row_at), tl.floor(column_at)
    fr, fc = row_at - r0, column_at - c0
    left = at_output + g.to(tl.int64) * output_group + s.to(tl.int64) * output_sample
    right = at_input + g.to(tl.int64) * input_group + s.to(tl.int64) * input_sample
    rows, columns = tl.zeros([PIXELS, BLOCK], tl.float32), tl.zeros([PIXELS, BLOCK], tl.float32)
    first = 0
    while first < K:
        k = first + tl.arange(0, BLOCK)
        inner = k < K
        mine = tl.load(
            left + p.to(tl.int64)[:, None] * output_row + k[None, :],
            mask=keep[:, None] & inner[None, :], other=0.0,
        )  # fmt: skip
        for a in tl.static_range(2):
            for b in tl.static_range(2):
                r, c = r0.to(tl.int32) + a, c0.to(tl.int32) + b
                inside = keep & (r >= 0) & (r < H) & (c >= 0) & (c < W)
                at = right + (r * W + c).to(tl.int64)[:, None] * input_row + k[None, :]
                value = tl.load(at, mask=inside[:, None] & inner[None, :], other=0.0)
                up = (fc if b == 1 else 1.0 - fc) * (1.0 if a == 1 else -1.0)
                along = (fr if a == 1 else 1.0 - fr) * (1.0 if b == 1 else -1.0)
                rows += mine * value * up[:, None]
                columns += mine * value * along[:, None]
        first += BLOCK
    to_row, to_column = tl.sum(rows, 1), tl.sum(columns, 1)
    gx, gy = to_column * (0.5 * unit), -to_row * (0.5 * unit)
    at_partial = partial + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 6
    tl.store(at_partial, tl.sum(gx * x, 0))
    tl.store(at_partial + 1, tl.sum(gx * y, 0))
    tl.store(at_partial + 2, tl.sum(gx, 0))
    tl.store(at_partial + 3, tl.sum(gy * x, 0))
    tl.store(at_partial + 4, tl.sum(gy * y, 0))
    tl.store(at_partial + 5, tl.sum(gy, 0))


def _block(pictures: int) -> int:
    return int(min(256, max(16, triton.next_power_of_2(pictures))))


def _strides(table: Tensor) -> tuple[int, int, int]:
    """Distances between groups, samples and rows of a table (G or 1, P, S or 1, K)."""
    group = table.stride(0) if table.shape[0] > 1 else 0
    sample = table.stride(2) if table.shape[2] > 1 else 0
    return group, sample, table.stride(1)


def move(kernel: Any, table: Tensor, theta: Tensor, groups: int, size: tuple[int, int]) -> Tensor:
    """Rows (G, P, S, K) of tables (G or 1, P, S or 1, K) resampled by theta (G / C, S, 6)."""
    pixels, pictures = table.shape[1], table.shape[3]
    samples = theta.shape[1]
    out = torch.empty(groups, pixels, samples, pictures, dtype=table.dtype, device=table.device)
    block = _block(pictures)
    grid = (groups * samples, triton.cdiv(pixels, _PIXELS), triton.cdiv(pictures, block))
    group, sample, row = _strides(table)
    channels = groups // len(theta)
    kernel[grid](
        table, theta, out, pixels, pictures, samples, row, channels, group, sample, *size,
        _PIXELS, block,
    )  # fmt: skip
    return out


def slope(
    at_output: Tensor, at_input: Tensor, theta: Tensor, groups: int, size: tuple[int, int]
) -> Tensor:
    """Gradient to theta (G / C, S, 6) of the sum over outputs times what they read."""
    pixels, pictures = at_output.shape[1], at_output.shape[3]
    samples, channels = theta.shape[1], groups // len(theta)
    blocks = triton.cdiv(pixels, _PIXELS)
    partial = torch.empty(groups, samples, blocks, 6, dtype=theta.dtype, device=theta.device)
    out_strides, in_strides = _strides(at_output), _strides(at_input)
    _slope[(groups * samples, blocks)](
        at_output, at_input, theta, partial, pixels, pictures, samples, channels,
        *out_strides, *in_strides, *size, _PIXELS, min(128, _block(pictures)),
    )  # fmt: skip
    return partial.reshape(len(theta), channels, samples, blocks, 6).sum((1, 3))


class FusedRows(torch.autograd.Function):
    """``gather`` (or its transpose) of tables (G or 1, P, K) by theta (G / C, S, 6)."""

    @staticmethod
    def forward(
        ctx: Any, tables: Tensor, theta: Tensor, groups: int, size: tuple[int, int], transpose: bool
    ) -> Tensor:
        """Rows (G, P, S, K)."""
        tables, theta = tables.contiguous(), theta.contiguous()
        ctx.save_for_backward(tables, theta)
        ctx.groups, ctx.size, ctx.transpose = groups, size, transpose
        return move(_scatter if transpose else _gather, tables[:, :, None], theta, groups, size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients to the tables and to the maps."""
        tables, theta = ctx.saved_tensors
        grad = grad.contiguous()
        to_tables = to_theta = None
        if ctx.needs_input_grad[0]:
            back = move(_gather if ctx.transpose else _scatter, grad, theta, ctx.groups, ctx.size)
            to_tables = back.sum(2)
            to_tables = to_tables.sum(0, keepdim=True) if len(tables) == 1 else to_tables
        if ctx.needs_input_grad[1]:
            # What is read (the input of a gather) and what reads; a transpose swaps them.
            here = tables[:, :, None]
            outer, inner = (here, grad) if ctx.transpose else (grad, here)
            to_theta = slope(outer, inner, theta, ctx.groups, ctx.size)
        return to_tables, to_theta, None, None, None
