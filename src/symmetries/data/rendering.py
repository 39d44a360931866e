"""Renderer of dSprites: white squares, ellipses and hearts on black.

A pixel is white if its centre p lies in the shape, that is, if (R^-1 (p - c)) / s is in the unit
shape, with the sprite's centre c, scale s and rotation R (counter-clockwise). Coordinates are
those of the library: x to the right, y up, half-image units.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import check_choice, invalid
from symmetries.data.base import as_array

SHAPES = ("square", "ellipse", "heart")
POSITION_SPAN = 31 / 64  # fraction of the image: 32 positions are one pixel apart at 64 x 64
HALF_SIDE = 0.275  # size of the unit shapes, in half-image units
SEMI_AXES = (0.4, 0.2)
HEART_RADIUS = 0.2875
REACH = 0.41  # largest distance of a point of any shape from its centre
_CHUNK = 128  # small enough for the processor's caches


@dataclass(frozen=True, eq=False)
class SpriteFactors:
    """Generative factors of a set of sprites, with one entry per sprite.

    Args:
        shape: (N,) int64: 0 square, 1 ellipse, 2 heart.
        scale: (N,) float64, published values in [0.5, 1].
        orientation: (N,) float64, radians, counter-clockwise.
        x: (N,) float64 in [0, 1], from left to right.
        y: (N,) float64 in [0, 1], from bottom to top.
    """

    shape: NDArray[np.int64]
    scale: NDArray[np.float64]
    orientation: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]

    def __post_init__(self) -> None:
        expected = as_array(self.shape, "shape").shape
        for field in fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, np.ndarray) or values.shape != expected:
                shape = as_array(values, field.name).shape
                got = f"{type(values).__name__} of shape {shape}"
                remedy = "give one value per sprite"
                raise invalid(field.name, f"a numpy array of shape {expected}", got, remedy)
            if not np.issubdtype(values.dtype, np.number):
                raise invalid(field.name, "numbers", f"dtype {values.dtype}", "correct the factors")
            if not np.isfinite(values).all():
                raise invalid(field.name, "finite values", "NaN or infinity", "correct the factors")
        if self.shape.ndim != 1 or len(self.shape) == 0:
            got = f"shape {self.shape.shape}"
            raise invalid("shape", "a list of at least one sprite", got, "give (N,) arrays")
        if not np.isin(self.shape, range(len(SHAPES))).all():
            raise invalid("shape", "0, 1 or 2", "other numbers", f"they stand for {SHAPES}")
        for name, low, high in (("scale", 0.0, 1.0), ("x", 0.0, 1.0), ("y", 0.0, 1.0)):
            values = getattr(self, name)
            if values.min() < low or values.max() > high or (name == "scale" and not values.all()):
                got = f"values in [{values.min():g}, {values.max():g}]"
                remedy = "the sprites must stay inside the image"
                raise invalid(name, "values from 0 to 1 (scale above 0)", got, remedy)

    def __len__(self) -> int:
        return len(self.shape)

    def take(self, indices: NDArray[np.int64]) -> "SpriteFactors":
        """Return the factors at ``indices``, in that order."""
        return SpriteFactors(*(getattr(self, field.name)[indices] for field in fields(self)))


def inside(shape: str, u: Tensor, v: Tensor) -> Tensor:
    """Return whether points (u, v), in half-image units, lie in an upright unit shape.

    Square: max(|u|, |v|) <= h. Ellipse: (u/a)^2 + (v/b)^2 <= 1. Heart, with u and v divided by its
    radius: (u^2 + v^2 - 1)^3 <= u^2 v^3.
    """
    check_choice(shape, SHAPES, "shape")
    if shape == "square":
        return torch.maximum(u.abs(), v.abs()) <= HALF_SIDE
    if shape == "ellipse":
        return (u / SEMI_AXES[0]).square() + (v / SEMI_AXES[1]).square() <= 1
    u2, v1 = (u / HEART_RADIUS).square(), v / HEART_RADIUS
    v2 = v1.square()
    ring = u2 + v2 - 1
    return ring * ring * ring <= u2 * v2 * v1


def render(factors: SpriteFactors, size: int = 64, supersample: int = 1) -> Tensor:
    """Render sprites as images.

    Args:
        factors: N sprites.
        size: pixels per side.
        supersample: k x k points per pixel; 1 gives binary images, as published.

    Returns:
        (N, 1, size, size) float32 in [0, 1].

    Example:
        >>> one = SpriteFactors(np.array([0]), *(np.array([v]) for v in (1.0, 0.0, 0.5, 0.5)))
        >>> int(render(one).sum())
        324
    """
    if not isinstance(factors, SpriteFactors):
        kind = type(factors).__name__
        raise TypeError(str(invalid("factors", "SpriteFactors", kind, "see grid_factors")))
    for name, value in (("size", size), ("supersample", supersample)):
        if not isinstance(value, int) or value < 1:
            raise invalid(name, "a positive integer", repr(value), "give a larger integer")
    images = torch.zeros(len(factors), 1, size, size)
    for kind, shape in enumerate(SHAPES):
        members = np.flatnonzero(factors.shape == kind)
        for start in range(0, len(members), _CHUNK):
            chunk = members[start : start + _CHUNK]
            part = _render_shape(shape, factors.take(chunk), size, supersample)
            images[torch.from_numpy(chunk), 0] = part
    return images


def _render_shape(shape: str, factors: SpriteFactors, size: int, supersample: int) -> Tensor:
    """Render (N, size, size) images of one shape; only a window around each sprite is computed."""
    half = size / 2
    column = half + (torch.from_numpy(factors.x) - 0.5) * (POSITION_SPAN * size)  # of the centre
    row = half - (torch.from_numpy(factors.y) - 0.5) * (POSITION_SPAN * size)
    scale = torch.from_numpy(factors.scale)
    window = min(size, 2 * math.ceil(REACH * half * float(scale.max())) + 2)
    left = (column - window / 2).floor().clamp(0, size - window)
    top = (row - window / 2).floor().clamp(0, size - window)

    points = (torch.arange(window * supersample, dtype=torch.float64) + 0.5) / supersample
    x = (left[:, None] + points - column[:, None]) / (half * scale[:, None])  # (N, points)
    y = (row[:, None] - top[:, None] - points) / (half * scale[:, None])
    angle = torch.from_numpy(factors.orientation)[:, None]
    cos, sin = angle.cos(), angle.sin()
    u = (cos * x)[:, None, :] + (sin * y)[:, :, None]
    v = (cos * y)[:, :, None] - (sin * x)[:, None, :]
    white = inside(shape, u, v).float()
    if supersample > 1:
        white = white.unflatten(2, (window, supersample)).sum(3)
        white = white.unflatten(1, (window, supersample)).sum(2) / supersample**2

    pictures = torch.zeros(len(factors), size, size)
    steps = torch.arange(window)
    rows, columns = top.long()[:, None] + steps, left.long()[:, None] + steps
    sprite = torch.arange(len(factors))[:, None, None]
    pictures[sprite, rows[:, :, None], columns[:, None, :]] = white
    return pictures
