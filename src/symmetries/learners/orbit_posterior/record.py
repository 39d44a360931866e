"""What an orbit posterior found, as a result of this package: plain records with a schema."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from symmetries.learners.orbit_posterior.findings import OrbitFindings
from symmetries.learners.orbit_posterior.planting import Planted
from symmetries.learners.orbit_posterior.summary import OrbitSummary, ParameterSummary
from symmetries.results import (
    ClassSymmetries,
    Histogram,
    PlantedWidth,
    PoseSubgroup,
    SelfTest,
    SymmetrySummary,
    Transformation,
)

WIDER = 1.1  # than the 90 % width to either side: what is kept of a density
NARROWEST = 1 / 16  # of the range to either side: no picture of a density is narrower
BINS = 24  # of the histogram of the widths of all pictures


def symmetry_summary(
    found: OrbitFindings | OrbitSummary, counts: Mapping[str, int] | None = None
) -> SymmetrySummary:
    """The findings, or a summary alone, as a record.

    Args:
        found: of :meth:`OrbitPosterior.findings` or :meth:`OrbitPosterior.summary`.
        counts: number of pictures of each class, by name.
    """
    summary = found.summary if isinstance(found, OrbitFindings) else found
    every = found.all_widths if isinstance(found, OrbitFindings) else {}
    per_class = found.per_class if isinstance(found, OrbitFindings) else {}
    check = SelfTest(sentence=summary.sentence, planted=tuple(map(_planted, summary.planted)))
    return SymmetrySummary(
        warnings=summary.warnings,
        transformations=tuple(
            _transformation(part, every.get(part.name, ())) for part in summary.parameters
        ),
        images=summary.images,
        gain=summary.gain,
        classes=_classes(per_class, counts or {}),
        check=check if summary.planted else None,
        subgroup=None if summary.subgroup is None else PoseSubgroup(**asdict(summary.subgroup)),
    )


def class_counts(labels: Tensor | None, names: Sequence[str] | None) -> dict[str, int]:
    """How many pictures each class has, by the name that findings give it."""
    if labels is None:
        return {}
    values, counts = torch.unique(labels.cpu(), return_counts=True)
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return {names[value] if names else str(value): count for value, count in pairs}


def _transformation(part: ParameterSummary, widths: Sequence[float]) -> Transformation:
    return Transformation(
        name=part.name,
        unit=part.unit,
        width90=part.width90,
        interval=part.interval,
        noise_floor=part.noise_floor,
        verdict=part.verdict,
        reason=part.reason,
        share_told=min(max(part.share_told, 0.0), 1.0),
        poses=part.poses,
        deciles=part.widths,
        widths=_counted(widths, part) if widths else None,
        calibration=part.calibration,
        histogram=_shown_density(part),
    )


def _shown_density(part: ParameterSummary) -> Histogram:
    """The density, without the far ends of its range where there is nothing."""
    low, high = shown_cells(part.unit, part.width90, part.edges, part.poses)
    density = tuple(float(f"{value:.4g}") for value in part.density[low:high])
    return Histogram(edges=part.edges[low : high + 1], density=density)


def shown_cells(unit: str, width: float, edges: Sequence[float], poses: int = 1) -> tuple[int, int]:
    """First and last (exclusive) of the cells of a centred density that are worth showing.

    These are all cells where there are several poses.

    Example:
        >>> shown_cells("degrees", 36.0, [10.0 * i - 180 for i in range(37)])
        (14, 22)
        >>> shown_cells("degrees", 324.0, [10.0 * i - 180 for i in range(37)])
        (0, 36)
    """
    cells = len(edges) - 1
    if unit == "elements" or poses > 1:
        return 0, cells
    ends = [edges[0], edges[-1], width]
    low, high, length = map(math.log, ends) if unit == "factor" else ends
    half = max(WIDER * length / (high - low), NARROWEST) * cells
    first = max(0, math.floor(cells / 2 - half))
    return first, cells - first


def _counted(widths: Sequence[float], part: ParameterSummary) -> Histogram:
    """How often each width occurs, as shares of all pictures per unit."""
    values = np.asarray(widths, dtype=np.float64)
    factor = part.unit == "factor"
    values = np.log(values) if factor else values
    low = 1.0 if part.unit == "elements" else 0.0
    high = max(float(values.max()), low + 1e-6)
    density, edges = np.histogram(values, BINS, (low, high), density=True)
    edges = np.exp(edges) if factor else edges
    return Histogram(  # edges have more digits: few are left of the logarithm of 1.0001
        edges=tuple(float(f"{edge:.9g}") for edge in edges),
        density=tuple(float(f"{value:.5g}") for value in density),
    )


def _planted(row: Planted) -> PlantedWidth:
    names = PlantedWidth.model_fields
    return PlantedWidth(**{name: getattr(row, name) for name in names})


def _classes(
    per_class: Mapping[str, Mapping[str, tuple[float, float, float]]], counts: Mapping[str, int]
) -> dict[str, ClassSymmetries]:
    """From parameter and class to class and parameter."""
    names = dict.fromkeys(name for table in per_class.values() for name in table)
    found = {}
    for name in names:
        own = {part: table[name] for part, table in per_class.items() if name in table}
        found[name] = ClassSymmetries(
            images=counts.get(name, 0),
            width90={part: row[0] for part, row in own.items()},
            interval={part: (row[1], row[2]) for part, row in own.items()},
        )
    return found
