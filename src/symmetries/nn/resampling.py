"""Bilinear resampling as a sparse matrix, whose exact transpose costs the same.

A map of the plane sends every output pixel p to a point of the input, which bilinear
interpolation reads from four pixels: row p of a matrix M has at most four entries. ``gather``
applies M to the rows of a table, ``scatter`` applies its transpose; both are one weighted sum of
rows per pixel (``embedding_bag``), with gradients of the table and of the entries of M. On a GPU
:func:`resample` uses GPU kernels that never store the entries of M.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.actions.resample import sampling_grid
from symmetries.nn.plane_checks import exporting
from symmetries.ops.available import usable


@dataclass(frozen=True)
class Taps:
    """Entries of G x S sparse resampling matrices of P x P pixels.

    Args:
        index: (G, S, P, 4) int64, the input pixels of each output pixel.
        weight: (G, S, P, 4), their weights; 0 for a pixel outside the image.
    """

    index: Tensor
    weight: Tensor

    def dense(self) -> Tensor:
        """Return the dense matrices (G, S, P, P), as a slow reference for tests."""
        pixels = self.index.shape[2]
        full = self.weight.new_zeros(*self.index.shape[:3], pixels)
        return full.scatter_add(3, self.index, self.weight)

    def repeat(self, times: int) -> "Taps":
        """Repeat every matrix ``times`` times in a row: (G times, S, P, 4)."""
        if times == 1:
            return self
        index, weight = (part.repeat_interleave(times, 0) for part in (self.index, self.weight))
        return Taps(index, weight)


def bilinear_taps(theta: Tensor, height: int, width: int) -> Taps:
    """Return the taps of out(p) = in(theta p), with zero outside.

    Args:
        theta: (G, S, 2, 3), output point to input point, in half-image units (x right, y up).
        height: height of the images.
        width: width of the images.

    Example:
        >>> identity = torch.eye(3)[None, None, :2]
        >>> bilinear_taps(identity, 3, 3).dense()[0, 0].equal(torch.eye(9))
        True
    """
    if theta.ndim != 4 or theta.shape[2:] != (2, 3):
        raise invalid("theta", "shape (G, S, 2, 3)", f"shape {tuple(theta.shape)}", "reshape it")
    grid = sampling_grid(theta, height, width).flatten(2, 3)
    x = (grid[..., 0] + 1) * (width / 2) - 0.5
    y = (grid[..., 1] + 1) * (height / 2) - 0.5
    # Replace NaN, which cannot be converted to an index; the weights keep it.
    left, top = x.detach().floor().nan_to_num(), y.detach().floor().nan_to_num()
    fx, fy = x - left, y - top
    rows = torch.stack((top, top, top + 1, top + 1), -1)
    columns = torch.stack((left, left + 1, left, left + 1), -1)
    gx, gy = 1 - fx, 1 - fy
    weight = torch.stack((gy * gx, gy * fx, fy * gx, fy * fx), -1)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    index = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).long()
    return Taps(index, weight * inside)


def resample(
    tables: Tensor, theta: Tensor, height: int, width: int, channels: int, *, transpose: bool
) -> Tensor:
    """Resample rows by out(p) = in(theta p) (:func:`gather`), or by its transpose.

    Args:
        tables: (G, P, K) with G = R channels, or (1, P, K) for one shared table.
        theta: (R, S, 2, 3), shared by the channels of a run.
        height: height of the images.
        width: width of the images.
        channels: number of tables of each run.
        transpose: if True, apply the transpose.

    Returns:
        (G, P, S, K).
    """
    if usable(tables, theta) and min(height, width) > 1:
        from symmetries.ops.rows import KernelRows

        groups, maps = len(theta) * channels, theta.flatten(2)
        out: Tensor = KernelRows.apply(  # type: ignore[no-untyped-call]
            tables, maps, groups, (height, width), transpose
        )
        return out
    taps = bilinear_taps(theta, height, width).repeat(channels)
    return (scatter if transpose else gather)(tables, taps)


def gather(tables: Tensor, taps: Taps) -> Tensor:
    """Resample rows of each table by each of its matrices: out[g, :, s] = M_gs table_g.

    Pixels come before samples in the result, so it is a matrix (P, S K) for one large product.

    Args:
        tables: (G, P, K), or (1, P, K) for one shared table; their rows are pixels.
        taps: G x S matrices.

    Returns:
        (G, P, S, K).
    """
    groups, samples, pixels, _ = taps.index.shape
    index = taps.index.transpose(1, 2) + _first_row(tables, groups)[:, None, None, None]
    index, rows = index.reshape(-1, 4), tables.flatten(0, 1)
    weight = taps.weight.transpose(1, 2).reshape(-1, 4)
    if exporting():  # embedding_bag would be exported as a loop over pixels
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
    """Resample rows of each table by the transposes: out[g, :, s] = M_gs^T table_g.

    The entries are sorted by the pixel that they add to, so that every pixel is again one
    weighted sum of rows, without atomics and with the same result every time.

    Args:
        tables: (G, P, K), or (1, P, K) for one shared table.
        taps: G x S matrices.

    Returns:
        (G, P, S, K).
    """
    groups, samples, pixels, _ = taps.index.shape
    goals = groups * pixels * samples
    # Short integers are faster to sort, and counting them is cheaper than searching.
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
