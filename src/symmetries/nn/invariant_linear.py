"""Linear layer on images whose filters are transformed."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from symmetries._utils.exporting import exporting
from symmetries._validation.checks import (
    check_choice,
    check_chw,
    check_floats,
    check_number,
    check_tensors,
    check_whole,
    invalid,
)
from symmetries._validation.placement import check_like
from symmetries.ops.gaussian_blur import gaussian_blur
from symmetries.ops.resample_rows import resample_rows
from symmetries.ops.warp import warp

Side = Literal["auto", "weights", "inputs"]
SIDES = ("auto", "weights", "inputs")


class InvariantLinear(nn.Module):
    r"""Responses of filters W transformed by T: (W T) x = W (T x).

    The filter at the point p is read at T p (bilinear, zero outside), which is a sparse matrix on
    the right of W. By associativity the same numbers come from the transposed matrix applied to
    the input (a scatter). The layer transforms whichever has fewer images, the batch or the
    filters; results and gradients are equal up to rounding. Averaging a function of the
    responses over T makes it invariant (van der Ouderaa and van der Wilk 2022, section 3.2).

    Several models (runs) can be computed as one. Each has its own transformations, its own filters
    unless ``shared``, and its own images if they have an axis for runs.

    Args:
        shape: (C, H, W) of images and filters.
        units: number of filters.
        bias: whether each filter has a learned offset.
        runs: number R of models.
        shared: whether all runs use the same filters.
        side: "auto", "weights" or "inputs".
        blur: standard deviation, in half-image units, of a Gaussian blur of the filters.
        generator: random generator of the initial weights.

    Example:
        >>> layer = InvariantLinear((1, 8, 8), 16)
        >>> half_turn = torch.diag(torch.tensor([-1.0, -1.0, 1.0]))
        >>> layer(torch.rand(5, 1, 8, 8), half_turn[None]).shape  # one transformation
        torch.Size([1, 5, 16])
        >>> layer.chosen_side(batch=5)  # that of the filters, for more than 16 / 4 images
        'weights'
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        units: int,
        *,
        bias: bool = True,
        runs: int = 1,
        shared: bool = False,
        side: Side = "auto",
        blur: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_choice(side, SIDES, "side")
        check_chw(shape)
        check_whole(units, "units")
        check_whole(runs, "runs")
        check_number(blur, "blur", least=0)
        self.shape = tuple(shape)
        self.units = units
        self.runs = runs
        self.side = side
        self.blur = blur
        banks = 1 if shared else runs
        bound = 1 / math.sqrt(math.prod(shape))  # torch's own initialisation of a linear layer
        start = torch.rand(units, *shape, generator=generator) * 2 - 1
        self.weight = nn.Parameter((start * bound).expand(banks, units, *shape).clone())
        offset = (torch.rand(units, generator=generator) * 2 - 1) * bound
        self.bias = nn.Parameter(offset.expand(banks, units).clone()) if bias else None
        if blur:  # separable: two small products
            rows, columns = _blur_matrices(shape[1], shape[2], blur)
            self.register_buffer("_rows", rows, persistent=False)
            self.register_buffer("_columns", columns, persistent=False)
            self._rows: Tensor
            self._columns: Tensor

    def filters(self) -> Tensor:
        """Return the filters (R or 1, units, C, H, W), blurred if ``blur`` is set."""
        if not self.blur:
            return self.weight
        return self._rows @ self.weight @ self._columns.T

    def forward(self, images: Tensor, transformation: Tensor) -> Tensor:
        """Return the responses of every transformed filter to every image.

        Args:
            images: (B, C, H, W), or (R, B, C, H, W) with separate images for each run.
            transformation: matrices (S, 3, 3), or (R, S, 3, 3) for several runs.

        Returns:
            (S, B, units) for matrices (S, 3, 3), else (R, S, B, units).
        """
        check_tensors(transformation=transformation)
        single = transformation.ndim == 3
        out = self.responses(images, transformation[None] if single else transformation)
        if self.bias is not None:
            out = out + self.bias[:, None, None]
        return out.squeeze(0) if single else out

    def responses(self, images: Tensor, matrices: Tensor) -> Tensor:
        """Return responses (R, S, B, units) without the bias, for matrices (R, S, 3, 3)."""
        self._check(images, matrices)
        pictures = images if images.ndim == 5 else images[None]
        theta = matrices[:, :, :2]
        filters = self.filters().flatten(3)
        pixels = pictures.flatten(3)
        if self._side(pictures.shape[1]) == "inputs":
            return self._on_inputs(filters, pixels, theta)
        return self._on_weights(filters, pixels, theta)

    def _on_inputs(self, filters: Tensor, pixels: Tensor, theta: Tensor) -> Tensor:
        """Return responses of filters (R or 1, U, C, P) to transformed images (R or 1, B, C, P)."""
        runs, samples = theta.shape[:2]
        tables, batch = _tables(pixels, runs), pixels.shape[1]
        channels, height, width = self.shape
        moved = resample_rows(tables, theta, height, width, channels, transpose=True)
        moved = moved.reshape(runs, -1, samples * batch)
        out = _product(moved.transpose(1, 2), filters.flatten(2).transpose(1, 2))
        return out.unflatten(1, (samples, batch))

    def _on_weights(self, filters: Tensor, pixels: Tensor, theta: Tensor) -> Tensor:
        """Return the same responses from transformed filters."""
        runs, samples = theta.shape[:2]
        tables, units = _tables(filters, runs), filters.shape[1]
        channels, height, width = self.shape
        moved = resample_rows(tables, theta, height, width, channels, transpose=False)
        out = _product(pixels.flatten(2), moved.reshape(runs, -1, samples * units))
        return out.unflatten(2, (samples, units)).transpose(1, 2)

    def chosen_side(self, batch: int) -> str:
        """Return what is transformed for a batch of this size: "inputs" or "weights"."""
        check_whole(batch, "batch", least=0)
        return self._side(batch)

    def _side(self, batch: int) -> str:
        if self.side != "auto":
            return self.side
        if exporting():  # the exported program serves batches of all sizes
            return "weights"
        # If filters are learned, transforming them saves one of three products.
        learned = self.weight.requires_grad and torch.is_grad_enabled()
        return "inputs" if batch <= self.units // (4 if learned else 1) else "weights"

    def bank(self, transformation: Tensor) -> Tensor:
        """Return the transformed filters (S, units, C, H, W) of the first run, for figures."""
        theta = transformation[:, None, :2].expand(-1, self.units, -1, -1).flatten(0, 1)
        filters = self.filters()[0]
        copies = filters.expand(len(transformation), *filters.shape).flatten(0, 1)
        return warp(copies, theta).reshape(-1, *filters.shape)

    def _check(self, images: Tensor, matrices: Tensor) -> None:
        check_floats(matrices, "transformation", "...", 3, 3)
        check_floats(images, "images", "...", "C", "H", "W")
        check_like(images, self.weight, "images")
        check_like(matrices, self.weight, "transformation")
        if matrices.ndim != 4 or matrices.shape[2:] != (3, 3) or len(matrices) != self.runs:
            expected = f"shape ({self.runs}, S, 3, 3)"
            expected += ", or (S, 3, 3) when the layer is called" if self.runs == 1 else ""
            shape = f"shape {tuple(matrices.shape)}"
            raise invalid("transformation", expected, shape, "use group.exp(eta)")
        if images.numel() == 0 or matrices.numel() == 0:
            got = f"shapes {tuple(images.shape)} and {tuple(matrices.shape)}"
            raise invalid("images", "at least one, and one transformation", got, "check the loader")
        lead = images.shape[:-4] if images.ndim in (4, 5) else None
        if lead not in ((), (self.runs,)) or images.shape[-3:] != self.shape:
            size = ", ".join(map(str, self.shape))
            expected = f"shape (B, {size}) or ({self.runs}, B, {size})"
            shape = f"shape {tuple(images.shape)}"
            raise invalid("images", expected, shape, "a layer reads the size it was made for")

    def extra_repr(self) -> str:
        """Return the arguments shown by print(layer)."""
        return f"{self.shape}, units={self.units}, runs={self.runs}"


