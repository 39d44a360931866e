"""The changes that a stream can be named after: turn, shift, zoom, colour, brightness, blur."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from symmetries.actions import ImageAction
from symmetries.groups import Affine2, Colour
from symmetries.ops.gaussian_blur import gaussian_blur
from symmetries.ops.warp import Interpolation, Padding

Edges = Literal["constant", "border", "cut"]

# Ways to move pictures. A camera sees what is beyond the frame, and has its own optics: how far the
# responses of these differ is how well a response is known.
WAYS: tuple[tuple[Interpolation, Edges], ...] = (
    ("bicubic", "constant"),
    ("bilinear", "constant"),
    ("bicubic", "border"),
    ("bicubic", "cut"),
)
TENTH = 0.1  # of a pixel
HALF = 0.5 + 1e-4  # of a pixel that must come from within the frame


@dataclass(frozen=True)
class Move:
    """One kind of change.

    Args:
        name: of the parameter.
        kind: what it is reported as.
        unit: of its amount.
        most: the largest amount, as a share of which amounts are drawn.
        least: the smallest amount; -1 for changes that can be undone, 0 for blur.
        error: least systematic error of an amount, as a share of the largest one.
    """

    name: str
    kind: str
    unit: str
    most: float
    least: float = -1.0
    error: float = 0.03


PLANAR = (
    Move("rotation", "rotation", "degrees", 30.0),
    Move("shift_x", "shift", "pixels", 0.15),  # a share of the longer side
    Move("shift_y", "shift", "pixels", 0.15),
    Move("zoom", "zoom", "factor", 0.25),  # its logarithm
)
VALUE = Move("value", "value", "factor", 0.4)  # its logarithm
HUE = Move("hue", "hue", "degrees", 60.0)
# Optics do not blur as a Gaussian does: a box of the same variance reads as 10 % more or less.
BLUR = Move("blur", "blur", "pixels", 2.0, 0.0, error=0.08)


def moves_of(channels: int) -> tuple[Move, ...]:
    """The changes of grey pictures, or of pictures with three channels."""
    return (*PLANAR, VALUE, *((HUE,) if channels == 3 else ()), BLUR)


def amount(move: Move, share: float, side: int) -> float:
    """An amount in the unit of a move, from a share of its largest one.

    Example:
        >>> round(amount(PLANAR[3], 1.0, 28), 3), amount(PLANAR[1], -1.0, 20)
        (1.284, -3.0)
    """
    value = share * move.most
    if move.unit == "factor":
        return math.exp(value)
    return value * side if move.kind == "shift" else value


def systematic_error(move: Move, side: int) -> float:
    """Error of an amount that no number of pictures removes, as a share of the largest one.

    Ways to interpolate differ by a tenth of a pixel, which at the edge of the frame is an angle and
    a zoom, too.

    Example:
        >>> [round(systematic_error(PLANAR[0], side), 3) for side in (8, 28)]
        [0.048, 0.03]
    """
    pixel = {"shift": 1 / side, "zoom": 2 / side, "rotation": math.degrees(2 / side)}
    return max(move.error, TENTH * pixel.get(move.kind, 0.0) / move.most)


def apply(
    x: Tensor,
    shares: Tensor,
    moves: tuple[Move, ...],
    fill: float,
    interpolation: Interpolation = "bicubic",
    edges: Edges = "constant",
) -> Tensor:
    """Pictures (N, C, H, W) changed by shares (N, K) of the largest amounts.

    Motions take one resampling.

    Args:
        x: pictures from 0 to 1.
        shares: from -1 (blur: 0) to 1.
        moves: what the columns mean.
        fill: value of the background.
        interpolation: of motions.
        edges: what motions bring in from beyond the frame: the background ("constant", blended
            with the last pixels, or "cut", which is not) or the last pixels ("border").
    """
    column = {move.name: shares[:, k] * move.most for k, move in enumerate(moves)}
    group = Affine2("similarity")  # half the longer side is 1
    motion = [2 * column["shift_x"], 2 * column["shift_y"]]
    motion += [torch.deg2rad(column["rotation"]), column["zoom"]]
    padding: Padding = "constant" if edges == "constant" else "border"
    act = ImageAction(group, interpolation=interpolation, padding=padding, fill=fill)
    element = group.exp(torch.stack(motion, 1))
    moved = act(element, x)
    if edges == "cut":
        inside = ImageAction(group)(element, torch.ones_like(x[:, :1])) > HALF
        moved = torch.where(inside, moved, fill)
    if "hue" in column:
        colour = Colour("hue")
        turned = torch.deg2rad(column["hue"])[:, None]
        moved = ImageAction(colour)(colour.exp(turned), moved)
    moved = (moved * column["value"].exp()[:, None, None, None]).clamp(0, 1)
    side, parts = max(x.shape[-2:]) / 2, moved.clone()
    for sigma in column["blur"].unique().tolist():
        if sigma > 0:
            rows = column["blur"] == sigma
            parts[rows] = gaussian_blur(moved[rows], sigma / side)
    return parts
