"""What was found: a width with an interval and a verdict for each parameter, and warnings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.calibrating import calibration_error
from symmetries.learners.orbit_posterior.cautions import (
    UNSETTLED,
    about_training,
    about_width,
    cut_off,
    self_test_sentence,
)
from symmetries.learners.orbit_posterior.chart import Coordinate
from symmetries.learners.orbit_posterior.crossing import (
    Crossed,
    calibrated,
    crossed,
    headlines,
    in_parts,
    usable_pictures,
    wider_pictures,
)
from symmetries.learners.orbit_posterior.planting import (
    Planted,
    Unseen,
    plant_and_recover,
    power_width,
    with_misses,
)
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.symmetric import contents_repeat
from symmetries.learners.orbit_posterior.verdicts import (
    FULL_SHARE,
    LOOSE_INTERVAL,
    SMALL_WIDTH,
    WIDE_SHARE,
    Headline,
    Verdict,
    uniform_width,
    verdict_of,
    with_drift,
)

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

# Pictures from which a uniform law may be called full, or a very wide one partial. Contents that
# occur once tell nothing of each other's poses, so that a network must learn from many what such
# contents look like.
FEWEST_FOR_WIDE, FEWEST_OF_EACH = 10_000, 200
DIRECTED = ("scale_x", "scale_y", "shear")
SEVERAL = "pictures look alike in several separate poses, or these poses occur"
NO_GAIN = 0.02  # nats: what explains unseen poses better than that is no uniform law


@dataclass(frozen=True)
class ParameterSummary:
    """One parameter, in the units of a person: degrees, pixels, factors, elements.

    Args:
        name: of the parameter, or of the finite group's.
        unit: "degrees", "pixels", "factor" or "elements"; a width in factors is the ratio of the
            ends, a width in elements their effective number.
        width90: length of the smallest set that holds 90 % of the density of poses, median over the
            pictures whose pose can be told.
        interval: of it, by bootstrap over pictures and fits.
        verdict: "absent", "partial", "full" or "cannot be told".
        noise_floor: width that the cells of the densities can tell.
        share_told: share of the pictures whose pose can be told.
        widths: deciles (11 numbers) of the widths of all pictures.
        edges: of the mean density.
        density: mean over told pictures, each on the centre of its smallest set.
        calibration: largest gap of the probability integral transform on unseen pictures.
        reason: why the width cannot be told, where it cannot.
    """

    name: str
    unit: str
    width90: float
    interval: tuple[float, float]
    verdict: Verdict
    noise_floor: float
    share_told: float
    widths: tuple[float, ...]
    edges: tuple[float, ...]
    density: tuple[float, ...]
    calibration: float
    reason: str = ""


@dataclass(frozen=True)
class OrbitSummary:
    """All parameters, what was recovered of planted transformations, and warnings.

    Args:
        parameters: one for each.
        images: how many were read.
        gain: nats by which unseen pictures' moves are told better than by chance.
        planted: what the self-test recovered.
        sentence: what the self-test says, in one sentence.
        warnings: to be read first.
    """

    parameters: tuple[ParameterSummary, ...]
    images: int
    gain: float
    planted: tuple[Planted, ...]
    sentence: str
    warnings: tuple[str, ...]

    def __getitem__(self, name: str) -> ParameterSummary:
        return next(p for p in self.parameters if p.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` gave, also after JSON made lists of its tuples."""
        lists = ("interval", "widths", "edges", "density")
        parts = tuple(
            ParameterSummary(**{**p, **{name: tuple(p[name]) for name in lists}})
            for p in data["parameters"]
        )
        planted = tuple(Planted(**p) for p in data["planted"])
        return cls(
            **{**data, "parameters": parts, "planted": planted, "warnings": tuple(data["warnings"])}
        )


def summarise(model: "OrbitPosterior", images: Tensor, seed: int) -> tuple[OrbitSummary, Crossed]:
    """The summary of a model on the pictures of its fit, shrunk, and their calibrated densities.

    Args:
        model: fitted.
        images: of its fit, in their order.
        seed: of views, samples and the bootstrap.
    """
    found = crossed(model, images, seed)
    usable, warnings = usable_pictures(model, images, found)
    symmetric = bool(warnings)
    repeats = contents_repeat(images[found.rows], model.chart, model.frame)
    lines = headlines(model, found, usable, repeats, seed)
    found = calibrated(found, lines, usable)
    gaps = _calibration(model, images, seed)
    planted, power = _checked(model, images, lines, found, usable, repeats, seed)
    pairs = list(zip(found.reading, lines, strict=True))
    lines = [
        with_drift(
            with_misses(line, d.coordinate, planted), model.drifts.get(d.coordinate.name, 0.0)
        )
        for d, line in pairs
    ]
    parts: list[ParameterSummary] = []
    for j, (density, line) in enumerate(zip(found.reading, lines, strict=True)):
        coordinate = density.coordinate
        verdict, why, line = verdict_of(coordinate, line, power.get(coordinate.name))
        if verdict != "absent" and (symmetric or in_parts(density, line, usable)):
            verdict, why = "cannot be told", SEVERAL
        others = wider_pictures(found, j, line, usable)
        if verdict in ("absent", "partial") and others is not None:
            shown, unit = coordinate.display(others, max(model.shape[1:]))
            why = f"pictures differ: many vary by about {shown:.3g} {unit}; see widths by class"
            verdict = "cannot be told"
        if verdict == "partial" and coordinate.name in DIRECTED and _untold(parts, "rotation"):
            verdict, why = "cannot be told", "directions are unknown where rotations cannot be told"
        if verdict == "partial" and cut_off(model, coordinate.name):
            verdict, why = "cannot be told", cut_off(model, coordinate.name)
        gap = gaps.get(coordinate.name, 0.0)
        if verdict == "cannot be told":
            line = untold_interval(line, coordinate, why, others, max(model.rises) > UNSETTLED)
        part = replace(_part(model, density, line, verdict, usable, gap), reason=why)
        parts.append(part)
        warnings += about_width(part, line.width, planted)
    warnings += about_training(model, certain=not warnings)
    gain = sum(model.gains) / len(model.gains)
    summary = OrbitSummary(
        tuple(parts),
        len(found.rows),
        gain,
        tuple(planted),
        self_test_sentence(planted),
        tuple(warnings),
    )
    return summary, found


