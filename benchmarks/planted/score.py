"""Scores of stored answers: right, cannot be told, wrong with a warning, wrong without one.

A parameter is right if its verdict is, and, where a width is expected, if the ratio of both widths
lies in 0.85 to 1.15 (of logarithms, for factors). A cell is right if all parameters that were asked
for are; "cannot be told" if some of them cannot and the others are right; wrong otherwise. A wrong
cell without a warning is a silent error.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.planted.records import FoundRow, Results, Row
from benchmarks.planted.truth import CANNOT, FINITE, Natural, binned_truth, own_width, period_of

RATIO = (0.85, 1.15)
SHARP = ("letters", "coloured letters", "digits", "mnist", "hearts", "sprites")  # see Done when
Cell = Mapping[str, Any]


@dataclass(frozen=True)
class ParameterScore:
    """One parameter of a cell; what does not apply is None."""

    name: str
    right: bool
    told: bool
    ratio: float | None
    total_variation: float | None
    covered: bool | None
    still: float | None = None  # the width found of an angle that does not vary


@dataclass(frozen=True)
class CellScore:
    """One cell: "right", "cannot", "warned", "silent", "refused", "unavailable" or "failed"."""

    id: str
    content: str
    asymmetric: bool
    outcome: str
    warned: bool
    seconds: float
    parameters: tuple[ParameterScore, ...] = ()
    processor_seconds: float | None = None


def score_parameter(found: FoundRow, truth: Mapping[str, Any], size: int) -> ParameterScore:
    """Compare what was found of a parameter with what is true."""
    told = found.verdict != CANNOT
    ratio = covered = None
    right = told and found.verdict in truth["verdicts"]
    if truth["score_width"] and found.width90 is not None:
        expected = own_width(found.name, truth["width90"], size)
        ratio = own_width(found.name, max(found.width90, 1e-12), size) / expected
        if told:
            right = right and RATIO[0] <= ratio <= RATIO[1]
    elif truth["score_width"] and told:
        right = False
    if truth["score_width"] and truth["natural"]["known"] and found.interval is not None:
        low, high = found.interval
        covered = low <= truth["width90"] <= high
    variation = _variation(found, truth, size)
    still = None
    if truth["verdicts"][0] == "absent" and found.name not in FINITE and period_of(found.name):
        still = found.width90
    return ParameterScore(found.name, right, told, ratio, variation, covered, still)


def _variation(found: FoundRow, truth: Mapping[str, Any], size: int) -> float | None:
    """Half the sum of |found - true| over bins, or over the elements of a flip.

    None where nothing moves: the density of a pose that never varies has no width to compare.
    """
    if truth["verdicts"][0] == "absent":
        return None
    if found.name in FINITE:
        top = max(truth["half"], 1 - truth["half"])
        return None if found.top is None else abs(found.top - top)
    if found.density is None or truth["width90"] is None:
        return None
    expected = binned_truth(found.name, truth["half"], Natural(**truth["natural"]), size)
    return float(np.abs(np.array(found.density) - expected).sum() / 2)


def score_cell(row: Row, cell: Cell) -> CellScore:
    """The outcome of a cell."""
    plain = (cell["id"], cell["content"], cell["asymmetric"])
    if row.status != "answered":
        return CellScore(*plain, row.status, bool(row.warnings), row.seconds)
    parameters = tuple(
        score_parameter(found, cell["truth"][found.name], cell["size"]) for found in row.found
    )
    warned = bool(row.warnings)
    if all(one.right for one in parameters):
        outcome = "right"
    elif all(one.right or not one.told for one in parameters):
        outcome = "cannot"
    else:
        outcome = "warned" if warned else "silent"
    worked = row.processor_seconds
    return CellScore(*plain, outcome, warned, row.seconds, parameters, worked)


def score(results: Results, cells: Iterable[Cell]) -> list[CellScore]:
    """The scores of all stored rows, in the design's order."""
    rows = {row.id: row for row in results.rows}
    return [score_cell(rows[cell["id"]], cell) for cell in cells if cell["id"] in rows]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _share(hits: int, of: int) -> float | None:
    return hits / of if of else None


def table(scores: Sequence[CellScore]) -> dict[str, float | int | None]:
    """The numbers of a method over cells, each as the benchmark's page names it."""
    answered = [s for s in scores if s.outcome in ("right", "cannot", "warned", "silent")]
    outcomes = [s.outcome for s in scores]
    still = [p.still for s in answered for p in s.parameters if p.still is not None]
    asymmetric = [s for s in answered if s.asymmetric]
    right = [s for s in answered if s.outcome == "right"]
    every = [p for s in answered for p in s.parameters]
    sharp = [p for s in answered if s.content in SHARP for p in s.parameters]
    ratios = [p.ratio for p in every if p.ratio is not None]
    covered = [p.covered for p in every if p.covered is not None]
    fine = outcomes.count("right") + outcomes.count("cannot")
    return {
        "cells": len(scores),
        "answered": len(answered),
        "refused": outcomes.count("refused"),
        "failed": outcomes.count("failed") + outcomes.count("unavailable"),
        "right": outcomes.count("right"),
        "cannot be told": outcomes.count("cannot"),
        "wrong with a warning": outcomes.count("warned"),
        "silent errors": outcomes.count("silent"),
        "right or cannot be told": _share(fine, len(answered)),
        "asymmetric told": _share(
            sum(all(p.told for p in s.parameters) for s in asymmetric), len(asymmetric)
        ),
        "warnings on right cells": _share(sum(s.warned for s in right), len(right)),
        "median ratio": _median(ratios),
        "ratios within 0.85 to 1.15": _share(
            sum(RATIO[0] <= r <= RATIO[1] for r in ratios), len(ratios)
        ),
        "median total variation": _median(
            [p.total_variation for p in sharp if p.total_variation is not None]
        ),
        "median width of angles that do not vary, degrees": _median(still),
        "coverage of intervals": _share(sum(covered), len(covered)),
        "median seconds": _median([s.seconds for s in answered]),
        "median processor seconds": _median(
            [s.processor_seconds for s in answered if s.processor_seconds is not None]
        ),
    }
