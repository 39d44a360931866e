r"""Coordinates on a group in which the measure is known, and the law pi from which moves are drawn.

A planar element is written M = t R_theta exp(S) F^k: a flip first, then a symmetric stretch S
(zoom, scales, shear), a turn, and a shift t last. In these coordinates the right Haar measure is

.. math:: d\mu = dt\, d\theta\, dS \cdot \frac{\sinh\alpha}{\alpha},

with alpha the difference of the eigenvalues of S (the factor is 1 but for the whole of GL(2)), and
the angle closes up beside shifts, too. In exponential coordinates rigid motions would have the
density (2 - 2 cos theta) / theta^2. pi is uniform in the coordinates, within their reach.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group, Parameter
from symmetries.groups.colour import Colour
from symmetries.groups.finite import FiniteGroup, Flip
from symmetries.groups.product import Product
from symmetries.groups.se2 import SE2
from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.affine_inverse import affine_inverse

Kind = Literal["finite", "circle", "line"]
DIRECTED = ("scale_x", "scale_y", "shear")
STRETCHES = ("zoom", *DIRECTED)
SHIFTS = ("shift_x", "shift_y")
COLOURS = ("hue", "saturation", "value")
# How far random moves go at first; they are widened where the data go further.
FIRST_REACH = {
    **dict.fromkeys(SHIFTS, 0.3),
    **dict.fromkeys(STRETCHES, 0.4),
    "saturation": 1.0,
    "value": 0.5,
}
WIDEST = {**dict.fromkeys(SHIFTS, 1.0), **dict.fromkeys(STRETCHES, 1.2)}


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of a chart.

    Args:
        name: of the parameter, or of the finite group's parameters.
        kind: "finite" (an index), "circle" (an angle) or "line".
        size: number of bins, or of elements.
        reach: values lie in [-reach, reach]; 0 for an index.
        parameter: of the group; None for an index.
    """

    name: str
    kind: Kind
    size: int
    reach: float
    parameter: Parameter | None

    @property
    def span(self) -> float:
        """Length of the range of values."""
        return 2 * self.reach

    def display(self, value: float, side: int) -> tuple[float, str]:
        """A width or a value, and its unit, for a person; ``side`` is that of the pictures."""
        if self.parameter is None:
            return value, "elements"
        return self.parameter.display(value, side)


