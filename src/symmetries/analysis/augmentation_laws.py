"""Laws of augmentation that every library has: motions, mirror images, light, and erasing.

A picture is mirrored with probability 1/2, zoomed and turned about its middle, and shifted, in this
order and with one resampling, as ``RandomAffine`` of torchvision does. Then its brightness and its
contrast are multiplied, in this order, and half of the pictures lose a square.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from symmetries.analysis.light_moves import KINDS, grey, relit
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import Padding, warp

MOVES = ("rotation", "shift", "zoom", "flip_x", "light", "erase", "mix")
PARAMETERS = 14  # of one picture: see draw
SMALLEST = 0.02  # share of a picture that is erased
MIXED = ("nothing", "shear_x", "shear_y", *KINDS)
SHEAR = 1.0
ALL = ("shear_x", "shear_y", *KINDS)
MOTIONS = {"rotation", "shift", "zoom"}
UNITS = {
    "rotation": "degrees",
    "shift": "share of the side",
    "zoom": "factor",
    "flip_x": "probability",
    "light": "share",
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
        light: brightness and contrast are multiplied by between 1 - light and 1 + light.
        erase: largest share of a picture that is erased, from half of the pictures.

    Example:
        >>> Law(rotation=10).moves()
        {'rotation': 10}
    """

    rotation: float = 0.0
    shift: float = 0.0
    zoom: float = 1.0
    flip_x: float = 0.0
    light: float = 0.0
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
    """Parameters (N, 10) of moves.

    Radians, shifts as shares of the sides, size, mirrored or not, factors of brightness and of
    contrast, and the side of an erased square with its left and upper edge, as shares.

    Args:
        laws: one for each class.
        classes: (N,).
        generator: on the CPU.
    """
    ends = torch.tensor([[getattr(law, name) for name in MOVES] for law in laws])
    turn, shift, zoom, flip, light, erase, strength = ends[classes.cpu()].unbind(-1)
    unit = torch.rand(len(classes), 13, generator=generator)
    both = 2 * unit - 1
    size = 1 / zoom + unit[:, 3] * (zoom - 1 / zoom)
    motion = (both[:, 0] * torch.deg2rad(turn), both[:, 1] * shift, both[:, 2] * shift, size)
    flips = (unit[:, 4] < flip).float()
    share = SMALLEST + unit[:, 7] * (erase - SMALLEST)
    side = torch.where((erase > 0) & (unit[:, 10] < 0.5), share.clamp_min(0).sqrt(), 0.0)
    lit = (1 + both[:, 5] * light, 1 + both[:, 6] * light)
    place = (unit[:, 8] * (1 - side), unit[:, 9] * (1 - side))
    one = torch.where(strength > 0, (unit[:, 11] * len(MIXED)).long(), 0)
    names = torch.tensor([(-1 if n == "nothing" else ALL.index(n)) for n in MIXED])
    one = torch.where(strength > 0, names[one], -1)
    amount = both[:, 12] * strength
    shears = [torch.where(one == k, SHEAR * amount, 0.0) for k in (0, 1)]
    return torch.stack((*motion, flips, *lit, side, *place, *shears, (one - 2).float(), amount), -1)


def fixed(name: str, amount: float, count: int = 1) -> Tensor:
    """Parameters (count, 10) of one move by a given amount, in the units of a :class:`Law`.

    Light is brightness alone, and what is erased is a square in the middle.
    """
    row = torch.zeros(count, PARAMETERS)
    row[:, [3, 5, 6]], row[:, 12] = 1.0, -1.0
    if name == "flip_x":
        row[:, 4] = float(amount > 0)
    elif name == "light":
        row[:, 5] = 1 + amount
    elif name == "erase":
        side = math.sqrt(amount)
        row[:, 7], row[:, 8:] = side, (1 - side) / 2
    else:
        place = {"rotation": 0, "shift": 1, "zoom": 3, "mix": 10}[name]
        row[:, place] = math.radians(amount) if name == "rotation" else amount
    return row


