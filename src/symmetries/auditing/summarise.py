"""Conversion of the numbers of each example to the measures of a result."""

import math
from typing import Any

from torch import Tensor

from symmetries._validation.checks import check_finite, invalid
from symmetries.auditing.estimate import estimate, wilson_interval
from symmetries.auditing.examine import (
    AGREEMENT,
    CURVE,
    LABEL,
    MARGIN,
    MARGIN_CHANGE,
    MOVED,
    MOVED_TO,
    OUTPUT_ERRORS,
    PIXELS,
    PREDICTED,
    ROUND_TRIP,
    SIMILARITY,
    STILL,
)
from symmetries.auditing.saliency import FEWEST, THRESHOLDS, area
from symmetries.results import ClassRow, Estimate, SaliencyPoint

SHARES = ("accuracy", "accuracy_moved", AGREEMENT)
AREA = "saliency_area"


def summarise(values: dict[str, Tensor], level: float) -> dict[str, Any]:
    """Return measures by the names of :class:`~symmetries.results.AuditResult`.

    Args:
        values: of :func:`~symmetries.auditing.examine.examine`, and "sensitivity".
        level: of the confidence intervals.
    """
    check_values(values)
    values = dict(values)
    if CURVE in values:
        values[AREA] = area(values[CURVE])
        if CURVE + ROUND_TRIP in values:
            values[AREA + ROUND_TRIP] = area(values[CURVE + ROUND_TRIP])
    lead = float(values[MARGIN].double().mean())
    names = (*SHARES, *OUTPUT_ERRORS, SIMILARITY, AREA, "sensitivity")
    measures: dict[str, Any] = {n: measure(values, n, level) for n in names if n in values}
    measures |= {MARGIN: lead, "saliency_curve": _curve(values, level)}
    measures["by_class"] = class_rows(values, level)
    if lead > 0:
        relative = values[MARGIN_CHANGE] / lead
        measures[MARGIN_CHANGE] = estimate(relative, level=level, least=0.0)
    return dict.fromkeys((SIMILARITY, "sensitivity")) | measures


def check_values(values: dict[str, Tensor]) -> None:
    """Raise if logits are all zero, or if a number is not finite."""
    silent = int(values["normalised_logit_invariance"].isinf().sum())
    if silent:
        expected, got = "logits that are not all zero", f"only zeros for {silent} of the images"
        raise invalid("model", expected, got, "check the model: most of its units may be inactive")
    for name, numbers in values.items():
        check_finite(numbers, name.replace("_", " "))


def measure(values: dict[str, Tensor], name: str, level: float) -> Estimate:
    """Return one measure; no interval goes below 0, and that of a share is Wilson's."""
    if name in SHARES:
        found = estimate_share(values[name], level)
    else:
        most = 1.0 if name in (SIMILARITY, AREA) else math.inf
        found = estimate(values[name], level=level, least=0.0, most=most)
    back = values.get(name + ROUND_TRIP)
    if back is None:
        return found
    alone = float(back.double().mean())
    if name == MOVED:  # what resampling alone takes from the accuracy of all
        alone += float(values["accuracy"].double().mean() - values[STILL].double().mean())
    return found.model_copy(update={"discretisation": alone})


def estimate_share(values: Tensor, level: float = 0.95) -> Estimate:
    """Return the mean of shares (N,) in [0, 1], with Wilson's interval for N examples.

    Elements of one example are not independent, so only examples count.

    Example:
        >>> import torch
        >>> found = estimate_share(torch.ones(20))
        >>> found.mean, round(found.low, 2), found.high
        (1.0, 0.84, 1.0)
    """
    found = estimate(values, level=level, least=0.0, most=1.0)
    low, high = wilson_interval(found.mean, len(values), level)
    return found.model_copy(update={"low": low, "high": high})


def class_rows(values: dict[str, Tensor], level: float) -> tuple[ClassRow, ...]:
    """Return a row for each class: of the labels, or of the predictions where there are none."""
    classes = values.get(LABEL, values[PREDICTED])
    moved = values[MOVED_TO]
    rows = []
    for label in classes.unique().tolist():
        mine = classes == label
        count = int(mine.sum())
        agreement = float(values[AGREEMENT][mine].double().mean())
        low, high = wilson_interval(agreement, count, level)
        changed = moved[mine] != values[PREDICTED][mine][:, None]
        becomes = moved[mine][changed]
        most = int(becomes.mode().values) if len(becomes) else None
        share = 0.0 if most is None else float((becomes == most).sum()) / changed.numel()
        accuracies = {
            name: float(values[name][mine].double().mean())
            for name in ("accuracy", MOVED)
            if name in values
        }
        rows.append(
            ClassRow(
                label=int(label),
                examples=count,
                agreement=agreement,
                low=low,
                high=high,
                becomes=most,
                becomes_share=share,
                **accuracies,
            )
        )
    return tuple(rows)


def _curve(values: dict[str, Tensor], level: float) -> tuple[SaliencyPoint, ...]:
    if CURVE not in values:
        return ()
    points = []
    for i, threshold in enumerate(THRESHOLDS):
        pixels = float(values[PIXELS][:, i].double().mean())
        found = estimate(values[CURVE][:, i], level=level, least=0.0, most=1.0)
        kept = found if pixels >= FEWEST else None
        points.append(SaliencyPoint(threshold=threshold, similarity=kept, pixels=pixels))
    return tuple(points)
