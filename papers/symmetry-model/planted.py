"""What was planted in the data, measured on new versions of images."""

import math
from typing import Any

import torch
from torch import Tensor

from symmetries.actions.colours import rgb_to_hsv
from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.widths import FULL_SHARE, MASS, highest_density_width

PLANTED_HUE = (0.0, 0.6 * math.pi)
PLANTED_SATURATION = (0.6, 0.9)
SPREAD = 0.25  # standard deviation of a whitened picture, in half-image units


def colours(images: Tensor) -> tuple[Tensor, Tensor]:
    """Hue in radians, from -pi to pi, and saturation (N,) of each image's mean colour."""
    ink = images.amax(1, keepdim=True)
    mean = (images * ink).sum((2, 3), keepdim=True) / ink.sum((2, 3), keepdim=True).clamp_min(1e-6)
    hue, saturation, _ = rgb_to_hsv(mean)[..., 0, 0].unbind(1)
    return torch.remainder(hue + math.pi, 2 * math.pi) - math.pi, saturation


def interval(values: Tensor) -> tuple[float, float]:
    """Ends of a uniform interval, from the 5 and 95 % quantiles of a sample."""
    low, high = values.quantile(torch.tensor([0.05, 0.95], device=values.device)).tolist()
    beyond = (high - low) / 18  # 5 % of the interval lie beyond either quantile
    return low - beyond, high + beyond


def colour_measures(model: SymmetryModel, images: Tensor) -> dict[str, Any]:
    """Ends of the intervals of hue and saturation, of new versions and of the images themselves.

    "off" is the larger distance of an end to the planted one, over the length of the interval.
    """
    new = model.augment(images, torch.Generator(model.device).manual_seed(0))
    result: dict[str, Any] = {}
    planted = (PLANTED_HUE, PLANTED_SATURATION)
    for name, ends, old, fresh in zip(
        ("hue", "saturation"), planted, colours(images), colours(new), strict=True
    ):
        found = interval(fresh)
        off = max(abs(f - e) for f, e in zip(found, ends, strict=True)) / (ends[1] - ends[0])
        result[name] = {"planted": ends, "images": interval(old), "new": found, "off": off}
    return result


def centroids(images: Tensor) -> Tensor:
    """Centres (N, 2) of grey images in units of the image's width, x to the right and y up."""
    height, width = images.shape[-2:]
    mass = images.sum(1)
    total = mass.sum((1, 2)).clamp_min(1e-6)
    x = (mass.sum(1) * ((torch.arange(width, device=images.device) + 0.5) / width)).sum(1) / total
    down = (torch.arange(height, device=images.device) + 0.5) / height
    y = 1 - (mass.sum(2) * down).sum(1) / total
    return torch.stack((x, y), 1)


def covariances(images: Tensor) -> Tensor:
    """Second moments (N, 2, 2) of square images about their centres, in half-image units."""
    side = images.shape[-1]
    axis = (torch.arange(side, device=images.device) + 0.5) / side * 2 - 1
    centre = 2 * centroids(images) - 1
    x = (axis[None, None, :] - centre[:, 0, None, None]).expand(-1, side, side)
    y = (-axis[None, :, None] - centre[:, 1, None, None]).expand(-1, side, side)
    mass = images.sum(1)
    mass = mass / mass.sum((1, 2), keepdim=True).clamp_min(1e-6)
    points = torch.stack((x, y), -1)
    return torch.einsum("nhw,nhwi,nhwj->nij", mass, points, points)


def whitened(images: Tensor) -> Tensor:
    """Images centred and stretched until they are as wide in every direction; not turned."""
    values, vectors = torch.linalg.eigh(covariances(images))
    root = vectors @ torch.diag_embed(values.clamp_min(1e-8) ** -0.5) @ vectors.mT
    element = torch.eye(3, device=images.device).repeat(len(images), 1, 1)
    element[:, :2, :2] = SPREAD * root
    centre = (2 * centroids(images) - 1)[..., None]
    element[:, :2, 2:] = -SPREAD * root @ centre
    return ImageAction(Affine2())(element, images)


