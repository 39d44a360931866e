"""Laws of augmentation that every library has: motions, mirror images, light, and erasing.

A picture is mirrored with probability 1/2, perhaps sheared, zoomed and turned about its middle, and
shifted, in this order and with one resampling, as ``RandomAffine`` of torchvision does. Then its
light may change, and half of the pictures lose a square. Shears and changes of light are those of
TrivialAugmentWide (Müller and Hutter, 2021): one of ten, or none, is drawn for each picture.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from symmetries.analysis.light_moves import KINDS, relit
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import Padding, warp

MOVES = ("rotation", "shift", "zoom", "flip_x", "erase", "mix")
PARAMETERS = 12  # of one picture: see draw
SMALLEST = 0.02  # share of a picture that is erased
MIXED = ("nothing", "shear_x", "shear_y", *KINDS)  # one of these is drawn for each picture
SHEAR = 1.0  # at full strength
MOTIONS = {"rotation", "shift", "zoom"}
UNITS = {
    "rotation": "degrees",
    "shift": "share of the side",
    "zoom": "factor",
    "flip_x": "probability",
    "erase": "share of the picture",
    "mix": "strength",
}
STILL = {name: 1.0 if name == "zoom" else 0.0 for name in MOVES}


@dataclass(frozen=True)
class Law:
    """Ranges of moves.

    Args:
        rotation: degrees to either side.
        shift: share of the width and of the height, to either side.
        zoom: factor f; sizes are uniform between 1 / f and f.
        flip_x: 0.5 mirrors half of the pictures, 0 none.
        erase: largest share of a picture that is erased, from half of the pictures.
        mix: strength of one shear or change of light for each picture, from 0 to 1.

    Example:
        >>> Law(rotation=10).moves()
        {'rotation': 10}
    """

    rotation: float = 0.0
    shift: float = 0.0
    zoom: float = 1.0
    flip_x: float = 0.0
    erase: float = 0.0
    mix: float = 0.0

    def moves(self) -> dict[str, float]:
        """The moves that do something, and how far they go."""
        return {name: getattr(self, name) for name in MOVES if getattr(self, name) != STILL[name]}

    def within(self, limits: dict[str, float]) -> "Law":
        """The law with no move going further than limits by name."""
        kept = {name: min(getattr(self, name), most) for name, most in limits.items()}
        return replace(self, **kept)


def draw(laws: list[Law], classes: Tensor, generator: torch.Generator) -> Tensor:
    """Parameters (N, 12) of moves.

    Radians, shifts as shares of the sides, size, mirrored or not, shears along x and y, the kind
    and the amount of a change of light, and the side of an erased square with its left and upper
    edge, as shares.

    Args:
        laws: one for each class.
        classes: (N,).
        generator: on the CPU.
    """
    ends = torch.tensor([[getattr(law, name) for name in MOVES] for law in laws])
    turn, shift, zoom, flip, erase, strength = ends[classes.cpu()].unbind(-1)
    unit = torch.rand(len(classes), 11, generator=generator)
    both = 2 * unit - 1
    size = 1 / zoom + unit[:, 3] * (zoom - 1 / zoom)
    motion = (both[:, 0] * torch.deg2rad(turn), both[:, 1] * shift, both[:, 2] * shift, size)
    flips = (unit[:, 4] < flip).float()
    one, amount = (unit[:, 5] * len(MIXED)).floor(), both[:, 6] * strength
    shears = [torch.where(one == MIXED.index(n), SHEAR * amount, 0.0) for n in MIXED[1:3]]
    kind = torch.where(strength > 0, (one - 3).clamp_min(-1), -1.0)
    share = SMALLEST + unit[:, 7] * (erase - SMALLEST)
    side = torch.where((erase > 0) & (unit[:, 10] < 0.5), share.clamp_min(0).sqrt(), 0.0)
    place = (unit[:, 8] * (1 - side), unit[:, 9] * (1 - side))
    return torch.stack((*motion, flips, *shears, kind, amount, side, *place), -1)


def fixed(name: str, amount: float, count: int = 1) -> Tensor:
    """Parameters (count, 12) of one move by a given amount, in the units of a :class:`Law`.

    "light" is brightness, "mix" a shear along x, and what is erased is a square in the middle.
    """
    row = torch.zeros(count, PARAMETERS)
    row[:, 3], row[:, 7] = 1.0, -1.0
    if name == "flip_x":
        row[:, 4] = float(amount > 0)
    elif name == "light":
        row[:, 7], row[:, 8] = float(KINDS.index("brightness")), amount
    elif name == "erase":
        side = math.sqrt(amount)
        row[:, 9], row[:, 10:] = side, (1 - side) / 2
    else:
        place = {"rotation": 0, "shift": 1, "zoom": 3, "mix": 5}[name]
        row[:, place] = math.radians(amount) if name == "rotation" else amount
    return row


def moved(x: Tensor, parameters: Tensor, fill: float | None) -> Tensor:
    """Pictures (N, C, H, W) moved by parameters (N, 12); without a fill reflected at their edges.

    Squares that are erased have the value of the background, or 0.
    """
    height, width = x.shape[-2:]
    side = max(height, width)
    turn, across, up, size, flip, shear_x, shear_y = parameters[:, :7].to(x).unbind(-1)
    c, s, mirror = size * torch.cos(turn), size * torch.sin(turn), 1 - 2 * flip
    zero, one = torch.zeros_like(c), torch.ones_like(c)
    first = ((c - s * shear_y) * mirror, c * shear_x - s, 2 * across * width / side)
    rows = (*first, (s + c * shear_y) * mirror, s * shear_x + c, 2 * up * height / side)
    matrix = torch.stack((*rows, zero, zero, one), -1).unflatten(-1, (3, 3))
    padding: Padding = "reflect" if fill is None else "constant"
    y = warp(x, affine_inverse(matrix)[:, :2], padding=padding, fill=fill or 0.0)
    y = relit(y, *parameters[:, 7:9].to(x).unbind(-1))
    return _erased(y, parameters[:, 9:].to(x), fill or 0.0)


def _erased(x: Tensor, squares: Tensor, fill: float) -> Tensor:
    """Pictures without squares (N, 3): side, left and upper edge as shares of the sides."""
    share, left, top = squares.unbind(-1)
    if not bool((share > 0).any()):
        return x
    inside = []
    for first, length in ((top, x.shape[-2]), (left, x.shape[-1])):
        middle = (torch.arange(length, device=x.device) + 0.5) / length
        inside.append((middle >= first[:, None]) & (middle < (first + share)[:, None]))
    square = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return x.masked_fill(square, fill)


class Augmentation(torch.nn.Module):
    """A law as a transform of batches (N, C, H, W).

    Args:
        law: ranges of the moves.
        fill: value around moved pictures; None reflects them at their edges.

    Example:
        >>> Augmentation(Law(rotation=20, shift=0.1), 0.0)(torch.rand(3, 1, 8, 8)).shape
        torch.Size([3, 1, 8, 8])
    """

    def __init__(self, law: Law, fill: float | None = 0.0) -> None:
        super().__init__()
        self.law, self.fill = law, fill

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """New versions of the pictures."""
        own = generator or torch.Generator().manual_seed(int(torch.randint(2**31, ())))
        classes = torch.zeros(len(images), dtype=torch.int64)
        return moved(images, draw([self.law], classes, own), self.fill)