def moved(x: Tensor, parameters: Tensor, fill: float | None) -> Tensor:
    """Pictures (N, C, H, W) moved by parameters (N, 10); without a fill reflected at their edges.

    Squares that are erased have the value of the background, or 0.
    """
    height, width = x.shape[-2:]
    side = max(height, width)
    turn, across, up, size, flip, bright, contrast = parameters[:, :7].to(x).unbind(-1)
    c, s, mirror = size * torch.cos(turn), size * torch.sin(turn), 1 - 2 * flip
    zero, one = torch.zeros_like(c), torch.ones_like(c)
    shear_x, shear_y = parameters[:, 10:12].to(x).unbind(-1)
    first = ((c - s * shear_y) * mirror, c * shear_x - s, 2 * across * width / side)
    rows = (*first, (s + c * shear_y) * mirror, s * shear_x + c, 2 * up * height / side)
    matrix = torch.stack((*rows, zero, zero, one), -1).unflatten(-1, (3, 3))
    padding: Padding = "reflect" if fill is None else "constant"
    y = warp(x, affine_inverse(matrix)[:, :2], padding=padding, fill=fill or 0.0)
    y = relit(_lit(y, bright, contrast), *parameters[:, 12:].to(x).unbind(-1))
    return _erased(y, parameters[:, 7:10].to(x), fill or 0.0)


def _lit(x: Tensor, bright: Tensor, contrast: Tensor) -> Tensor:
    """Pictures with brightness and contrast multiplied by factors (N,), within [0, 1].

    Contrast is about the mean of the grey picture, as in torchvision.
    """
    factors = torch.stack((bright, contrast), -1)
    y = (x * bright[:, None, None, None]).clamp(0, 1)
    middle = grey(y).mean((2, 3), keepdim=True)
    y = (middle + contrast[:, None, None, None] * (y - middle)).clamp(0, 1)
    return torch.where((factors == 1).all(1)[:, None, None, None], x, y)


def _erased(x: Tensor, squares: Tensor, fill: float) -> Tensor:
    """Pictures without squares (N, 3): side, left and upper edge as shares of the sides."""
    share, left, top = squares.unbind(-1)
    inside = []
    for first, length in ((top, x.shape[-2]), (left, x.shape[-1])):
        middle = (torch.arange(length, device=x.device) + 0.5) / length
        inside.append((middle >= first[:, None]) & (middle < (first + share)[:, None]))
    square = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return x.masked_fill(square, fill)


def code_for(library: str, laws: dict[str, Law], fill: float | None, size: tuple[int, int]) -> str:
    """Ready Python: ``transform`` is safe for all classes; ``by_class`` and ``others`` go further.

    Args:
        library: "symmetries", "torchvision", "albumentations" or "kornia".
        laws: by name of the class.
        fill: value around moved pictures; None reflects them at their edges.
        size: (height, width) of the pictures.
    """
    makers = {"symmetries": _ours, "torchvision": _torchvision}
    make = makers | {"albumentations": _albumentations, "kornia": _kornia}
    least, most = (
        Law(*(end(getattr(law, name) for law in laws.values()) for name in MOVES))
        for end in (min, max)
    )
    head, one = make[library](least, fill, size)
    lines = [*head, "", "# Safe for every class.", f"transform = {one}"]
    if least != most:
        wide, widest = make[library](most, fill, size)
        lines = [*wide, *lines[len(head) :], "", "# As far as the labels of each class allow."]
        lines += [f"others = {widest}", "by_class = {"]
        lines += [
            f"    {name!r}: {make[library](law, fill, size)[1]},"
            for name, law in laws.items()
            if law != most
        ]
        lines += ["}"]
    return "\n".join(lines) + "\n"


Code = tuple[list[str], str]