def angles_to(template: Tensor, images: Tensor, period: int = 360) -> Tensor:
    """Angles (N,) in degrees by which a whitened picture (1, C, H, W) best becomes each, whitened.

    Sizes, proportions and places do not matter; +-1 degree.
    """
    turns = torch.arange(-(period // 2), period - period // 2, device=images.device)
    group = Affine2("rotation")
    versions = ImageAction(group).orbit(group.exp(torch.deg2rad(turns)[:, None]), template)[0]
    basis = torch.nn.functional.normalize(versions.flatten(1))
    parts = [turns[(whitened(p).flatten(1) @ basis.T).argmax(1)] for p in images.split(500)]
    return torch.cat(parts).float()


def axes(images: Tensor) -> Tensor:
    """Directions (N,) of the longest axis, in degrees from 0 to 180, counter-clockwise."""
    (xx, xy), (_, yy) = (row.unbind(-1) for row in covariances(images).unbind(-2))
    return torch.remainder(torch.rad2deg(torch.atan2(2 * xy, xx - yy)) / 2, 180)


def zeros(model: SymmetryModel, data: ImageSet, most: int, parts: int = 4) -> list[dict[str, Any]]:
    """How far zeros turn, by how round they are: what p says, beside directions in the data.

    Directions of the longest axis are known up to half a turn, so the smallest set of them that
    holds 90 % is counted twice, once for either half: 324 degrees if they were uniform.

    Returns:
        For each part of the images labelled 0, rounder ones first: the ratio of their axes, the
        width of their directions, p's width90 of the rotation, its mean and the widest, in degrees,
        and the share that is as good as uniform ("full", as in verdicts).
    """
    x = data.images[torch.nonzero(data.labels == 0)[:, 0]]
    spread = torch.linalg.eigvalsh(covariances(x))
    ratio = (spread[:, 1] / spread[:, 0]).sqrt()
    column = model.group.names.index("rotation")
    rows = []
    for part in ratio.argsort().chunk(parts):
        twice = torch.deg2rad(2 * axes(x[part]))
        generator = torch.Generator(x.device).manual_seed(0)
        turned = model.sample_eta(x[part[: most // parts]], 1024, generator)[..., column]
        found = highest_density_width(turned, 2 * math.pi)
        rows.append(
            {
                "ratio": [float(ratio[part].min()), float(ratio[part].max())],
                "directions": math.degrees(float(highest_density_width(twice, 2 * math.pi))),
                "width90": math.degrees(float(found.mean())),
                "widest": math.degrees(float(found.max())),
                "flat": float((found >= FULL_SHARE * MASS * 2 * math.pi).float().mean()),
            }
        )
    return rows


def wasserstein(a: Tensor, b: Tensor) -> float:
    """Wasserstein-1 distance of two samples of numbers."""
    q = torch.linspace(0.0025, 0.9975, 200, device=a.device)
    return float((a.quantile(q) - b.quantile(q)).abs().mean())


def sprite_measures(model: SymmetryModel, data: ImageSet, count: int) -> dict[str, Any]:
    """Positions and orientations of new sprites, ``count`` of a shape, against planted ones."""
    generator = torch.Generator(data.images.device).manual_seed(0)
    result: dict[str, Any] = {}
    for kind, name in enumerate(("square", "ellipse", "heart")):
        chosen = torch.nonzero(data.labels == kind)[:count, 0]
        x = data.images[chosen]
        new = model.sample(x, 4, generator).flatten(0, 1)
        planted, found = centroids(x), centroids(new)
        result[name] = {
            "w1_x": wasserstein(planted[:, 0], found[:, 0]),
            "w1_y": wasserstein(planted[:, 1], found[:, 1]),
        }
        result[name] |= {"heart": hearts, "ellipse": ellipses, "square": squares}[name](x, new)
    return result


@torch.no_grad()
def heart_prototypes(model: SymmetryModel, data: ImageSet, count: int = 300) -> dict[str, float]:
    """How far the angles of hearts' prototypes lie from their mean: 50 and 90 % quantiles, degrees.

    Of test images ("clean"), and of random versions of them ("moved").
    """
    x = data.images[torch.nonzero(data.labels == 2)[:count, 0]]
    template = whitened(x).mean(0, keepdim=True)
    limit = torch.tensor(model.bounds, device=x.device)
    unit = torch.rand(len(x), len(limit), generator=torch.Generator().manual_seed(0)) * 2 - 1
    moved = model.act(model.group.exp(unit.to(x.device) * limit), x)
    result = {}
    for name, images in (("clean", x), ("moved", moved)):
        angles = torch.deg2rad(angles_to(template, model.prototype(images)))
        mean = torch.atan2(angles.sin().mean(), angles.cos().mean())
        off = torch.remainder(angles - mean + math.pi, 2 * math.pi) - math.pi
        result[f"{name}_median"] = math.degrees(float(off.abs().median()))
        result[f"{name}_90_percent"] = math.degrees(float(off.abs().quantile(0.9)))
    return result


def places(model: SymmetryModel, data: ImageSet, count: int) -> dict[str, Tensor]:
    """Centres of test sprites and of new versions of them, by shape (Figure 17)."""
    generator = torch.Generator(data.images.device).manual_seed(1)
    result = {}
    for kind, name in enumerate(("square", "ellipse", "heart")):
        x = data.images[torch.nonzero(data.labels == kind)[:count, 0]]
        new = model.sample(x, 2, generator).flatten(0, 1)
        result |= {f"places_{name}": centroids(x), f"new_places_{name}": centroids(new)}
        result[f"shown_{name}"] = torch.stack((x[:10], new[:20:2]))
    return result


def hearts(x: Tensor, new: Tensor) -> dict[str, float]:
    """How upright hearts are, and the two modes of their height."""
    off = angles_to(whitened(x).mean(0, keepdim=True), new).abs()
    height = centroids(new)[:, 1]
    return {
        "share_upper": float((height > 0.5).float().mean()),
        "share_between": float(((height - 0.5).abs() < 0.05).float().mean()),
        "share_between_planted": float(((centroids(x)[:, 1] - 0.5).abs() < 0.05).float().mean()),
        "angle_median": float(off.median()),
        "angle_90_percent": float(off.quantile(0.9)),
        "share_within_5_degrees": float((off <= 5).float().mean()),
    }


def ellipses(x: Tensor, new: Tensor) -> dict[str, float]:
    """Directions of the longest axis: planted from 0 to 90 degrees, of 180 possible."""
    # 135 degrees are farthest from what was planted: cut the circle there.
    before, after = (torch.remainder(axes(part) - 135, 180) for part in (x, new))
    return {
        "angle_w1_degrees": wasserstein(before, after),
        "share_within_quarter": float(((after >= 40) & (after <= 140)).float().mean()),
        "share_within_quarter_planted": float(((before >= 40) & (before <= 140)).float().mean()),
    }


def squares(x: Tensor, new: Tensor) -> dict[str, float]:
    """Angles of squares modulo 90 degrees: planted uniform; the largest gap of the shares of 9."""
    template = whitened(x[:1])
    shares = []
    for part in (x, new):
        turned = torch.remainder(angles_to(template, part, 90), 90)
        shares.append(torch.histc(turned, 9, 0, 90) / len(turned))
    return {"largest_share_of_9": float(shares[1].max()), "of_planted": float(shares[0].max())}
