"""Coupling layer of a flow: splines of some coordinates, given the others and a context."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from symmetries.ops import is_followed
from symmetries.ops.gelu_norm import gelu_norm
from symmetries.ops.rational_quadratic import circular_spline, rational_quadratic, spline_rows

HALF = 3.0  # splines live on [-3, 3]
Rows = tuple[Tensor, ...]


class Coupling(nn.Module):
    """Transforms some of the coordinates u by splines, given the others and the context.

    Coordinates are separate rows (N,), because indexing a matrix would create a matrix of zeros
    in the backward pass.
    """

    def __init__(
        self, bent: Sequence[int], circular: Sequence[bool], bins: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        dim = len(circular)
        self.kept = [i for i in range(dim) if i not in bent]
        self.kept_circular = [circular[i] for i in self.kept]
        self.straight = [i for i in bent if not circular[i]]
        self.around = [i for i in bent if circular[i]]
        inputs = len(self.kept) + sum(self.kept_circular)
        self.read = nn.Linear(inputs, hidden, bias=False) if inputs else None
        self.norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)
        self.rows = (spline_rows(bins, circular=False), spline_rows(bins, circular=True))
        self.sizes = (len(self.straight) * self.rows[0], len(self.around) * self.rows[1])
        self.weight = nn.Parameter(torch.zeros(sum(self.sizes), hidden))
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes), 1))

    def forward(
        self, u: Rows, projected: Tensor, bias: Tensor, *, inverse: bool
    ) -> tuple[Rows, list[Tensor]]:
        """Return the coordinates, and log-slopes to be summed.

        ``projected`` is overwritten if no gradient is needed.
        """
        if self.read is None:
            hidden = projected + bias
        else:  # the bias is an additional input, which is cheaper than adding it to wide rows
            read = torch.cat((self.read.weight, bias[:, None]), 1)
            add = torch.addmm if is_followed(projected, read, *u) else Tensor.addmm_
            hidden = add(projected, self._inputs(u), read.T)
        hidden = self.dropout(gelu_norm(hidden, self.norm, own=True))
        parameters = torch.addmm(self.bias, self.weight, hidden.T)  # rows first, as splines need
        straight, around = parameters.split(self.sizes)
        bent, log_slopes = list(u), []
        for index, part, rows, spline in (
            (self.straight, straight, self.rows[0], rational_quadratic),
            (self.around, around, self.rows[1], circular_spline),
        ):
            if index:
                part = part.reshape(rows, len(index), -1)
                y, log_slope = spline(stacked(u, index), part, HALF, inverse=inverse)
                log_slopes.append(log_slope)
                for i, row in zip(index, y.unbind(0), strict=True):
                    bent[i] = row
        return tuple(bent), log_slopes

    def _inputs(self, u: Rows) -> Tensor:
        columns = []
        for i, circular in zip(self.kept, self.kept_circular, strict=True):
            if circular:
                angle = u[i] * (math.pi / HALF)
                columns += [torch.cos(angle), torch.sin(angle)]
            else:
                columns.append(u[i])
        return torch.stack((*columns, torch.ones_like(columns[0])), -1)


def stacked(u: Rows, index: Sequence[int]) -> Tensor:
    """Stack some of the rows to a matrix."""
    return torch.stack([u[i] for i in index])


def bent_by(layer: int, dim: int) -> list[int]:
    """Return the coordinates that a layer transforms: even and odd in turn, or the only one."""
    return [0] if dim == 1 else [i for i in range(dim) if i % 2 == layer % 2]