def _blur_matrices(height: int, width: int, blur: float) -> tuple[Tensor, Tensor]:
    """Return matrices of a Gaussian blur on columns (H, H) and on rows (W, W) of an image."""
    along_y = torch.eye(height)[:, None, :, None].expand(-1, 1, -1, width)
    along_x = torch.eye(width)[:, None, None, :].expand(-1, 1, height, -1)
    rows = gaussian_blur(along_y, blur)[:, 0, :, 0].T
    columns = gaussian_blur(along_x, blur)[:, 0, 0].T
    return rows.contiguous(), columns.contiguous()


def _tables(pictures: Tensor, runs: int) -> Tensor:
    """Return tables (R C, P, B) of images (R or 1, B, C, P); a single one if all are shared."""
    if pictures.shape[2] > 1:
        pictures = pictures.expand(runs, -1, -1, -1)
    return pictures.permute(0, 2, 3, 1).flatten(0, 1).contiguous()


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return a batched product in which either side may be shared by all (a first axis of 1)."""
    if len(a) == len(b) == 1:  # squeeze instead of indexing, whose gradient is a copy
        return (a.squeeze(0) @ b.squeeze(0)).unsqueeze(0)
    runs = max(len(a), len(b))
    return torch.bmm(a.expand(runs, -1, -1), b.expand(runs, -1, -1))
