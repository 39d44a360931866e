r"""Families of vector fields, in which generators are looked for.

A family has features phi(z) and coefficient matrices C_k; its fields are

.. math:: v_\theta(z) = \sum_k \theta_k C_k\, \varphi(z).

Linear fields have phi(z) = z, affine ones phi(z) = (z, 1).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from symmetries._validation.checks import check_choice, invalid

KINDS = ("linear", "affine")
Field = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FieldFamily:
    """Vector fields sum_k theta_k C_k phi(z) of d coordinates.

    Args:
        kind: "linear", "affine", "polynomial" or "custom".
        features: from points (n, d) to features (n, q).
        coefficients: C, (p, d, q).
        names: one for each of the p fields.

    Example:
        >>> family = field_family("affine", 2)
        >>> family.size, family.names[:3]
        (6, ('x1 d1', 'x2 d1', 'd1'))
        >>> family.values(torch.tensor([[2.0, 3.0]]))[0, 4].tolist()  # x2 d2
        [0.0, 3.0]
    """

    kind: str
    features: Callable[[Tensor], Tensor]
    coefficients: Tensor
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number p of fields."""
        return len(self.coefficients)

    @property
    def dim(self) -> int:
        """Number d of coordinates."""
        return self.coefficients.shape[1]

    def values(self, points: Tensor) -> Tensor:
        """Return values (n, p, d) of the fields at points (n, d)."""
        features = self.features(points)
        return torch.einsum("kij,nj->nki", self.coefficients.to(features), features)

    def combine(self, theta: Tensor) -> Tensor:
        """Coefficient matrices (..., d, q) of combinations theta (..., p) of the fields."""
        return torch.einsum("...k,kij->...ij", theta, self.coefficients.to(theta))


def field_family(kind: str, dim: int) -> FieldFamily:
    """Return all linear or all affine fields of ``dim`` coordinates.

    Args:
        kind: "linear" or "affine".
        dim: number of coordinates.
    """
    check_choice(kind, KINDS, "fields")
    words = [f"x{j + 1} " for j in range(dim)] + ([""] if kind == "affine" else [])
    names = tuple(f"{word}d{i + 1}" for i in range(dim) for word in words)
    features = linear_features if kind == "linear" else affine_features
    return FieldFamily(kind, features, _all_matrices(dim, len(words)), names)


def fields_on_axes(
    kind: str, kept: Tensor, ignored: Tensor, outward: Tensor | None = None
) -> FieldFamily:
    """Linear or affine fields on some axes, and translations along others.

    Args:
        kind: "linear" or "affine"; linear fields have no translations.
        kept: axes (r', r); fields depend on the coordinates along them.
        ignored: axes (r - r', r) along which points are translated.
        outward: directions (r', r) of the fields, which span the space together with ``ignored``;
            ``kept`` by default.
    """
    check_choice(kind, KINDS, "fields")
    size = kept.shape[1]
    if len(ignored) == 0:
        return field_family(kind, size)
    width = size + (kind == "affine")
    outward = kept if outward is None else outward
    one = torch.eye(width, dtype=torch.float64)[size:]  # the constant among the features
    inward = torch.cat((pad(kept, (0, width - size)), one))
    rows = [torch.outer(to, by) for to in outward for by in inward]
    rows += [torch.outer(axis, by) for axis in ignored for by in one]
    names = tuple(f"field {k + 1}" for k in range(len(rows)))
    features = linear_features if kind == "linear" else affine_features
    stacked = torch.stack(rows) if rows else torch.zeros(0, size, width, dtype=torch.float64)
    return FieldFamily(kind, features, stacked, names)


def tied_fields(kind: str, dim: int, vectors: int) -> FieldFamily:
    """Linear or affine fields that move several vectors in the same way.

    Args:
        kind: "linear" or "affine".
        dim: number of coordinates of one vector.
        vectors: number of vectors in a point.

    Example:
        >>> family = tied_fields("linear", 2, 3)
        >>> family.size, family.dim
        (4, 6)
    """
    one = field_family(kind, dim)
    unit = torch.eye(vectors, dtype=torch.float64)
    blocks = torch.stack([torch.kron(unit, matrix) for matrix in one.coefficients])

    def features(points: Tensor) -> Tensor:
        single = one.features(points.reshape(len(points) * vectors, dim))
        return single.reshape(len(points), -1)

    return FieldFamily(kind, features, blocks, one.names)


