"""Arrays of the figures, small enough to keep; figures.py draws them."""

import measures
import numpy as np
import planted
import torch
from torch import Tensor

from symmetries.data import ImageSet
from symmetries.learners.symmetry_model import SymmetryModel

VERSIONS = 7
ALL = "all"


@torch.no_grad()
def pictures(model: SymmetryModel, test: ImageSet, count: int = 20) -> dict[str, np.ndarray]:
    """Arrays of the figures: examples, prototypes, new versions, chains, marginals, joints."""
    x = test.images[in_turn(test, count)]
    generator = torch.Generator(model.device).manual_seed(0)
    edges, density = model.marginals(x, 60, 4096, generator)
    arrays = {
        "examples": x,
        "prototypes": model.prototype(x),
        "new": model.sample(x, VERSIONS, generator),
        "chain": torch.stack([model.prototype(x, refine) for refine in range(5)], 1),
        "edges": edges,
        "density": density,
        "joint": model.sample_eta(x[:6], 2000, generator),
        "eta": model.infer(test.images[:256]),
    }
    for place, name in enumerate(part_names(model)):
        parts = orbit_of(model, x[:4], name, torch.Generator(model.device).manual_seed(place))
        arrays |= {f"{kind}_{name}": part for kind, part in parts.items()}
    plain = {name: part.half().cpu().numpy() for name, part in arrays.items()}
    plain["names"] = np.array(model.group.names)
    plain["parts"] = np.array(part_names(model))
    plain["iterated"] = np.array(measures.iterated(model, test.images[:1000]))
    return plain


def in_turn(data: ImageSet, count: int) -> Tensor:
    """Indices of the first images of the classes, which take turns: square, ellipse, heart, ..."""
    if data.labels is None:
        return torch.arange(min(count, len(data)), device=data.images.device)
    kinds = sorted(set(data.labels.tolist()))
    each = [torch.nonzero(data.labels == kind)[:count, 0] for kind in kinds]
    shortest = min(map(len, each))
    return torch.stack([part[:shortest] for part in each], 1).flatten()[:count]


def part_names(model: SymmetryModel) -> tuple[str, ...]:
    """What moves in Figures 13 (rotation, shifts, everything) and 14 (each part of a colour)."""
    if "hue" in model.group.names:
        return model.group.names
    return ("rotation", "shift", ALL) if "shift_x" in model.group.names else (ALL,)


def orbit_of(
    model: SymmetryModel, x: Tensor, part: str, generator: torch.Generator
) -> dict[str, Tensor]:
    """Versions (N, 7, C, H, W) that differ in some parameters, their prototypes, and new ones."""
    limit = torch.tensor(model.bounds, device=x.device)
    names = model.group.names
    moving = torch.tensor([part == ALL or name.startswith(part) for name in names], device=x.device)
    unit = 2 * torch.rand(VERSIONS, len(names), generator=generator, device=x.device) - 1
    orbit = model.act.orbit(model.group.exp(unit * limit * moving), x)
    same = model.prototype(orbit.flatten(0, 1)).unflatten(0, orbit.shape[:2])
    return {"orbit": orbit, "same": same, "again": model.sample(x, VERSIONS, generator)}


def special_pictures(
    task: str, model: SymmetryModel, test: ImageSet, count: int
) -> dict[str, np.ndarray]:
    """Arrays of figures that only one task has: modes of digits (10), places of sprites (17)."""
    if task.startswith("sprites-affine"):
        parts = planted.places(model, test, 2 * count)
        return {name: part.half().cpu().numpy() for name, part in parts.items()}
    if task == "mnist-affine":
        parts = measures.mode_examples(model, test, count)
        return {name: part.float().cpu().numpy() for name, part in parts.items()}
    return {}
