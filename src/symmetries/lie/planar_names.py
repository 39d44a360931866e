"""Words for planar vector fields, and their flow lines."""

import torch
from torch import Tensor

from symmetries.lie.fields import monomial_values, monomials
from symmetries.lie.pictures import DEGREES, PictureFields, fourier_values

SAME = 0.9999  # the same of fields that are equal
ALIKE = 0.97  # cosine of the angle between a field and the one that it is named after
LINES, STEPS, LENGTH = 9, 25, 0.8


def _named(points: Tensor) -> dict[str, Tensor]:
    """Return velocities (n, 2) of fields that have a name."""
    x, y = points.T
    zero, one, square = torch.zeros_like(x), torch.ones_like(x), points.square().sum(1)
    fields = {
        "rotation": (-y, x),
        "zoom": (x, y),
        "shift along x": (one, zero),
        "shift along y": (zero, one),
        "stretch": (x, -y),
        "diagonal stretch": (y, x),
        "stretch along x": (x, zero),
        "stretch along y": (zero, y),
        "shear along x": (y, zero),
        "shear along y": (zero, x),
        "swirl": (-y * square, x * square),
        "bulge": (x * square, y * square),
    }
    return {name: torch.stack(parts, 1) for name, parts in fields.items()}


def field_values(family: PictureFields, theta: Tensor, points: Tensor) -> Tensor:
    """Return velocities (n, 2) of a planar field with coefficients theta (p,) at points (n, 2)."""
    if family.kind == "fourier":
        values = fourier_values(points)[0]
    else:
        values = monomial_values(points, monomials(2, DEGREES[family.kind]))
    return values @ theta.reshape(2, -1).T


def nearest_named(family: PictureFields, theta: Tensor) -> tuple[float, str, Tensor]:
    """Return the field with a name that is most like another one.

    Returns:
        The cosine of their angle on the unit disc, the name, and its coefficients (p,) in the
        family, by least squares.

    Example:
        >>> from symmetries.lie.pictures import picture_fields
        >>> theta = torch.tensor([0.0, 0.0, -1.0, 0.0, 1.0, 0.0]).double()
        >>> alike, name, _ = nearest_named(picture_fields("affine", (1, 16, 16)), theta)
        >>> name, round(alike, 3)
        ('rotation', 1.0)
    """
    side = torch.linspace(-1, 1, 21, dtype=torch.float64)
    points = torch.cartesian_prod(side, side)
    points = points[points.norm(dim=1) <= 1]
    values = field_values(family, theta, points)
    unit = torch.eye(family.size, dtype=torch.float64)
    every = torch.stack([field_values(family, row, points).flatten() for row in unit], 1)
    best, word, found = 0.0, "", theta
    for name, field in _named(points).items():
        inside = torch.linalg.lstsq(every, field.flatten()[:, None]).solution[:, 0]
        if (every @ inside - field.flatten()).norm() > 1e-6 * field.norm():
            continue  # it is not of this family
        alike = abs(float((field * values).sum() / (field.norm() * values.norm())))
        if alike > best:
            best, word, found = alike, name, inside
    return best, word, found


def flow_lines(
    family: PictureFields, theta: Tensor, text: str
) -> tuple[str, tuple[str, ...], object, object]:
    """Panel of a page: points of the plane and how the field moves them (Runge and Kutta)."""
    side = torch.linspace(-0.8, 0.8, LINES, dtype=torch.float64)
    start = torch.cartesian_prod(side, side)
    speed = float(field_values(family, theta, start).norm(dim=1).mean())
    step = LENGTH / STEPS / max(speed, 1e-12)
    halves = []
    for sign in (-step, step):
        points, line = start, [start]
        for _ in range(STEPS // 2):
            one = field_values(family, theta, points)
            two = field_values(family, theta, points + sign / 2 * one)
            points = points + sign * two
            line.append(points)
        halves.append(line)
    curves = torch.stack([*reversed(halves[0]), *halves[1][1:]], 1)
    inside = curves.abs().amax((1, 2)) < 1.5
    return text, ("x", "y"), start[inside].numpy(), curves[inside].numpy()
