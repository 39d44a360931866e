r"""Convolutions of many channels by Fourier transforms of tiles, for training on a CPU.

A tile of t x t outputs reads n x n inputs, n = t + k - 1. After a discrete Fourier transform of
size n the convolution is one product per frequency,

.. math:: \hat y(f) = \hat x(f)\,\overline{\hat w(f)}

each a matrix product over the channels. A complex product consists of three real ones, so an
output costs about 3 n (n / 2 + 1) / t^2 multiplications for each pair of channels where a
convolution has k^2 (2.6 for 25 with t = 16). Along each axis, tiling, padding and transform are one
constant matrix, and all steps are matrix products. Unlike Winograd's, the transform is orthogonal,
so rounding errors are those of a convolution.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from symmetries._validation.checks import check_floats, check_images, check_whole, invalid
from symmetries._validation.placement import check_like

TILE = 16  # approximate number of outputs along each side of a tile
GAIN = 3.0  # required reduction of multiplications; half of it is gained in time
TYPES = (torch.float32, torch.float64)


class _Transforms(NamedTuple):
    """Constant matrices for images of one size; re, im are the last but one axis where named.

    Args:
        rows_in: (frequencies tiles 2, W), from a row of pixels to its half spectra.
        columns_in: (tiles 3 n, 2 H), from a column of these to the three left factors.
        filters: (frequencies, 3 n, k k), from a filter to the three right factors.
        columns_out: (2 t, 3 n), from the three products back to columns of half spectra.
        rows_out: (t, 2 frequencies), from these back to a row of pixels.
        tiles: number of tiles along the height and the width.
        side: t, number of outputs of a tile along the height and the width.
    """

    rows_in: Tensor
    columns_in: Tensor
    filters: Tensor
    columns_out: Tensor
    rows_out: Tensor
    tiles: tuple[int, int]
    side: tuple[int, int]


def tile_conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:
    """Return the result of ``F.conv2d`` with stride 1, channels last in memory.

    Args:
        x: (N, C, H, W).
        weight: (O, C, k, k).
        bias: (O,), or None.
        padding: zeros on each side.

    Example:
        >>> x, weight = torch.rand(2, 3, 9, 7), torch.rand(4, 3, 5, 5)
        >>> direct = torch.nn.functional.conv2d(x, weight, padding=2)
        >>> torch.allclose(tile_conv2d(x, weight, None, 2), direct, atol=1e-5)
        True
    """
    check_images(x, "x")
    check_floats(weight, "weight", "O", x.shape[1], "k", "k")
    check_like(x, weight, "x")
    check_whole(padding, "padding", least=0)
    if bias is not None:
        check_floats(bias, "bias", len(weight))
        check_like(bias, weight, "bias")
    k, fits = weight.shape[-1], min(x.shape[2:]) + 2 * padding
    if weight.shape[-2] != k or k > fits:
        expected = f"square filters of at most {fits} x {fits}"
        raise invalid("weight", expected, f"shape {tuple(weight.shape)}", "use F.conv2d, or pad")
    y: Tensor = _TileConv.apply(x, weight, bias, padding)  # type: ignore[no-untyped-call]
    return y


def pays(x: Tensor, weight: Tensor, padding: int) -> bool:
    """Return whether tiles are faster: on a CPU, eagerly, with enough channels and pixels."""
    if x.device.type != "cpu" or x.dtype != weight.dtype or x.dtype not in TYPES:
        return False
    if torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if wrapped(x) or wrapped(weight) or not torch.backends.mkl.is_available():
        return False
    k, (images, _, height, width) = weight.shape[-1], x.shape
    outputs = images * (height + 2 * padding - k + 1) * (width + 2 * padding - k + 1)
    return GAIN * _multiplications(x.shape, weight.shape, padding) < outputs * weight.numel()


def _multiplications(image: torch.Size, filters: torch.Size, padding: int) -> int:
    """Return the number of multiplications of a forward pass by tiles, including its transforms.

    Example:
        >>> image, filters = torch.Size((32, 128, 32, 32)), torch.Size((128, 128, 5, 5))
        >>> round(_multiplications(image, filters, 2) / 1e9, 1)  # 13.4 for the convolution itself
        3.0
    """
    images, channels, height, width = image
    fields, _, k, _ = filters
    (down, t), (across, s) = (_tiling(size + 2 * padding - k + 1) for size in (height, width))
    n, half = t + k - 1, (s + k - 1) // 2 + 1
    points, tiles = 3 * n * half, down * across
    products = points * channels * fields * (images * tiles + k * k)
    inward = half * across * 2 * height * (width + 3 * n * down)
    outward = half * across * 2 * t * down * (3 * n + s)
    return products + images * (channels * inward + fields * outward)


def _tiling(size: int) -> tuple[int, int]:
    """Return the number of tiles, and the outputs of each, along an axis of ``size`` outputs."""
    tiles = max(1, round(size / TILE))
    return tiles, -(-size // tiles)


@lru_cache(maxsize=32)
def _transforms(height: int, width: int, k: int, padding: int, dtype: torch.dtype) -> _Transforms:
    """Return the matrices for images of a size, computed in float64."""
    down, t = _tiling(height + 2 * padding - k + 1)
    across, s = _tiling(width + 2 * padding - k + 1)
    n, m = t + k - 1, s + k - 1
    half = m // 2 + 1
    # a row: e^(-i f x), its real and its imaginary part
    cos, sin = _waves(half, m, m)
    rows_in = torch.einsum(
        "frx,axw->farw", torch.stack((cos, -sin), 1), _tiles(across, s, m, width, padding)
    )
    # a column: (a + i b) e^(-i g y) = u + i v, as u + v, u and v
    cos, sin = _waves(n, n, n)
    u, v = torch.stack((cos, sin), 1), torch.stack((-sin, cos), 1)
    three = torch.stack((u + v, u, v), 1)
    columns_in = torch.einsum("gcry,dyh->dgcrh", three, _tiles(down, t, n, height, padding))
    # a filter: conj(w) = p + i q, as p, q - p and p + q
    (row_cos, row_sin), (column_cos, column_sin) = _waves(half, k, m), _waves(n, k, n)
    p = torch.einsum("gy,fx->fgyx", column_cos, row_cos) - torch.einsum(
        "gy,fx->fgyx", column_sin, row_sin
    )
    q = torch.einsum("gy,fx->fgyx", column_sin, row_cos) + torch.einsum(
        "gy,fx->fgyx", column_cos, row_sin
    )
    filters = torch.stack((p, q - p, p + q), 2)
    # back: (u + v) p - v (p + q) and (u + v) p + u (q - p) are the parts of the product
    cos, sin = (wave.T for wave in _waves(n, t, n))
    real = torch.stack((cos - sin, -sin, -cos), -1)
    imaginary = torch.stack((cos + sin, cos, -sin), -1)
    columns_out = torch.stack((real, imaginary))
    cos, sin = (wave.T for wave in _waves(half, s, m))
    twice = torch.full((half,), 2.0, dtype=torch.float64)  # each stands for its conjugate too,
    twice[0] = 1  # except the real ones
    if m % 2 == 0:
        twice[-1] = 1
    rows_out = torch.stack((cos, -sin), -1) * twice[:, None] / (n * m)
    parts = (
        rows_in.reshape(-1, width),
        columns_in.reshape(-1, 2 * height),
        filters.reshape(half, -1, k * k),
        columns_out.reshape(2 * t, -1),
        rows_out.reshape(s, -1),
    )
    found = [part.to(dtype).contiguous() for part in parts]
    tensors = (found[0], found[1], found[2], found[3], found[4])
    return _Transforms(*tensors, (down, across), (t, s))


def _waves(frequencies: int, points: int, period: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of 2 pi f x / period, (frequencies, points)."""
    steps = torch.arange(frequencies)[:, None] * torch.arange(points) % period
    phase = 2 * math.pi * steps.double() / period
    return phase.cos(), phase.sin()


