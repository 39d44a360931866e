r"""The affine group of the plane, in closed form.

Six generators, T = exp(sum_i eta_i G_i): shift_x, shift_y, rotation, scale_x, scale_y, shear.
With A the 2 x 2 block of the sum and b its last column,

.. math:: \exp\begin{pmatrix}A & b\\0 & 0\end{pmatrix} =
          \begin{pmatrix}I + A\varphi_1(A) & \varphi_1(A) b\\0 & 1\end{pmatrix},
          \qquad \varphi_1(A) = \sum_j \frac{A^j}{(j+1)!} = u I + w A,

see :mod:`symmetries.ops.affine_exp`.
"""

import math

import torch
from torch import Tensor

from symmetries._validation.checks import check_floats, invalid
from symmetries.groups.base import Parameter
from symmetries.groups.matrix_base import PlaneGroup
from symmetries.groups.special import check_eta, check_matrices
from symmetries.ops.affine_exp import affine_exp as affine_exp
from symmetries.ops.affine_exp import family_exp, generators, phi1_coefficients, six_columns

SIX = ("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear")

_PARAMETERS = {
    "shift_x": Parameter("shift_x", "half-image", 1.0),
    "shift_y": Parameter("shift_y", "half-image", 1.0),
    "rotation": Parameter("rotation", "rad", math.pi, angle=True),
    "scale_x": Parameter("scale_x", "log-factor", 1.0),
    "scale_y": Parameter("scale_y", "log-factor", 1.0),
    "shear": Parameter("shear", "log-factor", 1.0),
    "zoom": Parameter("zoom", "log-factor", 1.0),
}
_ORDER = (*SIX, "zoom")
_SETS = {
    "translation": ("shift_x", "shift_y"),
    "scale": ("scale_x", "scale_y"),
    "affine": SIX,
    "similarity": ("shift_x", "shift_y", "rotation", "zoom"),
}

# Series of asinh(sqrt q) / sqrt q in q, highest power first; used where |q| < _SERIES.
_SERIES = 0.02
_ASINH = [(-1) ** n * math.comb(2 * n, n) / (4**n * (2 * n + 1)) for n in range(9, -1, -1)]


def affine_log(matrix: Tensor) -> Tensor:
    """Return the principal logarithm of affine matrices, the inverse of :func:`affine_exp`.

    With s = sqrt(det A), B = A / s and c = tr B / 2, log A = (log s) I + f (B - c I), where f is
    theta / sin theta on the elliptic side (c = cos theta) and h / sinh h on the hyperbolic one
    (c = cosh h): one analytic function of q = -det(B - c I) = c^2 - 1. Matrices without a real
    logarithm give NaN.

    Args:
        matrix: (..., 3, 3) with last row (0, 0, 1).

    Returns:
        eta (..., 6), with rotation in (-pi, pi].
    """
    a, b = matrix[..., 0, 0], matrix[..., 0, 1]
    c, d = matrix[..., 1, 0], matrix[..., 1, 1]
    det = a * d - b * c
    positive = det > 0
    s = torch.where(positive, det, 1.0).sqrt()
    mean, half = (a + d) / (2 * s), (a - d) / (2 * s)
    b, c = b / s, c / s
    turn, skew = (c - b) / 2, (b + c) / 2
    # At a half turn B - c I vanishes, so the axis is undetermined: -s I counts as a rotation by pi.
    half_turn = (mean < 0) & (b == 0) & (c == 0) & (half == 0)
    f, r = _log_factors(half, turn, skew, mean, half_turn)
    f = torch.where(_has_log(matrix), f, math.nan)
    r = torch.where(half_turn, math.pi, torch.where(f.isnan(), math.nan, r))
    f = torch.where(half_turn, 0.0, f)
    log_s = torch.log(s)
    m00, m11, shear = log_s + f * half, log_s - f * half, f * skew
    m01, m10 = shear - r, shear + r
    u, w = phi1_coefficients(m00 + m11, m00 * m11 - m01 * m10)
    p00, p01, p10, p11 = u + w * m00, w * m01, w * m10, u + w * m11
    inv = 1 / (p00 * p11 - p01 * p10)
    x, y = matrix[..., 0, 2], matrix[..., 1, 2]
    bx, by = inv * (p11 * x - p01 * y), inv * (p00 * y - p10 * x)
    return torch.stack((bx, by, r, m00, m11, shear), -1)


def _log_factors(
    half: Tensor, turn: Tensor, skew: Tensor, mean: Tensor, half_turn: Tensor
) -> tuple[Tensor, Tensor]:
    """Return f = asinh(sqrt q) / sqrt q (theta / sin theta where q < 0), and the product f turn.

    With q = -r^2 the product is +-theta |turn| / r, |turn| = r + (half^2 + skew^2) / (|turn| + r).
    This form is used because near a half turn the gradients of f and of turn would cancel.
    """
    stretch = half * half + skew * skew
    q = stretch - turn * turn
    near = ((q.abs() < _SERIES) & (mean > 0)) | half_turn
    series = torch.zeros_like(q)
    for coefficient in _ASINH:
        series = coefficient + q * series
    root = torch.where(near, 1.0, q.abs()).sqrt()
    angle = torch.atan2(root, torch.where(near, 1.0, mean))
    f = torch.where(near, series, torch.where(q > 0, torch.asinh(root), angle) / root)
    signed = torch.copysign(angle, turn.detach())
    whole = torch.where(near, 1.0, turn).abs()
    elliptic = signed * (1 + stretch / (root * (whole + root)))
    return f, torch.where(~near & (q < 0), elliptic, f * turn)


