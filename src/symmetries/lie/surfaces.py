"""Data on curved surfaces: the equations that it satisfies are outputs that no symmetry changes.

If a polynomial g is 0 on all data, a function f is only known there, and f + h g fits as well. The
derivative along a field v is the same for all of these where dg(v) = 0, that is where v is tangent
to the surface. So a symmetry has to leave f and the equations g as they are.
"""

import torch
from torch import Tensor

from symmetries.lie.fields import monomial_values, monomials
from symmetries.lie.fitting import LOOKED_AT, UNDETERMINED
from symmetries.lie.functions import Function, Polynomial, value_and_jacobian

SOME = 4096  # points that sizes of slopes are computed from


def vanishing(points: Tensor, degree: int) -> Polynomial | None:
    """Independent polynomials up to a degree that are 0 on all data, or None if there are none.

    Args:
        points: (n, d).
        degree: the highest one.

    Example:
        >>> turns = torch.arange(40, dtype=torch.float64)
        >>> circle = torch.stack((turns.cos(), turns.sin()), 1)
        >>> vanishing(circle, 1), vanishing(circle, 2).coefficients.shape  # x^2 + y^2 - 1
        (None, torch.Size([6, 1]))
    """
    points = points[:: -(-len(points) // LOOKED_AT)]
    centre, spread = points.mean(0), points.std(0)
    scale = torch.where(spread > 0, spread, 1.0)
    exponents = monomials(points.shape[1], degree)
    features = monomial_values((points - centre) / scale, exponents)
    unit = features.norm(dim=0)
    _, size, axes = torch.linalg.svd(torch.linalg.qr(features / unit, mode="r").R)
    null = axes[size <= UNDETERMINED * size[0]]
    return Polynomial(exponents, (null / unit).T, centre, scale) if len(null) else None


def slope_ratio(function: Function, surface: Function, points: Tensor) -> float:
    """Return the size of the slopes of a function, relative to those of the equations of a surface.

    Args:
        function: from points (n, d) to outputs (n, m).
        surface: from points to (n, k), which are 0 on all data.
        points: (n, d).
    """
    some = points[:SOME]
    sizes = [value_and_jacobian(f, some)[1].square().sum() for f in (function, surface)]
    return float((sizes[0] / sizes[1]).sqrt())
