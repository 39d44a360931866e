"""What was found: a width with an interval and a verdict for each parameter, and warnings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.cautions import (
    about_training,
    about_width,
    cut_off,
    self_test_sentence,
)
from symmetries.learners.orbit_posterior.chart import DIRECTED, Coordinate
from symmetries.learners.orbit_posterior.crossing import (
    Crossed,
    calibrated,
    crossed,
    headlines,
    in_parts,
    told_pictures,
    usable_pictures,
    wider_pictures,
)
from symmetries.learners.orbit_posterior.planting import Planted, with_misses
from symmetries.learners.orbit_posterior.reading import Densities
from symmetries.learners.orbit_posterior.rounds import UNSETTLED
from symmetries.learners.orbit_posterior.self_testing import (
    calibration_gaps,
    centred_mean,
    check_on_data,
)
from symmetries.learners.orbit_posterior.separate_poses import (
    PoseSubgroup,
    pose_order,
    pose_subgroup,
)
from symmetries.learners.orbit_posterior.symmetric import contents_alike, contents_repeat
from symmetries.learners.orbit_posterior.verdicts import (
    LOOSE_INTERVAL,
    SMALL_WIDTH,
    Headline,
    Verdict,
    uniform_width,
    verdict_of,
    with_drift,
)

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior

DRIFTED = 0.05  # logarithm of a width, by what the last of several rounds changed it
TURNED = "different contents that occur in every turn do not show how they are stretched"
SEVERAL = "pictures look alike in several separate poses, or these poses occur"


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
        density: mean over told pictures, each on the centre of its smallest set, or as it is where
            there are several poses.
        calibration: largest gap of the probability integral transform on unseen pictures.
        reason: why the width cannot be told, where it cannot.
        poses: number of evenly likely poses, a whole fraction of a turn apart, around which the
            density lies; 1 if it is in one piece. The width is of all.
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
    poses: int = 1


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
        subgroup: of the rotations that the poses make, where they make one.
    """

    parameters: tuple[ParameterSummary, ...]
    images: int
    gain: float
    planted: tuple[Planted, ...]
    sentence: str
    warnings: tuple[str, ...]
    subgroup: PoseSubgroup | None = None

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
        subgroup = data.get("subgroup")
        read = {
            "parameters": parts,
            "planted": planted,
            "warnings": tuple(data["warnings"]),
            "subgroup": None if subgroup is None else PoseSubgroup(**subgroup),
        }
        return cls(**{**data, **read})


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
    once = (model.first[found.rows] == found.rows).to(images.device)  # copies are no repetition
    repeats = contents_repeat(images[found.rows][once], model.chart, model.frame)
    lines = headlines(model, found, usable, repeats, seed)
    found = calibrated(found, lines, usable)
    gaps = calibration_gaps(model, images, seed)
    checked = check_on_data(model, images, lines, found, usable, repeats, seed)
    pairs = list(zip(found.reading, lines, strict=True))
    lines = [
        with_drift(
            with_misses(line, d.coordinate, checked.planted),
            model.drifts.get(d.coordinate.name, 0.0),
        )
        for d, line in pairs
    ]
    restless = max(model.rises) > UNSETTLED
    parts: list[ParameterSummary] = []
    for j, (density, line) in enumerate(zip(found.reading, lines, strict=True)):
        coordinate = density.coordinate
        unsettled = restless and abs(model.drifts.get(coordinate.name, math.inf)) > DRIFTED
        verdict, why, line = verdict_of(coordinate, line, checked.power.get(coordinate.name))
        told = told_pictures(density, line, usable)
        apart = in_parts(told)
        if apart and coordinate.name in checked.separate and not symmetric:
            if verdict == "absent" or why == SMALL_WIDTH:  # few degrees at each of several poses
                verdict, why = "partial", ""
        elif apart or (symmetric and verdict != "absent"):
            verdict, why = "cannot be told", SEVERAL
        others = wider_pictures(found, j, line, usable)
        if verdict in ("absent", "partial") and others is not None:
            shown, unit = coordinate.display(others, max(model.shape[1:]))
            why = f"pictures differ: many vary by about {shown:.3g} {unit}; see widths by class"
            verdict = "cannot be told"
        if verdict == "partial" and coordinate.name in DIRECTED and _untold(parts, "rotation"):
            verdict, why = "cannot be told", "directions are unknown where rotations cannot be told"
        turned = verdict == "partial" and coordinate.name in DIRECTED and _full(parts, "rotation")
        if turned and not contents_alike(images[found.rows], model.chart, model.frame):
            verdict, why = "cannot be told", TURNED
        if verdict == "partial" and unsettled and model.chart.shapes:
            verdict, why = "cannot be told", "training had not settled; train longer"
        if verdict == "partial" and cut_off(model, coordinate.name):
            verdict, why = "cannot be told", cut_off(model, coordinate.name)
        gap = gaps.get(coordinate.name, 0.0)
        if verdict == "cannot be told":
            line = untold_interval(line, coordinate, why, others, unsettled)
        poses = (pose_order(told) or 1) if apart and verdict == "partial" else 1
        part = _part(model, density, line, verdict, usable, gap)
        part = replace(part, reason=why, poses=poses)
        parts.append(part)
        warnings += about_width(part, line.width, checked.planted)
    warnings += about_training(model, certain=not warnings)
    gain = sum(model.gains) / len(model.gains)
    summary = OrbitSummary(
        tuple(parts),
        len(found.rows),
        gain,
        tuple(checked.planted),
        self_test_sentence(checked.planted),
        tuple(warnings),
        _subgroup(parts, found, lines, usable),
    )
    return summary, found


def _subgroup(
    parts: Sequence[ParameterSummary], found: Crossed, lines: Sequence[Headline], usable: Tensor
) -> PoseSubgroup | None:
    """The subgroup that rotations make, beside mirror images where these were asked for.

    None of a finite group, whose rotations are named as those by any angle are.
    """
    mirrors = {part.verdict for part in parts if part.unit == "elements"}
    for part, density, line in zip(parts, found.reading, lines, strict=True):
        turns = part.name == "rotation" and density.coordinate.kind == "circle"
        if turns and (part.poses > 1 or part.verdict == "full"):
            if mirrors - {"absent", "full"}:
                return None
            told = told_pictures(density, line, usable)
            order = part.poses if part.poses > 1 else None
            return pose_subgroup(told, order, "full" in mirrors)
    return None


def untold_interval(
    line: Headline, coordinate: Coordinate, why: str, others: float | None, unsettled: bool
) -> Headline:
    """The interval of a width that cannot be told: what is known for certain, maybe nothing."""
    least = 1.0 if coordinate.kind == "finite" else 0.0
    if unsettled:
        return replace(line, low=least, high=uniform_width(coordinate))
    low = line.low if why in (LOOSE_INTERVAL, SMALL_WIDTH, SEVERAL) else least
    return replace(line, low=low, high=max(line.high, others or 0.0))


def _full(parts: list[ParameterSummary], name: str) -> bool:
    return any(part.name == name and part.verdict == "full" for part in parts)


def _untold(parts: list[ParameterSummary], name: str) -> bool:
    return any(part.name == name and part.verdict == "cannot be told" for part in parts)


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