def _has_log(matrix: Tensor) -> Tensor:
    a, b = matrix[..., 0, 0], matrix[..., 0, 1]
    c, d = matrix[..., 1, 0], matrix[..., 1, 1]
    half, mean = (a - d) / 2, (a + d) / 2
    q = half * half + b * c
    elliptic = (q < 0) | ((q == 0) & (half == 0) & (b == 0) & (c == 0))
    return (a * d - b * c > 0) & (elliptic | (mean > 0))


class Affine2(PlaneGroup):
    """The affine group of the plane, or a family of elements in it: T = exp(sum_i eta_i G_i).

    Most subsets of the generators are not closed under composition (rotation with unequal scales
    produces shear). For such a family ``closed`` is False; its elements still compose as matrices,
    and ``log`` returns all six parameters. Parameters are always in canonical order.

    Args:
        names: any of "shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear", "zoom"
            (both scales tied), or the sets "translation", "scale", "affine", "similarity".
            Without names the group is "affine".

    Example:
        >>> group = Affine2("rotation", "translation")
        >>> group.names
        ('shift_x', 'shift_y', 'rotation')
        >>> T = group.exp(torch.tensor([0.0, 0.0, math.pi / 2]))
        >>> (T @ torch.tensor([1.0, 0.0, 1.0])).round().int().tolist()  # right goes up
        [0, 1, 1]
        >>> Affine2("rotation", "scale").closed
        False
    """

    def __init__(self, *names: str) -> None:
        chosen: set[str] = set()
        for name in names or ("affine",):
            if name not in _SETS and name not in _PARAMETERS:
                known = ", ".join((*_SETS, *_ORDER))
                raise invalid("names", f"names among {known}", repr(name), "check the spelling")
            chosen.update(_SETS.get(name, (name,)))
        if "zoom" in chosen and chosen & {"scale_x", "scale_y"}:
            remedy = "use either zoom or scale_x and scale_y"
            raise invalid("names", "independent generators", ", ".join(sorted(chosen)), remedy)
        self._parameters = tuple(_PARAMETERS[name] for name in _ORDER if name in chosen)
        self._full = self.names == SIX
        places = {name: i for i, name in enumerate(self.names)}
        zoom = places.get("zoom", -1)
        self.columns = tuple(
            places.get(name, zoom if name.startswith("scale") else -1) for name in SIX
        )
        self._closed = self._is_closed()

    def __repr__(self) -> str:
        return f"Affine2({', '.join(repr(name) for name in self.names)})"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the group, in canonical order."""
        return self._parameters

    @property
    def closed(self) -> bool:
        """Whether the span of the generators is a Lie algebra."""
        return self._closed

    @property
    def positional(self) -> bool:
        """Whether both shifts are among the parameters."""
        return {"shift_x", "shift_y"} <= set(self.names)

    def exp(self, eta: Tensor) -> Tensor:
        """Return the matrices (..., 3, 3) of parameters eta (..., dim)."""
        check_eta(eta, self.dim)
        check_floats(eta, "eta", "...")
        return family_exp(eta, self.columns)

    def log(self, element: Tensor) -> Tensor:
        """Return the principal logarithm (..., dim), or (..., 6) if the family is not closed.

        Matrices without a real logarithm give NaN: those with det A <= 0 or with a negative
        eigenvalue, unless A is a multiple of the identity.
        """
        check_matrices(element)
        six = affine_log(element)
        if self._full or not self.closed:
            return six
        return torch.stack([six[..., _column(name)] for name in self.names], -1)

    def named_log(self, element: Tensor) -> Tensor:
        """Return the logarithm (..., dim) in the family's parameters; the others are dropped."""
        eta = self.log(element)
        return eta if self.closed else eta[..., [_column(name) for name in self.names]]

    def generator_shifts(self, eta: Tensor) -> Tensor:
        """Parameters whose shifts move the picture's centre to (shift_x, shift_y) in the end.

        T = exp(sum eta_i G_i) moves the centre to phi_1(A) b, where b are the shifts in eta:
        beside a rotation that is an arc, and b jumps to -b where the angle goes from pi to -pi. A
        network that predicts the end of the arc needs no jump; this turns it to b = phi_1(A)^-1 t.

        Args:
            eta: (..., dim), with t in the place of the shifts.

        Example:
            >>> group = Affine2("rotation", "translation")
            >>> eta = group.generator_shifts(torch.tensor([0.1, 0.2, 3.0]))
            >>> [round(v, 4) for v in group.exp(eta)[:2, 2].tolist()]
            [0.1, 0.2]
        """
        if not self.positional:
            return eta
        x, y, r, a, d, h = self.six(eta).unbind(-1)
        u, w = phi1_coefficients(a + d, a * d - (h - r) * (h + r))
        p00, p01, p10, p11 = u + w * a, w * (h - r), w * (h + r), u + w * d
        inverse = 1 / (p00 * p11 - p01 * p10)
        shifts = torch.stack((inverse * (p11 * x - p01 * y), inverse * (p00 * y - p10 * x)), -1)
        return torch.cat((shifts, eta[..., 2:]), -1)

    def six(self, eta: Tensor) -> Tensor:
        """Return all six coordinates (..., 6) of eta (..., dim), zero for absent parameters."""
        check_eta(eta, self.dim)
        return six_columns(eta, self.columns)

    def _is_closed(self) -> bool:
        basis = self.six(torch.eye(self.dim, dtype=torch.float64)) @ generators().flatten(1)
        rank = int(torch.linalg.matrix_rank(basis))
        g = basis.reshape(-1, 3, 3)
        brackets = (g[:, None] @ g[None] - g[None] @ g[:, None]).reshape(-1, 9)
        return int(torch.linalg.matrix_rank(torch.cat((basis, brackets)))) == rank


def _column(name: str) -> int:
    return SIX.index("scale_x" if name == "zoom" else name)
