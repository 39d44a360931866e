"""Triangular factors of tall matrices, whose rows arrive a few at a time."""

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats


class TriangularFactor:
    r"""The factor R of a matrix M = Q R whose rows arrive in batches, in float64.

    R has the singular values and the right singular vectors of M and at most p rows. It is updated
    by QR factorisations of R above the new rows, not through the Gram matrix M'M, whose smallest
    eigenvalues are lost in rounding as soon as a singular value is below 1e-8 of the largest.

    Args:
        columns: number p of columns.

    Example:
        >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> factor = TriangularFactor(3)
        >>> for part in rows.split(7):
        ...     factor.add(part)
        >>> factor.rows, torch.allclose(factor.matrix().T @ factor.matrix(), rows.T @ rows)
        (100, True)
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = 0
        self._kept: list[Tensor] = []
        self._held = 0

    def add(self, rows: Tensor) -> None:
        """Add rows (n, p)."""
        check_floats(rows, "rows", "n", self.columns)
        self.rows += len(rows)
        self._kept.append(rows.double())
        self._held += len(rows)
        if self._held > 4 * self.columns:
            self._reduce()

    def merge(self, other: "TriangularFactor") -> "TriangularFactor":
        """Return the factor of the rows of both."""
        both = TriangularFactor(self.columns)
        both._kept = [*self._kept, *other._kept]
        both._held = self._held + other._held
        both.rows = self.rows + other.rows
        both._reduce()
        return both

    def matrix(self) -> Tensor:
        """R, (at most p, p)."""
        self._reduce()
        return self._kept[0]

    def _reduce(self) -> None:
        empty = torch.zeros(0, self.columns, dtype=torch.float64)
        stacked = torch.cat(self._kept) if self._kept else empty
        if len(stacked) > self.columns:
            stacked = torch.linalg.qr(stacked, mode="r").R
        self._kept, self._held = [stacked], len(stacked)


def right_singular(matrix: Tensor, full: bool = False) -> tuple[Tensor, Tensor]:
    """Return singular values and right singular vectors (rows) of a matrix, also where they repeat.

    LAPACK's fast algorithm can fail for large matrices with repeated singular values. They are
    those of the matrix times a random rotation, which is tried then.

    Args:
        matrix: (n, p).
        full: whether to return p vectors also if n is less.
    """
    generator = torch.Generator().manual_seed(0)
    turn = torch.eye(matrix.shape[1], dtype=matrix.dtype)
    for _ in range(3):
        try:
            _, size, axes = torch.linalg.svd(matrix @ turn, full_matrices=full)
            return size, axes @ turn.T
        except RuntimeError:  # torch.linalg.LinAlgError is one
            drawn = torch.randn(turn.shape, generator=generator, dtype=matrix.dtype)
            turn = torch.linalg.qr(drawn).Q
    _, size, axes = torch.linalg.svd(matrix @ turn, full_matrices=full)
    return size, axes @ turn.T
