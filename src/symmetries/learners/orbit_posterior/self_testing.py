"""What a fitted model says of itself on its data: calibration, self-test, and test of power."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.calibrating import calibration_error
from symmetries.learners.orbit_posterior.crossing import Crossed, in_parts, told_pictures
from symmetries.learners.orbit_posterior.planting import (
    Planted,
    Unseen,
    one_pose_is_seen,
    plant_and_recover,
    power_width,
)
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.separate_poses import pose_order
from symmetries.learners.orbit_posterior.verdicts import (
    FULL_SHARE,
    WIDE_SHARE,
    Headline,
    uniform_width,
)

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

# Pictures from which a uniform law may be called full, or a very wide one partial. Contents that
# occur once tell nothing of each other's poses, so that a network must learn from many what such
# contents look like.
FEWEST_FOR_WIDE, FEWEST_OF_EACH = 10_000, 200
FOLDS_OF_FEW = 2  # on which the self-test is read where every picture counts
NO_GAIN = 0.02  # nats: what explains unseen poses better than that is no uniform law


@dataclass(frozen=True)
class Checked:
    """What the tests on the user's own pictures say.

    Args:
        planted: widths that were planted and recovered.
        power: by coordinate, width that was found of a law half as wide.
        separate: coordinates whose separate poses are known to be those of the data.
    """

    planted: list[Planted]
    power: dict[str, float]
    separate: set[str]


def check_on_data(
    model: "OrbitPosterior",
    images: Tensor,
    lines: list[Headline],
    found: Crossed,
    usable: Tensor,
    repeats: bool,
    seed: int,
) -> Checked:
    """The self-test, and whether poses could be told at all where everything seems allowed."""
    if not model.config.check:
        return Checked([], {}, set())
    means = [
        centred_mean(d, line.told, usable) for d, line in zip(found.reading, lines, strict=True)
    ]
    unseen = _unseen(model, found, lines, usable)
    widths = [line.width for line in lines]
    planted = plant_and_recover(model, images, unseen, means, widths, seed)
    power, separate = {}, set()
    count = len(model.first.unique())
    for j, (density, line) in enumerate(zip(found.reading, lines, strict=True)):
        c = density.coordinate
        share = line.width / uniform_width(c)
        wide = c.kind == "circle" and share >= WIDE_SHARE
        full = c.kind != "line" and share >= FULL_SHARE
        told = told_pictures(density, line, usable)
        order = pose_order(told) if in_parts(told) else None
        if order is not None:
            enough = repeats and count >= FEWEST_OF_EACH
            settings = (model, images, unseen[0], j, line.width, order, seed)
            if enough and one_pose_is_seen(*settings):
                separate.add(c.name)
        elif (wide or full) and _enough(model, count, repeats, full):
            power[c.name] = power_width(model, images, unseen[0], j, line.width, seed)
    return Checked(planted, power, separate)


def _unseen(
    model: "OrbitPosterior", found: Crossed, lines: list[Headline], usable: Tensor
) -> list[Unseen]:
    """Pictures of the first folds on which the self-test is read."""
    parts = []
    for fold in range(FOLDS_OF_FEW if model.few else 1):
        places = (found.folds == fold).nonzero()[: model.config.reading.pictures // 4, 0]
        told = []
        for line in lines:
            every = torch.zeros(len(usable), dtype=torch.bool)
            every[usable] = line.told
            own = every[places] if bool(every[places].any()) else usable[places]
            told.append(own if bool(own.any()) else torch.ones_like(own))
        parts.append(Unseen(found.rows[places], tuple(told), fold))
    return parts


def _enough(model: "OrbitPosterior", count: int, repeats: bool, full: bool) -> bool:
    """Whether there are enough pictures that a very wide law could be seen to be none.

    For a uniform law of one coordinate unseen poses must not be told better than by chance, either.
    """
    alone = len(model.chart.coordinates) == 1
    if full and alone and sum(model.gains) / len(model.gains) > NO_GAIN:
        return False
    return count >= FEWEST_FOR_WIDE or (repeats and count >= FEWEST_OF_EACH)


def calibration_gaps(model: "OrbitPosterior", images: Tensor, seed: int) -> dict[str, float]:
    """The largest gap over the folds, on pictures that the fits have not seen."""
    folds = model.folds(len(images))
    worst: dict[str, float] = {}
    for fold, network in enumerate(model.fits):
        unseen = images[folds == fold][: model.config.reading.pictures]
        for name, gap in calibration_error(model, network, unseen, seed).items():
            worst[name] = max(worst.get(name, 0.0), gap)
    return worst


def centred_mean(density: Densities, told: Tensor, usable: Tensor) -> Tensor:
    """Mean density (cells,) of told pictures, each moved to the centre of its smallest set.

    Separate poses that are evenly likely are counted from each picture as it is.
    """
    chosen = Densities(density.coordinate, density.mass[usable][told], density.samples)
    if density.coordinate.kind == "finite" or (in_parts(chosen) and pose_order(chosen)):
        return chosen.mass.mean(0)
    cells = chosen.mass.shape[1]
    middle = chosen.centres() / chosen.cell
    places = torch.arange(cells)[None] + middle[:, None]
    low = places.floor()
    share = places - low
    total = torch.zeros_like(chosen.mass)
    for index, part in ((low.long(), 1 - share), (low.long() + 1, share)):
        if density.coordinate.kind == "circle":
            total += part * chosen.mass.gather(1, index % cells)
        else:
            inside = (index >= 0) & (index < cells)
            total += part * inside * chosen.mass.gather(1, index.clamp(0, cells - 1))
    mean = total.mean(0)
    return mean / mean.sum().clamp_min(1e-12)