class Chart:
    """Coordinates u (N, D) of the elements of a group, and the uniform law pi on them.

    Args:
        group: Affine2 or SE2, a finite group, Colour, or a product of one of each; beside planar
            motions the finite group must be a flip.
        bins: of each continuous coordinate.
        reach: by name, where it differs from the first one.

    Example:
        >>> chart = Chart(SE2(), 72)
        >>> [c.name for c in chart.coordinates]
        ['rotation', 'shift_x', 'shift_y']
        >>> chart.matrix(torch.zeros(2, 3)).shape
        torch.Size([2, 3, 3])
    """

    def __init__(
        self, group: Group[Any], bins: int, reach: Mapping[str, float] | None = None
    ) -> None:
        self.group = group
        self.bins = bins
        factors = group.factors if isinstance(group, Product) else (group,)
        self.planar = _single(factors, Affine2 | SE2, group)
        self.finite = _single(factors, FiniteGroup, group)
        self.colours = _single(factors, Colour, group)
        known = (self.planar, self.finite, self.colours)
        if sum(part is not None for part in known) != len(factors):
            remedy = "use Affine2, SE2, a finite group, Colour, or a product of these"
            raise invalid("group", "a group of pictures", repr(group), remedy)
        if self.planar is not None and not self.planar.closed:
            remedy = "take 'similarity' or 'affine', or fewer parameters"
            raise invalid("group", "transformations that compose", repr(self.planar), remedy)
        if (
            self.planar is not None
            and self.finite is not None
            and not isinstance(self.finite, Flip)
        ):
            remedy = "flip_x and flip_y go with rotations and shifts"
            raise invalid("group", "a flip beside planar motions", repr(self.finite), remedy)
        self.coordinates = tuple(self._coordinates(reach or {}))
        self.names = tuple(c.name for c in self.coordinates)
        self._place = {name: i for i, name in enumerate(self.names)}

    @property
    def reach(self) -> dict[str, float]:
        """How far the continuous coordinates go, by name."""
        return {c.name: c.reach for c in self.coordinates if c.kind != "finite"}

    @property
    def moves_pixels(self) -> bool:
        """Whether anything but colours changes."""
        return self.planar is not None or self.finite is not None

    @property
    def shapes(self) -> bool:
        """Whether the shape of content changes, not only its size."""
        return not set(DIRECTED).isdisjoint(self.names)

    def draw(self, unit: Tensor) -> Tensor:
        """Coordinates (N, D) drawn from pi, from uniform numbers (N, D) in [0, 1)."""
        columns = []
        for c, row in zip(self.coordinates, unit.unbind(-1), strict=True):
            finite = c.kind == "finite"
            columns.append((row * c.size).floor() if finite else (2 * row - 1) * c.reach)
        return torch.stack(columns, -1)

    def identity(self, n: int, device: torch.device | str | None = None) -> Tensor:
        """Coordinates (n, D) of no move."""
        return torch.zeros(n, len(self.coordinates), device=device)

    def matrix(self, u: Tensor) -> Tensor:
        """Matrices (..., 3, 3) of planar motions, flips included."""
        zero = torch.zeros_like(u[..., 0])
        part = {name: u[..., i] for name, i in self._place.items()}
        zoom = part.get("zoom", zero)
        s = [zoom + part.get(name, zero) for name in ("scale_x", "scale_y")]
        stretch = affine_exp(torch.stack((zero, zero, zero, *s, part.get("shear", zero)), -1))
        angle = part["rotation"] if "rotation" in self._place and self.planar else zero
        c, sine = torch.cos(angle), torch.sin(angle)
        a, b = stretch[..., 0, 0], stretch[..., 0, 1]
        d, e = stretch[..., 1, 0], stretch[..., 1, 1]
        rows = ((c * a - sine * d, c * b - sine * e), (sine * a + c * d, sine * b + c * e))
        if self.finite is not None:
            flip = self.finite.matrix(u[..., 0].long(), u.dtype)
            rows = _times(rows, flip)
        x, y = part.get("shift_x", zero), part.get("shift_y", zero)
        one = torch.ones_like(zero)
        flat = (*rows[0], x, *rows[1], y, zero, zero, one)
        found: Tensor = torch.stack(flat, -1).unflatten(-1, (3, 3))
        return found

    def colour(self, u: Tensor) -> Tensor:
        """Colour elements (..., 3); zeros where the group has no colours."""
        zero = torch.zeros_like(u[..., 0])
        columns = [u[..., self._place[n]] if n in self._place else zero for n in COLOURS]
        return torch.stack(columns, -1)

    def moves(self, u: Tensor, centre: Tensor | None = None) -> Tensor:
        """Parameters (N, S, D) of r^-1, which takes a picture to other poses of it.

        Shifts are those of a point of the picture, the middle of the frame by default.

        Args:
            u: coordinates (N, S, D) of r.
            centre: (N, 2) in half-image units.
        """
        columns: dict[str, Tensor] = {}
        if self.finite is not None and self.planar is None:
            index = self.finite.inverse(u[..., 0].long())
            columns[self.names[0]] = index.to(u.dtype)
        elif self.planar is not None:
            columns = self._planar_moves(u, centre)
        for name in COLOURS:
            if name in self._place:
                columns[name] = -u[..., self._place[name]]
        return torch.stack([columns[name] for name in self.names], -1)

    def coordinates_of(self, block: Tensor, shift: Tensor, others: Tensor) -> Tensor:
        """Coordinates (..., D) of planar motions: the inverse of :meth:`matrix`.

        Args:
            block: (..., 2, 2).
            shift: (..., 2).
            others: (..., D), of which the index of a finite group and colours are taken.
        """
        columns = {name: others[..., j] for name, j in self._place.items()}
        if self.finite is not None:
            index = others[..., 0].long()
            block = block @ self.finite.matrix(index, block.dtype)[..., :2, :2]
        columns |= self._polar(block)
        columns["shift_x"], columns["shift_y"] = shift.unbind(-1)
        return torch.stack([columns[name] for name in self.names], -1)

    def _polar(self, block: Tensor) -> dict[str, Tensor]:
        """The turn of a block (..., 2, 2), and its stretch before that."""
        angle = torch.atan2(
            block[..., 1, 0] - block[..., 0, 1], block[..., 0, 0] + block[..., 1, 1]
        )
        turned = "rotation" in self._place
        return {"rotation": angle, **_stretches(block, angle, turned)}

    @property
    def weighted(self) -> bool:
        """Whether the Haar measure is not uniform in these coordinates: for the whole of GL(2)."""
        return {"rotation", "scale_x", "scale_y", "shear"} <= set(self.names)

    def log_haar(self, u: Tensor) -> Tensor:
        """Logarithm (...) of the density of the right Haar measure in these coordinates."""
        if not self.weighted:
            return torch.zeros_like(u[..., 0])
        x, y, shear = (u[..., self._place[n]] for n in ("scale_x", "scale_y", "shear"))
        alpha = ((x - y).square() + 4 * shear.square()).sqrt().clamp_min(1e-4)
        return torch.log(torch.sinh(alpha) / alpha)

    def wider(self, reach: Mapping[str, float]) -> "Chart":
        """The same chart with another reach for some coordinates."""
        return Chart(self.group, self.bins, {**self.reach, **reach})

    def _planar_moves(self, u: Tensor, centre: Tensor | None) -> dict[str, Tensor]:
        inverse = affine_inverse(self.matrix(u))
        block, shift = inverse[..., :2, :2], inverse[..., :2, 2]
        columns: dict[str, Tensor] = {}
        if centre is not None:
            c = centre[:, None].to(u.dtype)
            shift = (block @ c[..., None])[..., 0] + shift - c
        if self.finite is not None:
            columns[self.names[0]] = u[..., 0]  # a flip is its own inverse
            flip = self.finite.matrix(u[..., 0].long(), u.dtype)[..., :2, :2]
            block = block @ flip
        columns |= self._polar(block)
        columns["shift_x"], columns["shift_y"] = shift.unbind(-1)
        return columns

    def _coordinates(self, reach: Mapping[str, float]) -> list[Coordinate]:
        found = []
        if self.finite is not None:
            name = ",".join(self.finite.names)
            found.append(Coordinate(name, "finite", self.finite.order, 0.0, None))
        parameters = {
            p.name: p for part in (self.planar, self.colours) if part for p in part.parameters
        }
        for name in ("rotation", *STRETCHES, *SHIFTS, *COLOURS):
            if name in parameters:
                p = parameters[name]
                far = reach.get(name, p.bound if p.angle else FIRST_REACH.get(name, p.bound))
                found.append(Coordinate(name, "circle" if p.angle else "line", self.bins, far, p))
        return found