def _ours(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["from symmetries.analysis.augmentation_laws import Augmentation, Law"]
    amounts = ", ".join(f"{name}={amount:.6g}" for name, amount in law.moves().items())
    return head, f"Augmentation(Law({amounts}), fill={_number(fill)})"


def _torchvision(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import torch", "from torchvision.transforms import v2"]
    parts = [f"v2.RandomHorizontalFlip({law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        how = f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g}), "
        how += "interpolation=v2.InterpolationMode.BILINEAR"
        if fill is None:  # reflected at the edges: padded by one picture, moved, and cut out again
            share = law.shift / 3 if min(size) > 1 else law.shift
            pad = [size[1] - 1, size[0] - 1]
            parts.append(f"v2.Pad({pad}, padding_mode='reflect')")
            how = f"translate=({share:.6g}, {share:.6g}), {how}"
            parts.append(f"v2.RandomAffine({law.rotation:.6g}, {how})")
            parts.append(f"v2.CenterCrop({list(size)})")
        else:
            how = f"translate=({law.shift:.6g}, {law.shift:.6g}), {how}, fill={fill:.6g}"
            parts.append(f"v2.RandomAffine({law.rotation:.6g}, {how})")
    if law.light:
        parts.append(f"v2.ColorJitter({_factors(law)}, {_factors(law)})")
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), value={fill or 0:.6g}"
        parts.append(f"v2.RandomErasing(0.5, {how})")
    return head, f"v2.Compose([{', '.join(parts) or 'v2.Identity()'}])"


def _albumentations(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import albumentations as A", "import cv2"]
    parts = [f"A.HorizontalFlip(p={law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        border = "cv2.BORDER_REFLECT" if fill is None else "cv2.BORDER_CONSTANT"
        shift = f"(-{law.shift:.6g}, {law.shift:.6g})"
        parts.append(
            f"A.Affine(rotate=(-{law.rotation:.6g}, {law.rotation:.6g}), "
            f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g}), keep_ratio=True, "
            f"translate_percent={{'x': {shift}, 'y': {shift}}}, "
            f"border_mode={border}, fill={_number(fill or 0.0)}, p=1.0)"
        )
    if law.light:
        both = f"brightness={_factors(law)}, contrast={_factors(law)}"
        parts.append(f"A.ColorJitter({both}, saturation=(1, 1), hue=(0, 0), p=1.0)")
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), fill={fill or 0:.6g}"
        parts.append(f"A.Erasing({how}, p=0.5)")
    return head, f"A.Compose([{', '.join(parts) or 'A.NoOp()'}])"


def _kornia(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import kornia.augmentation as K", "from torch import nn"]
    parts = [f"K.RandomHorizontalFlip(p={law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        how = "padding_mode='reflection'" if fill is None else "padding_mode='zeros'"
        one = (
            f"K.RandomAffine({law.rotation:.6g}, translate=({law.shift:.6g}, {law.shift:.6g}), "
            f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g}), {how}, p=1.0)"
        )
        if fill:  # kornia fills with zeros: moved on a background of zero
            head = [*head, "", "", *_SHIFTED.splitlines(), ""]
            one = f"OnBackground({one}, {fill:.6g})"
        parts.append(one)
    if law.light:
        parts.append(f"K.ColorJitter({_factors(law)}, {_factors(law)}, p=1.0)")
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), value={fill or 0:.6g}"
        parts.append(f"K.RandomErasing({how}, p=0.5)")
    return head, f"nn.Sequential({', '.join(parts) or 'nn.Identity()'})"


_SHIFTED = '''class OnBackground(nn.Module):
    """A transform that fills with zeros, for pictures on another background."""

    def __init__(self, transform, fill):
        super().__init__()
        self.transform, self.fill = transform, fill

    def forward(self, x):
        return self.transform(x - self.fill) + self.fill
'''


def _factors(law: Law) -> str:
    """The range of factors of brightness and contrast."""
    return f"({1 - law.light:.6g}, {1 + law.light:.6g})"


def _number(value: float | None) -> str:
    return "None" if value is None else f"{value:.6g}"


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