def _tiles(tiles: int, side: int, n: int, size: int, padding: int) -> Tensor:
    """Return (tiles, n, size): the one-hot pixel of each input of each tile; zero for padding."""
    source = torch.arange(tiles)[:, None] * side - padding + torch.arange(n)
    return (source[:, :, None] == torch.arange(size)).double()


class _TileConv(torch.autograd.Function):
    """Autograd function that goes frequency by frequency along the rows, to stay in the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> Tensor:  # noqa: ANN401
        fields, channels, k, _ = weight.shape
        images, _, height, width = x.shape
        m, spread = _prepared(x, weight, padding)
        (down, across), (t, s) = m.tiles, m.side
        half, points, _ = m.filters.shape
        pixels = x.permute(0, 2, 3, 1)
        spectra = torch.matmul(m.rows_in, pixels).view(images, height, half, across, 2, channels)
        back = x.new_empty(images, down, t, across, half, 2, fields)
        factors = []
        for f in range(half):
            columns = spectra[:, :, f].permute(0, 2, 3, 1, 4).reshape(-1, 2 * height, channels)
            left = torch.matmul(m.columns_in, columns).view(-1, points, channels).transpose(0, 1)
            right = (m.filters[f] @ spread).view(points, channels, fields)
            product = torch.bmm(left, right).transpose(0, 1)
            columns = torch.matmul(m.columns_out, product)
            columns = columns.view(images, across, down, 2, t, fields)
            back[:, :, :, :, f] = columns.permute(0, 2, 4, 1, 3, 5)
            factors.append(left)
        rows = torch.matmul(m.rows_out, back.flatten(4, 5))
        y = rows.view(images, down * t, across * s, fields)
        y = y[:, : height + 2 * padding - k + 1, : width + 2 * padding - k + 1].contiguous()
        if bias is not None:
            y += bias
        ctx.save_for_backward(x, weight, *factors)
        ctx.padding = padding
        return y.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, weight, *factors = ctx.saved_tensors
        by_bias = gradient.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        if torch.is_grad_enabled():  # a second derivative is needed
            by_x = conv2d_input(x.shape, weight, gradient, padding=ctx.padding)
            by_weight = conv2d_weight(x, weight.shape, gradient, padding=ctx.padding)
            return by_x, by_weight, by_bias, None
        wanted = ctx.needs_input_grad[:2]
        return *_gradients(x, weight, gradient, factors, ctx.padding, wanted), by_bias, None


def _prepared(x: Tensor, weight: Tensor, padding: int) -> tuple[_Transforms, Tensor]:
    """Return the matrices for these images, and the filters as (k k, C O)."""
    k = weight.shape[-1]
    m = _transforms(x.shape[2], x.shape[3], k, padding, x.dtype)
    return m, weight.permute(2, 3, 1, 0).reshape(k * k, -1)


def _gradients(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    factors: list[Tensor],
    padding: int,
    wanted: tuple[bool, ...],
) -> tuple[Tensor | None, Tensor | None]:
    """Return gradients of x and the weight: the same products with every matrix transposed."""
    fields, channels, k, _ = weight.shape
    images, height = x.shape[0], x.shape[2]
    m, spread = _prepared(x, weight, padding)
    (down, across), (t, s) = m.tiles, m.side
    half, points, _ = m.filters.shape
    gradient = gradient.permute(0, 2, 3, 1)
    missing = (across * s - gradient.shape[2], down * t - gradient.shape[1])
    if any(missing):
        gradient = torch.nn.functional.pad(gradient, (0, 0, 0, missing[0], 0, missing[1]))
    rows = gradient.reshape(images, down, t, across, s, fields)
    back = torch.matmul(m.rows_out.T, rows).view(images, down, t, across, half, 2, fields)
    spectra = x.new_empty(images, height, half, across, 2, channels)
    by_spread = torch.zeros_like(spread)
    for f in range(half):
        columns = back[:, :, :, :, f].permute(0, 3, 1, 4, 2, 5).reshape(-1, 2 * t, fields)
        product = torch.matmul(m.columns_out.T, columns).transpose(0, 1)
        if wanted[1]:
            by_right = torch.bmm(factors[f].transpose(1, 2), product)
            by_spread.addmm_(m.filters[f].T, by_right.view(points, -1))
        if wanted[0]:
            right = (m.filters[f] @ spread).view(points, channels, fields)
            left = torch.bmm(product, right.transpose(1, 2))
            left = left.view(points, -1, down, channels).permute(1, 2, 0, 3)
            columns = torch.matmul(m.columns_in.T, left.reshape(-1, down * points, channels))
            columns = columns.view(images, across, 2, height, channels)
            spectra[:, :, f] = columns.permute(0, 3, 1, 2, 4)
    by_x = by_weight = None
    if wanted[0]:
        by_x = torch.matmul(m.rows_in.T, spectra.flatten(2, 4)).permute(0, 3, 1, 2)
    if wanted[1]:
        by_weight = by_spread.view(k, k, channels, fields).permute(3, 2, 0, 1)
    return by_x, by_weight
