r"""Poses that can be computed: the place, size and shape of content on a plain background.

The centre of mass c and the second moments C of a picture follow every affine map, c to M c + t and
C to M C M^T. So along shifts and stretches a picture tells its own pose (c, L), with L = log(C) / 2
or the part of it that the group changes, and seen through the map p -> c + exp(L) p all pictures of
an orbit are the same but for a turn. What is left to learn is the turn, and how poses of the data
are distributed given the content.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.chart import SHIFTS, STRETCHES, Chart
from symmetries.ops.warp import warp

EXTENT = 2.5  # half-sides of the canonical picture, in standard deviations of its content
SHARE = 0.99  # of the pictures, whose poses are within the range
ROOM = 1.6  # times the range: known moves are planted on top of what the data have
LEAST = 0.1  # of a range
SHARPEST = 0.95  # of the pictures, which are blurred to the sharpness of the coarsest
SMALLEST = 1e-5  # second moments, of content that is a point


@dataclass(frozen=True)
class Poses:
    """How the poses of the data are spread.

    Args:
        middle: by name of the stretch or the shift, the median of the data.
        reach: by name, how far from there a density of poses goes.
        extent: half-images from the middle of the canonical picture to its edge.
        blur: variance, in its pixels, that every canonical picture is blurred to.
        pixel: variance, in pixels of the data, that is taken from second moments.
    """

    middle: Mapping[str, float]
    reach: Mapping[str, float]
    extent: float = 1.0
    blur: float = 0.0
    pixel: float = 0.0


def computed(chart: Chart, plain: bool) -> bool:
    """Whether shifts and stretches of pictures can be computed: planar ones, on a background."""
    return plain and chart.planar is not None


def moments(content: Tensor, pixel: float = 0.0) -> tuple[Tensor, Tensor]:
    """Centre (N, 2) and second moments xx, yy, xy (N, 3) of contents (N, C, H, W), in half-images.

    Args:
        content: pictures less their plain background.
        pixel: variance, in pixels, by which pixels blurred them; it does not grow with content.

    Example:
        >>> picture = torch.zeros(1, 1, 4, 4)
        >>> picture[0, 0, 0, 3] = 1
        >>> [round(value, 2) for value in moments(picture)[0][0].tolist()]
        [0.75, 0.75]
    """
    height, width = content.shape[-2:]
    side = max(height, width)
    x = (torch.arange(width, device=content.device) * 2.0 + 1 - width) / side
    y = -(torch.arange(height, device=content.device) * 2.0 + 1 - height) / side
    strength = content.abs().amax(1).to(torch.promote_types(content.dtype, torch.float32))
    weight = strength / strength.sum((1, 2), keepdim=True).clamp_min(1e-9)
    columns, rows = weight.sum(1), weight.sum(2)
    centre = torch.stack(((columns * x).sum(1), (rows * y).sum(1)), -1)
    dx, dy = x - centre[:, :1], y - centre[:, 1:]
    xx, yy = (columns * dx.square()).sum(1), (rows * dy.square()).sum(1)
    xy = torch.einsum("nhw,nh,nw->n", weight, dy, dx)
    xx, yy = (value - pixel * (2 / side) ** 2 for value in (xx, yy))
    return centre, torch.stack((xx.clamp_min(SMALLEST), yy.clamp_min(SMALLEST), xy), -1)


def stretches(second: Tensor, names: Collection[str]) -> dict[str, Tensor]:
    """Coordinates (N,) of L, by name, of the stretches that a group has.

    They add up under those stretches: if M = exp(S) they grow by the coordinates of S.

    Args:
        second: (N, 3) as of :func:`moments`.
        names: of the coordinates of the group.
    """
    xx, yy, xy = second.unbind(-1)
    wanted = [name for name in STRETCHES if name in names]
    if not wanted:
        return {}
    if "rotation" in names and wanted != ["zoom"]:
        level, half, slant = _half_logarithm(xx, yy, xy)
        return {"scale_x": level + half, "scale_y": level - half, "shear": slant}
    if wanted == ["zoom"]:
        return {"zoom": ((xx + yy) / 2).log() / 2}
    if "shear" not in wanted:
        every = {"scale_x": xx.log() / 2, "scale_y": yy.log() / 2}
        return {name: every[name] for name in wanted}
    rising, falling = (((xx + yy) / 2 + s * xy).clamp_min(SMALLEST).log() / 2 for s in (1, -1))
    every = {"zoom": (rising + falling) / 2, "shear": (rising - falling) / 2}
    return {name: every[name] for name in wanted}


def _half_logarithm(xx: Tensor, yy: Tensor, xy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, half difference and off-diagonal (N,) of log(C) / 2, from C's entries."""
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    spread = (half.square() + xy.square()).sqrt().clamp_min(1e-7)
    high = (mean + spread).log()
    low = torch.maximum(mean - spread, 1e-3 * mean).log()
    slope = (high - low) / (4 * spread)
    return (high + low) / 4, slope * half, slope * xy


