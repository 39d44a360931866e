"""The changes that a stream can be named after: turn, shift, zoom, colour, brightness, blur."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.actions import ImageAction
from symmetries.groups import Affine2, Colour
from symmetries.ops.gaussian_blur import gaussian_blur


@dataclass(frozen=True)
class Move:
    """One kind of change.

    Args:
        name: of the parameter.
        kind: what it is reported as.
        unit: of its amount.
        most: the largest amount, as a share of which amounts are drawn.
        least: the smallest amount; -1 for changes that can be undone, 0 for blur.
    """

    name: str
    kind: str
    unit: str
    most: float
    least: float = -1.0


PLANAR = (
    Move("rotation", "rotation", "degrees", 30.0),
    Move("shift_x", "shift", "pixels", 0.15),  # a share of the longer side
    Move("shift_y", "shift", "pixels", 0.15),
    Move("zoom", "zoom", "factor", 0.25),  # its logarithm
)
VALUE = Move("value", "value", "factor", 0.4)  # its logarithm
HUE = Move("hue", "hue", "degrees", 60.0)
BLUR = Move("blur", "blur", "pixels", 2.0, 0.0)


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


def apply(x: Tensor, shares: Tensor, moves: tuple[Move, ...], fill: float) -> Tensor:
    """Pictures (N, C, H, W) changed by shares (N, K) of the largest amounts.

    Motions take one resampling. Blur acts in eight steps of strength.

    Args:
        x: pictures from 0 to 1.
        shares: from -1 (blur: 0) to 1.
        moves: what the columns mean.
        fill: value of the background.
    """
    column = {move.name: shares[:, k] * move.most for k, move in enumerate(moves)}
    group = Affine2("similarity")  # half the longer side is 1
    motion = [2 * column["shift_x"], 2 * column["shift_y"]]
    motion += [torch.deg2rad(column["rotation"]), column["zoom"]]
    moved = ImageAction(group, interpolation="bicubic", fill=fill)(
        group.exp(torch.stack(motion, 1)), x
    )
    if "hue" in column:
        colour = Colour("hue")
        turned = torch.deg2rad(column["hue"])[:, None]
        moved = ImageAction(colour)(colour.exp(turned), moved)
    moved = (moved * column["value"].exp()[:, None, None, None]).clamp(0, 1)
    steps = (4 * column["blur"]).round().long()
    side = max(x.shape[-2:]) / 2
    parts = moved.clone()
    for step in range(1, int(steps.max()) + 1):
        rows = steps == step
        if bool(rows.any()):
            parts[rows] = gaussian_blur(moved[rows], step / 4 / side)
    return parts
