"""Numbers where the paper has pictures."""

import math
from typing import Any

import torch
from torch import Tensor

from symmetries.actions.colours import rgb_to_hsv
from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.widths import highest_density_width

READ_DIGITS = (3, 4, 5, 7)  # digits with one orientation
REFINEMENTS = 5


def orbit_variance(model: SymmetryModel, x: Tensor, refine: int = 0) -> dict[str, float]:
    """How far prototypes of 8 rotations of an image differ, over how far images differ.

    "ratio" divides by the variance of the pixels over all images, "orbit_ratio" by the variance of
    the 8 rotated images themselves.
    """
    turns = Affine2("rotation").exp(torch.linspace(0, 2 * math.pi, 9, device=x.device)[:8, None])
    versions = ImageAction(Affine2("rotation"), interpolation="bspline").orbit(turns, x)
    prototypes = model.prototype(versions.flatten(0, 1), refine).unflatten(0, (len(x), 8))
    within = float(prototypes.var(1, correction=0).mean())
    return {
        "ratio": within / float(x.var(0, correction=0).mean()),
        "orbit_ratio": within / float(versions.var(1, correction=0).mean()),
    }


def iterated(model: SymmetryModel, x: Tensor) -> list[float]:
    """Mean size of the next eta after 0, 1, 2, ... inferences, relative to the first."""
    limit = torch.tensor(model.bounds, device=x.device)
    sizes = [float((model.infer(x) / limit).norm(dim=-1).mean())]
    for refine in range(REFINEMENTS):
        prototypes = model.prototype(x, refine)
        sizes.append(float((model.infer(prototypes) / limit).norm(dim=-1).mean()))
    return [size / sizes[0] for size in sizes]


def rotation_samples(model: SymmetryModel, data: ImageSet, n: int = 2048) -> Tensor:
    """Angles (N, n) under p(eta | x_hat) for the digits that have one orientation, in radians."""
    column = model.group.names.index("rotation")
    generator = torch.Generator(data.images.device).manual_seed(0)
    return model.sample_eta(data.images, n, generator)[..., column]


def readable(data: ImageSet, most: int) -> ImageSet:
    """The digits 3, 4, 5 and 7."""
    if data.labels is None:
        return data
    chosen = torch.isin(data.labels, torch.tensor(READ_DIGITS, device=data.labels.device))
    return data.subset(torch.nonzero(chosen)[:most, 0])


def rotation_widths(samples: Tensor, base: Tensor | None, added: float) -> dict[str, float]:
    """width90 of the rotation in degrees, and what planting predicts.

    Args:
        samples: angles (N, n) of the model at this added rotation.
        base: angles (N, n) of the model without added rotation; None if there is none.
        added: largest added angle, in degrees.
    """
    period = 2 * math.pi
    width = float(highest_density_width(samples, period).mean())
    result = {"width90": math.degrees(width)}
    if base is not None:
        noise = 2 * torch.rand(base.shape, generator=torch.Generator().manual_seed(1)) - 1
        planted = base + math.radians(added) * noise.to(base.device)
        expected = float(highest_density_width(planted, period).mean())
        result |= {"expected": math.degrees(expected), "ratio": width / expected}
    return result


def modes(samples: Tensor, bins: int = 72) -> Tensor:
    """Number of modes of each row of angles (N, n): peaks of a smoothed circular histogram.

    Between two peaks that count the density falls, and rises again, by at least a quarter of the
    highest.
    """
    place = torch.remainder(samples / (2 * math.pi) * bins, bins).long().clamp(0, bins - 1)
    counts = torch.zeros(len(samples), bins, device=samples.device)
    counts.scatter_add_(1, place, torch.ones_like(place, dtype=counts.dtype))
    offsets = torch.arange(-9, 10)
    taps = torch.exp(-0.5 * (offsets / 3) ** 2).tolist()
    parts = [t * counts.roll(o, 1) for t, o in zip(taps, offsets.tolist(), strict=True)]
    smooth = torch.stack(parts).sum(0)
    heights = (smooth / smooth.amax(1, keepdim=True)).cpu()
    return torch.tensor([_peaks(row.roll(-int(row.argmax())).tolist()) for row in heights])


def _peaks(heights: list[float], least: float = 0.25) -> int:
    """Peaks on a circle that begins at the highest, 1."""
    count, high, extreme = 1, True, 1.0
    for value in [*heights, 1.0]:
        if high:
            extreme = max(extreme, value)
            if value <= extreme - least:
                high, extreme = False, value
        else:
            extreme = min(extreme, value)
            if value >= extreme + least:
                count, high, extreme = count + 1, True, value
    return max(1, count - 1) if count > 1 else 1  # the last one is the first again


def colour_intervals(images: Tensor) -> dict[str, float]:
    """Ends (5 and 95 %) of the hue and saturation of images, each image's mean colour."""
    ink = images.amax(1, keepdim=True)
    mean = (images * ink).sum((2, 3), keepdim=True) / ink.sum((2, 3), keepdim=True).clamp_min(1e-6)
    hue, saturation, _ = rgb_to_hsv(mean)[..., 0, 0].unbind(1)
    result = {}
    for name, values in (("hue", hue), ("saturation", saturation)):
        low, high = values.quantile(torch.tensor([0.05, 0.95], device=values.device)).tolist()
        result |= {f"{name}_low": low, f"{name}_high": high}
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


def angles_to(template: Tensor, images: Tensor) -> Tensor:
    """Angles (N,) in degrees by which one picture (1, C, H, W) best becomes each, centres aside."""
    turns = torch.arange(-180, 180, device=images.device)
    group = Affine2("rotation")
    versions = ImageAction(group).orbit(group.exp(torch.deg2rad(turns)[:, None]), template)[0]
    scores = centred(images).flatten(1) @ torch.nn.functional.normalize(versions.flatten(1)).T
    return turns[scores.argmax(1)].float()


def centred(images: Tensor) -> Tensor:
    """Images moved so that their centre of mass is in the middle."""
    shift = Affine2("translation")
    return ImageAction(shift)(shift.exp(1 - 2 * centroids(images)), images)


def wasserstein(a: Tensor, b: Tensor) -> float:
    """Wasserstein-1 distance of two samples of numbers."""
    q = torch.linspace(0.0025, 0.9975, 200, device=a.device)
    return float((a.quantile(q) - b.quantile(q)).abs().mean())


def sprite_measures(model: SymmetryModel, data: ImageSet) -> dict[str, Any]:
    """Positions and orientations of resampled sprites against the planted ones."""
    generator = torch.Generator(data.images.device).manual_seed(0)
    result: dict[str, Any] = {}
    for kind, name in enumerate(("square", "ellipse", "heart")):
        chosen = torch.nonzero(data.labels == kind)[:500, 0]
        x = data.images[chosen]
        new = model.sample(x, 4, generator).flatten(0, 1)
        planted, found = centroids(x), centroids(new)
        result[name] = {
            "w1_x": wasserstein(planted[:, 0], found[:, 0]),
            "w1_y": wasserstein(planted[:, 1], found[:, 1]),
        }
        if name == "heart":
            off = angles_to(centred(x).mean(0, keepdim=True), new).abs()
            result[name] |= {
                "share_upper": float((found[:, 1] > 0.5).float().mean()),
                "angle_90_percent": float(off.quantile(0.9)),
            }
    return result
