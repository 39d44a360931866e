"""Images with sharp edges: does p(eta | x_hat) read how far they were turned off their pixels?"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.data import digits
from symmetries.groups.affine import Affine2
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel

NOISES = (0.0, 0.35, 0.5, 0.7)
FEW, MANY = 10.0, 60.0  # degrees by which digits from 0 to 4, and from 5 on, are turned
MASS = 0.9

QUICK = SymmetryConfig.preset("quick")


def drawn(n: int, degrees: float, side: int = 16, finer: int = 2) -> Tensor:
    """Ls with arms of several lengths, turned by up to so many degrees, (n, 1, side, side).

    Drawn in two values on a grid that is so many times finer, and shrunk.
    """
    generator = torch.Generator().manual_seed(0)
    angle = math.radians(degrees) * (2 * torch.rand(n, 1, 1, generator=generator) - 1)
    arm = 0.45 + 0.2 * torch.rand(n, 1, 1, generator=generator)
    axis = (torch.arange(finer * side) + 0.5) / (finer * side) * 2 - 1
    x, y = axis[None, None, :], -axis[None, :, None]
    u, v = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    upright = ((u + 0.25).abs() < 0.18) & (v.abs() < arm)
    foot = (u > -0.25) & (u < 0.5) & ((v + arm - 0.15).abs() < 0.18)
    return F.avg_pool2d((upright | foot).float()[:, None], finer)


def digits_by_class() -> tuple[Tensor, Tensor]:
    """Digits of 8 x 8 pixels in a frame of 12 x 12, the first five turned less than the others."""
    data = digits("train")
    labels = data.labels
    assert labels is not None
    generator = torch.Generator().manual_seed(5)
    most = torch.deg2rad(torch.where(labels < 5, FEW, MANY))
    turn = most * (2 * torch.rand(len(labels), generator=generator) - 1)
    act = ImageAction(Affine2("rotation"), interpolation="bspline")
    turned = act(act.group.exp(turn[:, None]), F.pad(data.images, (2,) * 4))
    return turned.clamp(0, 1), labels


def sets() -> Iterator[tuple[str, Tensor, Tensor | None, list[float]]]:
    """Name, images, classes, and 90 % of what was planted, in all or in both halves of classes."""
    for degrees in (0.0, 45.0, 180.0):
        yield f"Ls, ±{degrees:g}", drawn(600, degrees), None, [2 * MASS * degrees]
    images, labels = digits_by_class()
    yield f"digits, ±{FEW:g} and ±{MANY:g}", images, labels, [2 * MASS * d for d in (FEW, MANY)]


def study(device: str, share: float, quick: SymmetryConfig = QUICK) -> Iterator[Any]:
    """Width of the rotation by the noise on prototypes, with one inference network for each set."""
    for name, images, labels, planted in sets():
        shape = (1, images.shape[2], images.shape[3])
        config = quick.replace(
            inference=quick.inference.replace(steps=round(quick.inference.steps * share)),
            generative=quick.generative.replace(steps=round(quick.generative.steps * share)),
        )
        first = SymmetryModel("rotation", shape, config)
        first.fit(images, stages=("inference",), device=device, progress=False)
        for noise in NOISES:
            model = SymmetryModel("rotation", shape, config.replace(prototype_noise=noise))
            model.inference.load_state_dict(first.inference.state_dict())
            model.fit(images, stages=("generative",), device=device, progress=False)
            summary = model.summary(images, labels)
            found = summary["rotation"]
            widths = [found.width90]
            if labels is not None:
                each = [summary.classes[str(digit)].width90["rotation"] for digit in range(10)]
                widths = [sum(half) / 5 for half in (each[:5], each[5:])]
            row = {"data": name, "prototype_noise": noise, "planted": planted, "width90": widths}
            yield row | {"floor": found.noise_floor, "verdict": found.verdict}
