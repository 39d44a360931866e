"""Bilinear resampling as a sparse matrix, so that it and its exact transpose cost the same.

A map of the plane sends every output pixel p to a point of the input, which bilinear
interpolation reads from four pixels: row p of a matrix M has at most four entries. ``gather``
applies M to the rows of a table, ``scatter`` applies its transpose; both are one weighted sum of
rows per pixel (``embedding_bag``), with gradients to the table and to the entries of M. The fused
form of :func:`resample_rows` never writes the entries of M.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.caching import constant
from symmetries._utils.exporting import exporting
from symmetries._validation.checks import invalid
from symmetries._validation.placement import exact_products
from symmetries.ops._dispatch import usable


@dataclass(frozen=True)
class Taps:
    """The entries of G x S sparse resampling matrices of P x P pixels.

    Args:
        index: (G, S, P, 4) int64, the input pixels that make up each output pixel.
        weight: (G, S, P, 4), their shares; 0 for a pixel outside of the image.
    """

    index: Tensor
    weight: Tensor

    def dense(self) -> Tensor:
        """Return the dense matrices (G, S, P, P), for tests."""
        pixels = self.index.shape[2]
        full = self.weight.new_zeros(*self.index.shape[:3], pixels)
        return full.scatter_add(3, self.index, self.weight)

    def repeat(self, times: int) -> "Taps":
        """Return each matrix repeated ``times`` times: (G times, S, P, 4)."""
        if times == 1:
            return self
        index, weight = (part.repeat_interleave(times, 0) for part in (self.index, self.weight))
        return Taps(index, weight)


def resample_rows(
    tables: Tensor, theta: Tensor, height: int, width: int, channels: int, *, transpose: bool
) -> Tensor:
    """Resample the rows of tables by out(p) = in(theta p), or by the transpose of that map.

    A table holds K pictures side by side: row p has the values of pixel p in all of them. With M
    the bilinear resampling matrix of theta, the result is M table, or M' table for the transpose.

    Args:
        tables: (G, P, K) with G = R channels, or (1, P, K) for one table for all.
        theta: (R, S, 2, 3), shared by the channels of a run; points in half-image units.
        height: of the pictures.
        width: of the pictures.
        channels: tables of each run.
        transpose: whether to apply the transpose.

    Returns:
        (G, P, S, K).

    Example:
        >>> table = torch.arange(4.0)[None, :, None]  # a picture of 2 x 2 pixels
        >>> half_turn = torch.tensor([[[[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]]])
        >>> resample_rows(table, half_turn, 2, 2, 1, transpose=False).flatten().tolist()
        [3.0, 2.0, 1.0, 0.0]
    """
    if usable("resample_rows", tables, theta) and min(height, width) > 1:
        from symmetries.ops.triton.resample_rows import FusedRows

        groups, maps = len(theta) * channels, theta.flatten(2)
        return FusedRows.apply(  # type: ignore[no-untyped-call]
            tables, maps, groups, (height, width), transpose
        )
    taps = bilinear_taps(theta, height, width).repeat(channels)
    return (scatter if transpose else gather)(tables, taps)


@constant
def _points(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the homogeneous pixel centres (3, P) for half-image units, scaled to pixels."""
    u = torch.arange(width, dtype=torch.float64) - (width - 1) / 2
    v = (height - 1) / 2 - torch.arange(height, dtype=torch.float64)
    unit = torch.full((height, width), max(height, width) / 2, dtype=torch.float64)
    points = torch.stack((u.expand(height, width), v[:, None].expand(height, width), unit))
    return points.flatten(1).to(dtype=dtype, device=device)


def bilinear_taps(theta: Tensor, height: int, width: int) -> Taps:
    """Taps of out(p) = in(theta p), with zero outside.

    Args:
        theta: (G, S, 2, 3), output point to input point, in half-image units (x right, y up).
        height: of the images.
        width: of the images.

    Example:
        >>> identity = torch.eye(3)[None, None, :2]
        >>> bilinear_taps(identity, 3, 3).dense()[0, 0].equal(torch.eye(9))
        True
    """
    if theta.ndim != 4 or theta.shape[2:] != (2, 3):
        raise invalid("theta", "shape (G, S, 2, 3)", f"shape {tuple(theta.shape)}", "reshape it")
    points = _points(height, width, theta.dtype, theta.device)
    with exact_products(theta):
        x, y = (theta.reshape(-1, 3) @ points).unflatten(0, theta.shape[:3]).unbind(2)
    x, y = x + (width - 1) / 2, (height - 1) / 2 - y  # columns and rows
    # Without NaN, of which no index can be made; the weights keep it.
    left, top = x.detach().floor().nan_to_num(), y.detach().floor().nan_to_num()
    fx, fy = x - left, y - top
    rows = torch.stack((top, top, top + 1, top + 1), -1)
    columns = torch.stack((left, left + 1, left, left + 1), -1)
    gx, gy = 1 - fx, 1 - fy
    weight = torch.stack((gy * gx, gy * fx, fy * gx, fy * fx), -1)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    index = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).long()
    return Taps(index, weight * inside)


