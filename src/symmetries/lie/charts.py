"""Coordinates in which data has unit covariance, without directions that mean nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries._validation.checks import check_finite, check_floats, invalid
from symmetries.lie.functions import Function, value_and_jacobian
from symmetries.lie.triangular import TriangularFactor

RANK = 1e-9  # singular values below this share of the largest count as zero
FLAT = 1e-6  # standard deviations of directions of data that are rounding errors of columns
BATCH = 4096


@dataclass(frozen=True)
class Chart:
    """Coordinates z of points x = offset + frame z.

    Args:
        offset: (d,).
        frame: (d, r), of full column rank.
        inverse: (r, d), with z = inverse (x - offset).
        span: dimension of the data's span (linear) or hull (affine).
        single: the chart of one vector, where points are several that are moved together.
    """

    offset: Tensor
    frame: Tensor
    inverse: Tensor
    span: int
    single: "Chart | None" = None

    @property
    def dim(self) -> int:
        """Number r of coordinates."""
        return self.frame.shape[1]

    def coordinates(self, points: Tensor) -> Tensor:
        """Return coordinates z (n, r) of points (n, d)."""
        return (points - self.offset) @ self.inverse.T

    def pull_back(self, function: Function) -> Function:
        """Return the function of points as one of coordinates."""
        return lambda z: function(self.offset + z @ self.frame.T)

    def orthogonal_to(self, axes: Tensor) -> Tensor:
        """Return directions of z, (r - k, r), that are orthogonal in x to axes (k, r) of z.

        Coordinates of x are in standard deviations, so that units make no difference.
        """
        spread = self.frame.norm(dim=1, keepdim=True)  # z has unit covariance
        _, inside = torch.linalg.qr(self.frame / torch.where(spread > 0, spread, 1.0))
        _, _, whole = torch.linalg.svd(axes @ inside.T, full_matrices=True)
        rest: Tensor = torch.linalg.solve(inside, whole[len(axes) :].T)
        return rest.T

    def matrices(self, coefficients: Tensor) -> Tensor:
        """Homogeneous matrices (..., d + 1, d + 1) of fields (..., r, r) or (..., r, r + 1) of z.

        The field of x is A x + b with A in the first d rows and columns, b in the last column.
        Where points are several vectors, fields and matrices are those of one of them.
        """
        if self.single is not None:
            return self.single.matrices(coefficients)
        r, d = self.dim, len(self.offset)
        linear = self.frame @ coefficients[..., :r] @ self.inverse
        shift = -linear @ self.offset
        if coefficients.shape[-1] > r:
            shift = shift + coefficients[..., r] @ self.frame.T
        whole = torch.zeros(*coefficients.shape[:-2], d + 1, d + 1, dtype=coefficients.dtype)
        whole[..., :d, :d] = linear
        whole[..., :d, d] = shift
        return whole


def data_chart(points: Tensor, kind: str) -> Chart:
    """Return coordinates of the data's span (linear fields) or hull, in which its covariance is 1.

    Args:
        points: (n, d).
        kind: of the fields; "linear" keeps the origin.

    Example:
        >>> x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> x[:, 2] = x[:, 0]  # a plane
        >>> chart = data_chart(x, "affine")
        >>> chart.dim, torch.allclose(torch.cov(chart.coordinates(x).T), torch.eye(2).double())
        (2, True)
    """
    check_floats(points, "x", "n", "d")
    check_finite(points, "x")
    if len(points) < 2:
        raise invalid("x", "at least 2 points", len(points), "give more data")
    points = points.double()
    mean = points.mean(0)
    offset = torch.zeros_like(mean) if kind == "linear" else mean
    size = (points - offset).square().mean(0).sqrt()  # ranks must not depend on units
    units = torch.where(size > RANK * points.abs().amax(0), size, 1.0)
    inside = _range((points - offset) / units, RANK if kind == "linear" else FLAT)
    scatter = (points - mean) / units @ inside
    if inside.shape[1] == 0:
        raise invalid("x", "points that differ", "copies of one", "give more data")
    left = torch.linalg.qr(scatter, mode="r").R / (len(points) - 1) ** 0.5
    _, spread, axes = torch.linalg.svd(left)
    if spread[-1] <= RANK * spread[0]:
        got = "data on a plane that does not contain the origin"
        raise invalid("x", "data that fills its span", got, "look for affine fields, or centre it")
    if kind == "custom" and inside.shape[1] < points.shape[1]:
        got = f"data in {inside.shape[1]} of {points.shape[1]} dimensions"
        raise invalid("x", "data that fills its space", got, "leave out coordinates")
    frame = units[:, None] * inside @ (axes.T * spread)
    inverse = (axes.T / spread).T @ inside.T / units
    return Chart(offset, frame, inverse, inside.shape[1])


def tied_chart(points: Tensor, kind: str, vectors: int) -> Chart:
    """Return coordinates of points that are several vectors, the same coordinates for each of them.

    Args:
        points: (n, vectors * d).
        kind: of the fields.
        vectors: number of vectors in a point.
    """
    if points.shape[1] % vectors:
        got = f"{points.shape[1]} coordinates"
        raise invalid("x", f"{vectors} vectors of equal length", got, "check the number of vectors")
    one = data_chart(points.reshape(len(points) * vectors, -1), kind)
    unit = torch.eye(vectors, dtype=torch.float64)
    return Chart(
        one.offset.repeat(vectors),
        torch.kron(unit, one.frame),
        torch.kron(unit, one.inverse),
        one.span,
        one,
    )


def ignored_axes(
    function: Function, coordinates: Tensor, threshold: float = RANK
) -> tuple[Tensor, Tensor, float]:
    """Split coordinates into axes that a function depends on, and axes that it ignores.

    Args:
        function: of coordinates (n, r).
        coordinates: points of unit covariance, (n, r).
        threshold: an axis is ignored if the root-mean-square derivative along it is at most this
            share of that along a random axis.

    Returns:
        Orthonormal axes (r', r) on which the function depends, and (r - r', r) that it ignores,
        with the largest share of the latter; 0 if there are none.
    """
    size = coordinates.shape[1]
    factor = TriangularFactor(size)
    for part in coordinates.split(BATCH):
        _, jacobian = value_and_jacobian(function, part)
        factor.add(jacobian.reshape(-1, size))
    _, found, axes = torch.linalg.svd(factor.matrix(), full_matrices=True)
    slopes = torch.cat((found, found.new_zeros(size - len(found))))
    if not slopes[0] > 0:
        remedy = "give scores instead of classes or steps, and do not detach them from x"
        raise invalid("model", "a function that varies", "slopes of 0 at all points", remedy)
    shares = slopes / slopes.norm() * size**0.5
    kept = shares > max(threshold, RANK)
    return axes[kept], axes[~kept], max(shares[~kept].tolist(), default=0.0)


def _range(points: Tensor, least: float) -> Tensor:
    """An orthonormal basis (d, r) of the span of points (n, d), up to a share of the largest."""
    factor = torch.linalg.qr(points, mode="r").R
    _, size, axes = torch.linalg.svd(factor, full_matrices=False)
    inside: Tensor = axes[size > least * size.max()] if size.numel() else axes
    return inside.T