def polynomial_fields(dim: int, degree: int) -> FieldFamily:
    """Return all fields whose components are polynomials up to a degree.

    Example:
        >>> polynomial_fields(2, 3).size  # planar fields to degree 3
        20
    """
    exponents = monomials(dim, degree)
    coordinates = tuple(f"x{i + 1}" for i in range(dim))
    words = [polynomial_name(row, coordinates) for row in exponents.tolist()]
    names = tuple(f"{word}d{i + 1}" for i in range(dim) for word in words)

    def features(points: Tensor) -> Tensor:
        return monomial_values(points, exponents)

    return FieldFamily("polynomial", features, _all_matrices(dim, len(words)), names)


def custom_fields(fields: Sequence[Field], dim: int) -> FieldFamily:
    """Return the family that is spanned by given fields.

    Args:
        fields: functions from points (n, d) to their velocities (n, d).
        dim: number d of coordinates.
    """
    if not fields:
        raise invalid("fields", "at least one field", "none", "give functions of points (n, d)")
    held = list(fields)

    def features(points: Tensor) -> Tensor:
        values = [field(points) for field in held]
        for index, value in enumerate(values):
            if value.shape != points.shape:
                expected = f"velocities of shape {tuple(points.shape)}"
                got = f"shape {tuple(value.shape)} from field {index}"
                raise invalid("fields", expected, got, "return one velocity for each point")
        return torch.cat(values, -1)

    chosen = torch.zeros(len(held), dim, len(held) * dim, dtype=torch.float64)
    for k, i in itertools.product(range(len(held)), range(dim)):
        chosen[k, i, k * dim + i] = 1
    names = tuple(getattr(f, "__name__", f"field {k + 1}") for k, f in enumerate(held))
    return FieldFamily("custom", features, chosen, names)


def monomial_count(dim: int, degree: int) -> int:
    """Number of monomials up to a degree, without listing them."""
    return math.comb(dim + degree, degree)


def monomials(dim: int, degree: int) -> Tensor:
    """Return exponents (q, dim) of all monomials up to a degree, the constant first.

    Example:
        >>> monomials(2, 2).tolist()
        [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    rows = []
    for total in range(degree + 1):
        for chosen in itertools.combinations_with_replacement(range(dim), total):
            rows.append([chosen.count(i) for i in range(dim)])
    return torch.tensor(rows).reshape(-1, dim)


def monomial_values(points: Tensor, exponents: Tensor) -> Tensor:
    """Return values (n, q) of monomials with exponents (q, d) at points (n, d)."""
    highest = int(exponents.max()) if exponents.numel() else 0
    powers = [torch.ones_like(points)]
    for _ in range(highest):
        powers.append(powers[-1] * points)
    table = torch.stack(powers)  # (highest + 1, n, d)
    value = torch.ones_like(points[:, :1]).expand(-1, len(exponents))
    for i in range(points.shape[1]):
        value = value * table[exponents[:, i], :, i].T
    return value


def linear_features(points: Tensor) -> Tensor:
    """Return features z of linear fields."""
    return points


def affine_features(points: Tensor) -> Tensor:
    """Return features (z, 1) of affine fields."""
    return torch.cat((points, torch.ones_like(points[:, :1])), -1)


def _all_matrices(rows: int, columns: int) -> Tensor:
    size = rows * columns
    return torch.eye(size, dtype=torch.float64).reshape(size, rows, columns)


def polynomial_name(exponents: Sequence[int], names: Sequence[str]) -> str:
    """Return a monomial as text, with a space after it.

    Example:
        >>> polynomial_name([2, 1], ["x", "y"])
        'x^2 y '
    """
    parts = [
        name + (f"^{power}" if power > 1 else "")
        for name, power in zip(names, exponents, strict=True)
        if power
    ]
    return " ".join(parts) + " " if parts else ""
