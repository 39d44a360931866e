"""Numbers where the paper has pictures."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import ImageSet
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.summary import VERSIONS
from symmetries.learners.symmetry_model.widths import highest_density_width, small_sample_factor
from symmetries.ops.affine_inverse import affine_inverse

READ_DIGITS = (3, 4, 5, 7)  # digits with one orientation
REFINEMENTS = 5
FLOOR_STEPS = 150


def rotations(device: torch.device) -> Tensor:
    """Eight rotations (8, 3, 3), 45 degrees apart, the identity first."""
    return Affine2("rotation").exp(torch.linspace(0, 2 * math.pi, 9, device=device)[:8, None])


def turned(x: Tensor) -> Tensor:
    """Images (N, 8, C, H, W) turned by these."""
    act = ImageAction(Affine2("rotation"), interpolation="bspline")
    return act.orbit(rotations(x.device), x)


def orbit_variance(model: SymmetryModel, x: Tensor, refine: int = 0) -> dict[str, float]:
    """How far prototypes of 8 rotations of an image differ, over how far images differ.

    "ratio" divides by the variance of the pixels over all images, "orbit_ratio" by the variance of
    the 8 rotated images themselves, "own_ratio" by that over all prototypes, which does not depend
    on how large prototypes happen to be.
    """
    versions = turned(x)
    prototypes = model.prototype(versions.flatten(0, 1), refine).unflatten(0, (len(x), 8))
    within = float(prototypes.var(1, correction=0).mean())
    return {
        "ratio": within / float(x.var(0, correction=0).mean()),
        "orbit_ratio": within / float(versions.var(1, correction=0).mean()),
        "own_ratio": within / float(prototypes[:, 0].var(0, correction=0).mean()),
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


def mode_examples(
    model: SymmetryModel, data: ImageSet, count: int, bins: int = 72
) -> dict[str, Tensor]:
    """For each digit its image with the most modes of the rotation, and the flattest (Figure 10).

    The first of those with the most; of those with the fewest the one whose angle is widest.

    Returns:
        Images (20, C, H, W), prototypes, densities of the angle (20, bins), numbers of modes, and
        widths in degrees.
    """
    chosen, found, density, widths = [], [], [], []
    for label in sorted(set(data.labels.tolist())):
        part = torch.nonzero(data.labels == label)[:count, 0]
        samples = rotation_samples(model, data.subset(part), 1024)
        number = modes(samples)
        flat = highest_density_width(samples, 2 * math.pi).cpu() / (2 * math.pi)
        for place in (int(number.argmax()), int((number - flat).argmin())):
            chosen.append(int(part[place]))
            found.append(int(number[place]))
            widths.append(360 * float(flat[place]))
            turned = torch.remainder(samples[place].cpu() + math.pi, 2 * math.pi) - math.pi
            density.append(torch.histc(turned, bins, -math.pi, math.pi) / len(turned))
    x = data.images[torch.tensor(chosen, device=data.images.device)]
    return {
        "mode_images": x,
        "mode_prototypes": model.prototype(x),
        "mode_density": torch.stack(density),
        "mode_counts": torch.tensor(found),
        "mode_widths": torch.tensor(widths),
    }


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


def best_in_family(group: Affine2, wanted: Tensor) -> Tensor:
    """Parameters (..., dim) whose matrices are nearest to those wanted, by gradient steps.

    The distance is |T_p^-1 W - 1|^2.
    """
    best = torch.nan_to_num(group.named_log(wanted)).requires_grad_()
    optimiser = torch.optim.Adam([best], lr=0.02)
    one = torch.eye(3, device=wanted.device)
    for _ in range(FLOOR_STEPS):
        optimiser.zero_grad()
        off = (group.exp(-best) @ wanted - one).square().sum((-2, -1))
        off.sum().backward()
        optimiser.step()
    return best.detach()


def family_floor(group: Affine2, eta: Tensor, bounds: Sequence[float]) -> dict[str, float]:
    """The noise floor that the best f of a family has, for images at ``eta`` (N, dim).

    A family that is not closed under composition has no parameters that lead from a moved image
    T_r x exactly to the prototype of x. The nearest ones (:func:`best_in_family`) are read as the
    model's own floor is: a width in natural units.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (len(eta), VERSIONS, group.dim)
    random = torch.tensor(bounds) * (2 * torch.rand(shape, generator=generator) - 1)
    moved, here = group.exp(random), group.exp(eta)[:, None]
    best = best_in_family(group, moved @ here)
    gap = group.inverse(moved) @ group.exp(best) @ group.inverse(here)
    misses = torch.nan_to_num(group.named_log(gap))
    factor = small_sample_factor(VERSIONS)
    return {
        name: factor * float(highest_density_width(misses[..., i]).mean())
        for i, name in enumerate(group.names)
    }


def family_orbit(model: SymmetryModel, x: Tensor) -> dict[str, float]:
    """The ratio of :func:`orbit_variance` if f found, for its own prototypes, what is best.

    "best" has the nearest parameters of the family for the element R_i e that leads from the
    prototype of x to its i-th rotation, "exact" that element itself: what resampling leaves.
    """
    versions = turned(x)
    exact = rotations(x.device) @ model.element(x)[:, None]
    result = {}
    for name, elements in (("best", best_in_family(model.group, exact)), ("exact", exact)):
        found = model.group.exp(elements) if name == "best" else elements
        back = affine_inverse(found).flatten(0, 1)
        prototypes = model.act(back, versions.flatten(0, 1)).unflatten(0, (len(x), 8))
        within = float(prototypes.var(1, correction=0).mean())
        result[name] = within / float(x.var(0, correction=0).mean())
    return result