def untold_interval(
    line: Headline, coordinate: Coordinate, why: str, others: float | None, unsettled: bool
) -> Headline:
    """The interval of a width that cannot be told: what is known for certain, maybe nothing."""
    least = 1.0 if coordinate.kind == "finite" else 0.0
    if unsettled:
        return replace(line, low=least, high=uniform_width(coordinate))
    low = line.low if why in (LOOSE_INTERVAL, SMALL_WIDTH, SEVERAL) else least
    return replace(line, low=low, high=max(line.high, others or 0.0))


def _untold(parts: list[ParameterSummary], name: str) -> bool:
    return any(part.name == name and part.verdict == "cannot be told" for part in parts)


def _checked(
    model: "OrbitPosterior",
    images: Tensor,
    lines: list[Headline],
    found: Crossed,
    usable: Tensor,
    repeats: bool,
    seed: int,
) -> tuple[list[Planted], dict[str, float]]:
    """The self-test, and whether poses could be told at all where everything seems allowed."""
    if not model.config.check:
        return [], {}
    means = [
        centred_mean(d, line.told, usable) for d, line in zip(found.reading, lines, strict=True)
    ]
    unseen = _unseen(model, found, lines, usable)
    widths = [line.width for line in lines]
    planted = plant_and_recover(model, images, unseen, means, widths, seed)
    power = {}
    for j, (density, line) in enumerate(zip(found.reading, lines, strict=True)):
        c = density.coordinate
        share = line.width / uniform_width(c)
        wide = c.kind == "circle" and share >= WIDE_SHARE
        full = c.kind != "line" and share >= FULL_SHARE
        if (wide or full) and _enough(model, len(images), repeats, full):
            power[c.name] = power_width(model, images, unseen, j, line.width, seed)
    return planted, power


def _unseen(
    model: "OrbitPosterior", found: Crossed, lines: list[Headline], usable: Tensor
) -> Unseen:
    """Pictures of the first fold on which the self-test is read."""
    count = min(len(found.fewer[0]), model.config.reading.pictures // 4)
    told = []
    for line in lines:
        every = torch.zeros(len(usable), dtype=torch.bool)
        every[usable] = line.told
        own = every[:count] if bool(every[:count].any()) else usable[:count]
        told.append(own if bool(own.any()) else torch.ones_like(own))
    return Unseen(found.rows[:count], tuple(told))


def _enough(model: "OrbitPosterior", count: int, repeats: bool, full: bool) -> bool:
    """Whether there are enough pictures that a very wide law could be seen to be none.

    For a uniform law of one coordinate unseen poses must not be told better than by chance, either.
    """
    alone = len(model.chart.coordinates) == 1
    if full and alone and sum(model.gains) / len(model.gains) > NO_GAIN:
        return False
    return count >= FEWEST_FOR_WIDE or (repeats and count >= FEWEST_OF_EACH)


def _calibration(model: "OrbitPosterior", images: Tensor, seed: int) -> dict[str, float]:
    """The largest gap over the folds, on pictures that the fits have not seen."""
    folds = model.folds(len(images))
    worst: dict[str, float] = {}
    for fold, network in enumerate(model.fits):
        unseen = images[folds == fold][: model.config.reading.pictures]
        for name, gap in calibration_error(model, network, unseen, seed).items():
            worst[name] = max(worst.get(name, 0.0), gap)
    return worst


def centred_mean(density: Densities, told: Tensor, usable: Tensor) -> Tensor:
    """Mean density (cells,) of told pictures, each moved to the centre of its smallest set."""
    chosen = Densities(density.coordinate, density.mass[usable][told], density.samples)
    if density.coordinate.kind == "finite":
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


def _part(
    model: "OrbitPosterior",
    density: Densities,
    line: Headline,
    verdict: Verdict,
    usable: Tensor,
    gap: float,
) -> ParameterSummary:
    coordinate, side = density.coordinate, max(model.shape[1:])
    mean = centred_mean(density, line.told, usable)
    cells = len(mean)
    finite = coordinate.kind == "finite"
    edges = [i - 0.5 if finite else i * density.cell - coordinate.reach for i in range(cells + 1)]
    deciles = density.widths().quantile(torch.linspace(0, 1, 11))
    scale = 1.0 if finite else abs(coordinate.display(1.0, side)[0]) * density.cell
    if coordinate.parameter is not None and coordinate.parameter.unit == "log-factor":
        scale = density.cell
    width, unit = coordinate.display(line.width, side)
    floor = 1.0 if finite else coordinate.display(1.5 * density.cell, side)[0]
    ends = [coordinate.display(end, side)[0] for end in (line.low, line.high)]
    return ParameterSummary(
        name=coordinate.name,
        unit=unit,
        width90=width,
        interval=(ends[0], ends[1]),
        verdict=verdict,
        noise_floor=floor,
        share_told=line.share * float(usable.float().mean()),
        widths=tuple(coordinate.display(float(d), side)[0] for d in deciles),
        edges=tuple(edge if finite else coordinate.display(edge, side)[0] for edge in edges),
        density=tuple((mean / scale).tolist()),
        calibration=gap,
    )