def widened(coordinate: Coordinate, factor: float) -> float:
    """A larger reach of a coordinate, no larger than pictures allow."""
    return min(coordinate.reach * factor, WIDEST.get(coordinate.name, math.inf))


def _single(factors: tuple[Group[Any], ...], kind: Any, group: Group[Any]) -> Any:  # noqa: ANN401
    found = [factor for factor in factors if isinstance(factor, kind)]
    if len(found) > 1:
        remedy = "name all planar parameters in one Affine2, and one finite group"
        raise invalid("group", "one factor of each kind", repr(group), remedy)
    return found[0] if found else None


def _times(rows: Any, matrix: Tensor) -> Any:  # noqa: ANN401 - two pairs of tensors
    (a, b), (c, d) = rows
    p, q = matrix[..., 0, 0], matrix[..., 0, 1]
    r, s = matrix[..., 1, 0], matrix[..., 1, 1]
    return (a * p + b * r, a * q + b * s), (c * p + d * r, c * q + d * s)


def _stretches(block: Tensor, angle: Tensor, turned: bool) -> dict[str, Tensor]:
    """The symmetric logarithm of what is left of a block (..., 2, 2) without its turn."""
    c, s = torch.cos(angle), torch.sin(angle)
    if not turned:
        c, s = torch.ones_like(c), torch.zeros_like(s)
    a, b, d, e = block[..., 0, 0], block[..., 0, 1], block[..., 1, 0], block[..., 1, 1]
    x, y = c * a + s * d, c * e - s * b
    off = (c * b + s * e - s * a + c * d) / 2
    mean, half = (x + y) / 2, (x - y) / 2
    root = (half.square() + off.square()).sqrt().clamp_min(1e-9)
    high, low = torch.log(mean + root), torch.log((mean - root).clamp_min(1e-9))
    level, slope = (high + low) / 2, (high - low) / (2 * root)
    found = {"scale_x": level + slope * half, "scale_y": level - slope * half, "zoom": level}
    return found | {"shear": slope * off}
