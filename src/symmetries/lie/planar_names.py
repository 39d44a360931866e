"""Words for planar vector fields, and their flow lines."""

import torch
from torch import Tensor

from symmetries.lie.fields import monomial_values, monomials
from symmetries.lie.pictures import DEGREES, PictureFields, fourier_values

ALIKE = 0.97  # cosine of the angle between a field and the one that it is named after
LINES, STEPS, LENGTH = 9, 25, 0.8


def _named(points: Tensor) -> dict[str, Tensor]:
    """Velocities (n, 2) of fields that have a name."""
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
    """Velocities (n, 2) of a planar field with coefficients theta (p,) at points (n, 2)."""
    if family.kind == "fourier":
        values = fourier_values(points)[0]
    else:
        values = monomial_values(points, monomials(2, DEGREES[family.kind]))
    return values @ theta.reshape(2, -1).T


def planar_name(family: PictureFields, theta: Tensor) -> str:
    """The word for a planar field, or an empty string if it is like none that has one.

    Fields are compared on the unit disc.

    Example:
        >>> from symmetries.lie.pictures import picture_fields
        >>> theta = torch.tensor([0.0, 0.0, -1.0, 0.0, 1.0, 0.0]).double()
        >>> planar_name(picture_fields("affine", (1, 8, 8)), theta)
        'rotation'
    """
    side = torch.linspace(-1, 1, 21, dtype=torch.float64)
    points = torch.cartesian_prod(side, side)
    points = points[points.norm(dim=1) <= 1]
    values = field_values(family, theta, points)
    size = values.norm()
    best, word = ALIKE, ""
    for name, field in _named(points).items():
        alike = abs(float((field * values).sum() / (field.norm() * size)))
        if alike > best:
            best, word = alike, name
    return word


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
