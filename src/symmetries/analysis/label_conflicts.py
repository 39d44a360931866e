r"""Which moves turn pictures of one class into pictures of another: what labels forbid.

Small networks that were trained without any augmentation look at moved held-out pictures. If T x
looks like class b for pictures x of class a, then T^-1 x looks like class a for pictures of class
b. So two classes meet at a move if both happen: networks that are asked about pictures unlike all
others answer something too, but seldom in both directions. Where classes a and b meet at an angle
m, and both are turned by less than m / 2, none of their pictures meet; a margin is kept to that. If
the pictures themselves are turned by up to s, it is m / 2 - s.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from symmetries.analysis.augmentation_laws import SHEAR, fixed, moved
from symmetries.analysis.network_trials import LOOKED_AT
from symmetries.results import Conflict

SIZES: dict[str, tuple[float, ...]] = {
    "rotation": tuple(float(a) for a in range(15, 181, 15)),
    "shift": (0.1, 0.2, 0.3),
    "zoom": (1.25, 1.6, 2.0),
    "flip_x": (0.5,),
    "light": (0.4, 0.6),
}
FURTHEST = {"rotation": 180.0, "shift": 0.15, "zoom": 1.4, "flip_x": 0.5, "erase": 0.25, "mix": 1.0}
NONE: Mapping[str, float] = MappingProxyType({})
MUTUAL = 0.3  # share of both classes that looks like the other
MARGIN = 0.8  # of half the amount at which classes meet: how far moves may go
NEARLY = 0.9  # of the largest share: classes meet in the middle of the moves that reach it


def find_conflicts(
    networks: list[torch.nn.Module],
    images: list[Tensor],
    labels: list[Tensor],
    names: tuple[str, ...],
    fill: float | None,
    occurring: Mapping[str, float] = NONE,
) -> tuple[Conflict, ...]:
    """Where classes meet, for each kind of move.

    Args:
        networks: trained without augmentation.
        images: for each network pictures (N, C, H, W) that it has not seen.
        labels: (N,) of these.
        names: of the classes.
        fill: value around moved pictures; None reflects them.
        occurring: how far motions occur in the pictures, to either side.
    """
    still = _shares(networks, images, labels, len(names), None, fill)
    found = []
    for name, sizes in SIZES.items():
        both = []  # share of a and b that look like each other, by size of the move
        for size in sizes:
            inverse = {"zoom": 1 / size, "flip_x": size, "light": 1 / (1 + size) - 1}
            back = inverse.get(name, -size)
            one = _shares(networks, images, labels, len(names), fixed(name, size), fill) - still
            two = _shares(networks, images, labels, len(names), fixed(name, back), fill) - still
            both.append(torch.minimum(one, two.T))
        every = torch.stack(both)  # (sizes, classes, classes)
        every = torch.maximum(every, every.transpose(1, 2))
        for a in range(len(names)):
            for b in range(a + 1, len(names)):
                column = every[:, a, b]
                if float(column.max()) < MUTUAL:
                    continue
                share = float(column.max())
                meeting, own = _meeting(column, sizes), occurring.get(name, float(name == "zoom"))
                found.append(_conflict(name, names[a], names[b], meeting, share, own))
    return tuple(found)


def _conflict(
    name: str, first: str, second: str, size: float, share: float, own: float
) -> Conflict:
    """Two classes that meet at a size, whose pictures are moved by up to ``own`` already."""
    half = MARGIN * max(0.0, size / 2 - own)
    if name == "zoom":
        half = math.exp(MARGIN * max(0.0, math.log(size) / 2 - math.log(own)))
    limit = 0.0 if name in ("flip_x", "light") else half
    facts = {"name": name, "first": first, "second": second, "amount": size}
    return Conflict.model_validate({**facts, "share": share, "limit": limit})


def _meeting(shares: Tensor, sizes: tuple[float, ...]) -> float:
    """Where two classes meet first: the middle of the highest shares (S,) of the first run.

    Networks may be surer of a later meeting, which is none for classes that have met before.
    """
    met = (shares >= MUTUAL).tolist()
    first = met.index(True)
    last = next((i for i in range(first, len(met)) if not met[i]), len(met))
    run = shares[first:last]
    reached = torch.nonzero(run >= NEARLY * run.max()).flatten() + first
    return (sizes[int(reached[0])] + sizes[int(reached[-1])]) / 2


def limits_of(conflicts: tuple[Conflict, ...], name: str) -> dict[str, float]:
    """How far each kind of move may go for a class."""
    limits = dict(FURTHEST)
    for one in conflicts:
        if name in (one.first, one.second):
            if one.name == "light":
                limits["mix"] = 0.0
            else:
                limits[one.name] = min(limits[one.name], one.limit)
    if limits["rotation"] < 45:  # a shear turns no line further than labels allow turns
        slope = math.tan(math.radians(limits["rotation"]))
        limits["mix"] = min(limits["mix"], slope / SHEAR)
    return limits


@torch.no_grad()
def _shares(
    networks: list[torch.nn.Module],
    images: list[Tensor],
    labels: list[Tensor],
    classes: int,
    move: Tensor | None,
    fill: float | None,
) -> Tensor:
    """Share (classes, classes) of the moved pictures of a class that look like another one."""
    counts = torch.zeros(classes, classes)
    for net, x, y in zip(networks, images, labels, strict=True):
        size = LOOKED_AT[x.is_cuda]
        for part, own in zip(x.split(size), y.split(size), strict=True):
            seen = part if move is None else moved(part, move.expand(len(part), -1), fill)
            answer = net(seen).argmax(1).cpu()
            counts += torch.bincount(own * classes + answer, minlength=classes**2).view(
                classes, classes
            )
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    return shares * (1 - torch.eye(classes))
