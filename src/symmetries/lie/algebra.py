"""Lie algebras of matrices: brackets, structure constants, Killing form, radical, simple ideals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.groups.matrix import structure_constants

SPLIT = 28  # largest dimension whose simple ideals are looked for
STAYS = 0.05  # of a field: shifts below it are errors
EXACT = 1e-7  # below this, singular values of exact algebras are zero


@dataclass(frozen=True)
class Algebra:
    """A Lie algebra that is spanned by independent matrices G_i.

    Args:
        matrices: (k, n, n).
        constants: c with [G_i, G_j] = sum_l c_ijl G_l, (k, k, k), by least squares.
        closure: largest norm of what is left of a bracket of two orthonormal members outside the
            span; 0 for a Lie algebra.
        tolerance: singular values below it count as zero.
    """

    matrices: Tensor
    constants: Tensor
    closure: float
    tolerance: float

    @property
    def dim(self) -> int:
        """Dimension k."""
        return len(self.matrices)

    @property
    def killing(self) -> Tensor:
        """The Killing form K_ij = tr(ad_i ad_j), (k, k)."""
        return torch.einsum("ial,jla->ij", self.constants, self.constants)

    @property
    def abelian(self) -> bool:
        """Whether all brackets vanish."""
        return self.dim == 0 or float(self.constants.abs().max()) <= self.tolerance

    def derived(self) -> Tensor:
        """Return coefficients (r, k) of a basis of [g, g]."""
        return row_space(self.constants.reshape(-1, self.dim), self.tolerance)

    def radical(self) -> Tensor:
        """Return coefficients (r, k) of a basis of the radical: all x with K(x, [g, g]) = 0."""
        derived = self.derived()
        scale = max(1.0, float(self.killing.abs().max())) if self.dim else 1.0
        return null_space(derived @ self.killing / scale, self.tolerance)

    def centre(self) -> Tensor:
        """Return coefficients (r, k) of a basis of the centre."""
        table = self.constants.reshape(self.dim, -1).T  # [x, G_j]_l for x = G_i
        return null_space(table, self.tolerance)

    def part(self, coefficients: Tensor) -> "Algebra":
        """Return the algebra that is spanned by combinations (r, k) of the matrices."""
        chosen = torch.einsum("rk,kab->rab", coefficients, self.matrices)
        return algebra(chosen, self.tolerance)

    def semisimple_quotient(self) -> "tuple[Tensor, Tensor]":
        """Structure constants (s, s, s) of g / radical, and the complement (s, k) that it is on."""
        inside = self.radical()
        rest = null_space(inside, EXACT) if len(inside) else torch.eye(self.dim).double()
        constants = torch.einsum("ia,jb,abl,cl->ijc", rest, rest, self.constants, rest)
        return constants, rest


def algebra(matrices: Tensor, tolerance: float | None = None) -> Algebra:
    """Return the Lie algebra of matrices (k, n, n), which are made orthonormal.

    Args:
        matrices: linearly independent.
        tolerance: for zeros; by default 1e-7, or three times the error of closure if larger.
    """
    if len(matrices) == 0:
        empty = torch.zeros(0, 0, 0, dtype=torch.float64)
        return Algebra(matrices.double(), empty, 0.0, tolerance or EXACT)
    basis, constants, closure = structure_constants(matrices)
    return Algebra(basis, constants, closure, max(tolerance or EXACT, 3 * closure))


def simple_ideals(constants: Tensor, tolerance: float) -> list[Tensor]:
    """Bases (r_i, s), each of one simple ideal, of a semisimple algebra by structure constants.

    Maps that commute with all of ad(g) are multiples of the identity on each simple ideal, or
    complex multiples where the ideal has a complex structure; the eigenspaces of one of them that
    is drawn at random are the ideals. Above dimension 28 the algebra is returned undivided.
    """
    size = len(constants)
    if size == 0:
        return []
    if size > SPLIT:  # the equations below would not fit into memory
        return [torch.eye(size, dtype=constants.dtype)]
    ad = constants.transpose(1, 2)  # ad_i as matrices: column j is [G_i, G_j]
    unit = torch.eye(size, dtype=ad.dtype)
    system = torch.einsum("iab,cd->iacbd", ad, unit) - torch.einsum("ac,idb->iabcd", unit, ad)
    commuting = null_space(system.reshape(-1, size * size), tolerance)
    if len(commuting) <= 1:
        return [unit]
    generator = torch.Generator().manual_seed(0)
    best = [unit]
    for _ in range(3):  # eigenvalues of two ideals may be near each other by chance, in one of them
        weights = torch.randn(len(commuting), generator=generator, dtype=ad.dtype)
        found = _eigenspaces((weights @ commuting).reshape(size, size), max(0.02, 3 * tolerance))
        if len(found) > len(best) and min(map(len, found)) > 2:  # as simple algebras have
            best = found
    return best


def _eigenspaces(matrix: Tensor, apart: float) -> list[Tensor]:
    """Real bases (r_i, s) of the eigenspaces of a matrix, of pairs of conjugate values together."""
    try:
        values, vectors = torch.linalg.eig(matrix)
    except RuntimeError:  # LAPACK can fail to converge
        return []
    keys = torch.stack((values.real, values.imag.abs()), -1)
    scale = float(keys.norm(dim=-1).max())
    found: list[Tensor] = []
    free = torch.ones(len(matrix), dtype=torch.bool)
    for index in range(len(matrix)):
        if free[index]:
            near = ((keys - keys[index]).norm(dim=-1) <= apart * scale) & free
            free &= ~near
            columns = vectors[:, near]
            found.append(row_space(torch.cat((columns.real, columns.imag), 1).T, EXACT))
    return found


def signature(form: Tensor, tolerance: float = 1e-7) -> tuple[int, int]:
    """Return numbers of positive and of negative eigenvalues of a symmetric form.

    Example:
        >>> signature(torch.diag(torch.tensor([1.0, -2.0, -3.0, 0.0])))
        (1, 2)
    """
    values = torch.linalg.eigvalsh((form + form.T) / 2)
    size = float(values.abs().max()) if values.numel() else 0.0
    return int((values > tolerance * size).sum()), int((values < -tolerance * size).sum())


def row_space(rows: Tensor, tolerance: float) -> Tensor:
    """An orthonormal basis (r, k) of the row space, of singular values above the tolerance."""
    if rows.numel() == 0:
        return rows.new_zeros(0, rows.shape[-1])
    _, size, axes = torch.linalg.svd(rows, full_matrices=False)
    kept: Tensor = axes[size > tolerance * max(1.0, float(size[0]))]
    return kept


def null_space(rows: Tensor, tolerance: float) -> Tensor:
    """An orthonormal basis (r, k) of the null space, of singular values below the tolerance."""
    columns = rows.shape[-1]
    if rows.numel() == 0:
        return torch.eye(columns, dtype=rows.dtype)
    if len(rows) > columns:
        rows = torch.linalg.qr(rows, mode="r").R
    _, size, axes = torch.linalg.svd(rows, full_matrices=True)
    rank = int((size > tolerance * max(1.0, float(size[0]))).sum())
    rest: Tensor = axes[rank:]
    return rest


def shifts_that_stay(matrices: Tensor, translations: Tensor) -> Tensor:
    """Return directions (r, d) in which fields A x + b shift whatever point is the origin.

    Rotations about any point leave a point alone; a screw does not. Fields may be changed by
    translations, which are members, too.

    Args:
        matrices: homogeneous, orthonormal, (k, d + 1, d + 1), in coordinates where data has unit
            covariance: shifts below 5 % of a field are errors.
        translations: those among them, (t, d).

    Example:
        >>> screw = torch.zeros(1, 4, 4, dtype=torch.float64)
        >>> screw[0, 0, 1], screw[0, 1, 0], screw[0, 2, 3] = 0.6, -0.6, 0.5
        >>> shifts_that_stay(screw, torch.zeros(0, 3)).abs()
        tensor([[0., 0., 1.]], dtype=torch.float64)
    """
    dim = matrices.shape[-1] - 1
    moved = translations.to(matrices)
    away = torch.eye(dim).to(matrices) - torch.linalg.pinv(moved) @ moved
    linear = (away @ matrices[:, :dim, :dim]).reshape(-1, dim)
    shift = (away @ matrices[:, :dim, dim:]).reshape(-1, 1)
    origin = torch.linalg.pinv(linear, rtol=STAYS) @ shift
    rest = (shift - linear @ origin).reshape(-1, dim)
    _, size, axes = torch.linalg.svd(rest, full_matrices=False)
    return axes[size > STAYS]