def gather(tables: Tensor, taps: Taps) -> Tensor:
    """Rows of each table resampled by each of its matrices: out[g, :, s] = M_gs table_g.

    Pixels come before samples in the result, which makes it a matrix (P, S K) ready for one
    large product.

    Args:
        tables: (G, P, K), or (1, P, K) for one table for all; their rows are pixels.
        taps: G x S matrices.

    Returns:
        (G, P, S, K).
    """
    groups, samples, pixels, _ = taps.index.shape
    index = taps.index.transpose(1, 2) + _first_row(tables, groups)[:, None, None, None]
    index, rows = index.reshape(-1, 4), tables.flatten(0, 1)
    weight = taps.weight.transpose(1, 2).reshape(-1, 4)
    if exporting():  # where an embedding_bag would become a loop over pixels
        flat = sum_of_rows(index, rows, weight)
    else:
        flat = F.embedding_bag(index, rows, mode="sum", per_sample_weights=weight)
    return flat.reshape(groups, pixels, samples, tables.shape[2])


def sum_of_rows(index: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Return weighted sums (N, K) of rows (M, K), given indices (N, 4) and weights (N, 4).

    Example:
        >>> index, weight = torch.tensor([[0, 1, 1, 2]]), torch.tensor([[1.0, 0.5, 0.5, 0.0]])
        >>> sum_of_rows(index, torch.tensor([[1.0], [10.0], [100.0]]), weight)
        tensor([[11.]])
    """
    total = rows.index_select(0, index[:, 0]) * weight[:, 0, None]
    for tap in (1, 2, 3):
        total = total + rows.index_select(0, index[:, tap]) * weight[:, tap, None]
    return total


def scatter(tables: Tensor, taps: Taps) -> Tensor:
    """Rows of each table resampled by the transposes: out[g, :, s] = M_gs^T table_g.

    The entries are sorted by the pixel that they add to, so that every pixel is again one
    weighted sum of rows: no atomics, the same result every time.

    Args:
        tables: (G, P, K), or (1, P, K) for one table for all.
        taps: G x S matrices.

    Returns:
        (G, P, S, K).
    """
    groups, samples, pixels, _ = taps.index.shape
    goals = groups * pixels * samples
    # Short numbers are sorted in less time, and counting them is cheaper than looking for them.
    kinds = (torch.int16, torch.int32, torch.int64)
    kind = next(kind for kind in kinds if goals <= torch.iinfo(kind).max)
    device = tables.device
    group = torch.arange(groups, dtype=kind, device=device)[:, None, None, None] * pixels
    sample = torch.arange(samples, dtype=kind, device=device)[:, None, None]
    target = ((group + taps.index.to(kind)) * samples + sample).flatten()
    order = torch.sort(target)[1]
    after = target.long() + 1
    counts = torch.zeros(goals + 1, dtype=torch.int64, device=device)
    bags = counts.scatter_add_(0, after, torch.ones_like(after)).cumsum(0)[:-1]
    source = torch.arange(pixels, device=device)[:, None] + _first_row(tables, groups)[
        :, None, None, None
    ].expand(groups, samples, 1, 4)
    flat = F.embedding_bag(
        source.flatten().index_select(0, order),
        tables.flatten(0, 1),
        bags,
        mode="sum",
        per_sample_weights=taps.weight.flatten().index_select(0, order),
    )
    return flat.reshape(groups, pixels, samples, tables.shape[2])


def _first_row(tables: Tensor, groups: int) -> Tensor:
    """Return the first row (G,) of the table of each group."""
    step = tables.shape[1] if len(tables) > 1 else 0
    return torch.arange(groups, device=tables.device) * step