def matrix_of(numbers: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Entries xx, yy, xy (N,) of L from its coordinates by name."""
    zero = torch.zeros_like(next(iter(numbers.values())))
    zoom = numbers.get("zoom", zero)
    xx, yy = (zoom + numbers.get(name, zero) for name in ("scale_x", "scale_y"))
    return xx, yy, numbers.get("shear", zero)


def eigen(xx: Tensor, yy: Tensor, xy: Tensor) -> tuple[Tensor, Tensor]:
    """Angle (N,) of the first eigenvector of a symmetric matrix, and both eigenvalues (N, 2)."""
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    spread = torch.hypot(half, xy)
    angle = torch.atan2(xy, half + 1e-12) / 2  # of a multiple of one it is zero
    return angle, torch.stack((mean + spread, mean - spread), -1)


def singular(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U (N, 2, 2), f (N, 2) and V^T (N, 2, 2) of matrices U diag(f) V^T.

    Example:
        >>> matrix = torch.tensor([[[2.0, 1.0], [0.5, 1.0]]])
        >>> u, f, v = singular(matrix)
        >>> torch.allclose(u @ torch.diag_embed(f) @ v, matrix, atol=1e-5)
        True
    """
    square = matrix @ matrix.mT
    angle, squares = eigen(square[..., 0, 0], square[..., 1, 1], square[..., 0, 1])
    u, f = turns(angle), squares.clamp_min(1e-12).sqrt()
    return u, f, (u.mT @ matrix) / f[..., None]


@torch.no_grad()
def find_poses(content: Tensor, chart: Chart, own: float = 0.0, pixel: float = 0.0) -> Poses:
    """How poses of contents (N, C, H, W) are spread, as a group changes them.

    Args:
        content: pictures less their plain background.
        chart: of the group.
        own: variance of the blur, in pixels, that every picture has.
        pixel: of that, what pixels made.
    """
    centre, second = moments(content, pixel)
    numbers = stretches(second, chart.names)
    middle, reach = {}, {}
    if "scale_x" in numbers and "rotation" in chart.names:  # the shape turns with the content
        level = (numbers["scale_x"] + numbers["scale_y"]) / 2
        spread = torch.hypot((numbers["scale_x"] - numbers["scale_y"]) / 2, numbers["shear"])
        far = _range(level)[1] + float(spread.quantile(SHARE))
        middle = dict.fromkeys(("scale_x", "scale_y"), float(level.median())) | {"shear": 0.0}
        reach = dict.fromkeys(numbers, far)
    else:
        for name, value in numbers.items():
            middle[name], reach[name] = _range(value)
    for name, value in zip(SHIFTS, centre.unbind(-1), strict=True):
        if name in chart.names:
            middle[name], reach[name] = _range(value)
    reach = {name: max(ROOM * far, LEAST) for name, far in reach.items()}
    away = {name: value - middle[name] for name, value in numbers.items()}
    size = ((second[:, 0] + second[:, 1]) / 2).sqrt()
    stretched = torch.zeros(len(content), 2, device=content.device)
    if away:
        entries = matrix_of(away)
        stretched = eigen(*entries)[1]
        size = size * torch.exp(-(entries[0] + entries[1]) / 2)
    short = min(content.shape[-2:]) / max(content.shape[-2:])
    extent = min(1.0, EXTENT * float(size.quantile(0.95)) / short)
    smallest = float(torch.exp(-2 * stretched.amin(-1)).quantile(SHARPEST))
    return Poses(middle, reach, extent, own * smallest / extent**2 if away else 0.0, pixel)


def _range(values: Tensor) -> tuple[float, float]:
    """Median of values (N,), and how far from it nearly all of them lie."""
    middle = values.median()
    return float(middle), float((values - middle).abs().quantile(SHARE))


def canonical(content: Tensor, chart: Chart, poses: Poses) -> Tensor:
    """Contents (N, C, H, W) in the middle pose of the data: one resampling."""
    centre, second = moments(content, poses.pixel)
    numbers = stretches(second, chart.names)
    xx, yy, xy = (torch.zeros_like(second[:, 0]) for _ in range(3))
    if numbers:
        away = {name: value - poses.middle[name] for name, value in numbers.items()}
        xx, yy, xy = matrix_of(away)
    angle, logs = eigen(xx, yy, xy)
    turn = turns(angle)
    root = turn @ torch.diag_embed(poses.extent * torch.exp(logs)) @ turn.mT
    return warp(content, torch.cat((root, centre[..., None]), -1).to(content.dtype))


def turns(angle: Tensor) -> Tensor:
    """Matrices (N, 2, 2) of turns by angles (N,)."""
    c, s = torch.cos(angle), torch.sin(angle)
    found: Tensor = torch.stack((c, -s, s, c), -1).unflatten(-1, (2, 2))
    return found


def symmetric_exp(xx: Tensor, yy: Tensor, xy: Tensor) -> Tensor:
    """Matrices (..., 2, 2) exp(L) of symmetric L with these entries (...)."""
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    spread = (half.square() + xy.square()).sqrt().clamp_min(1e-9)
    up, across = torch.cosh(spread), torch.sinh(spread) / spread
    rows = (up + across * half, across * xy, across * xy, up - across * half)
    found: Tensor = (torch.stack(rows, -1) * mean.exp()[..., None]).unflatten(-1, (2, 2))
    return found


def turned(numbers: Mapping[str, Tensor], turn: Tensor) -> dict[str, Tensor]:
    """Coordinates of Q L Q^T, by name, for orthogonal Q (..., 2, 2): those of the same names."""
    if not set(numbers) & {"scale_x", "scale_y", "shear"}:
        return dict(numbers)
    xx, yy, xy = matrix_of(numbers)
    a, b, c, d = (turn[..., i, j] for i in (0, 1) for j in (0, 1))
    first = a * a * xx + 2 * a * b * xy + b * b * yy
    second = c * c * xx + 2 * c * d * xy + d * d * yy
    slant = a * c * xx + (a * d + b * c) * xy + b * d * yy
    zoom = numbers.get("zoom", torch.zeros_like(first))
    every = {"zoom": zoom, "scale_x": first - zoom, "scale_y": second - zoom, "shear": slant}
    return {name: every[name] for name in numbers}
