"""What has to be said beside the widths: warnings, and what the self-test says."""

import math
from typing import TYPE_CHECKING

from symmetries.learners.orbit_posterior.planting import Planted, nearest_planted
from symmetries.learners.orbit_posterior.rounds import UNSETTLED
from symmetries.learners.orbit_posterior.verdicts import CHANCE

if TYPE_CHECKING:
    from symmetries.learners.orbit_posterior.model import OrbitPosterior
    from symmetries.learners.orbit_posterior.summary import ParameterSummary

FEW_TOLD = 0.03
POOR_RECOVERY = 0.2
MOST_OUTER = 0.01


def about_width(part: "ParameterSummary", width: float, planted: list[Planted]) -> list[str]:
    """What has to be said beside a width, which is also given in the parameter's own unit."""
    found = []
    if part.share_told < FEW_TOLD and part.verdict in ("absent", "partial"):
        share = 100 * part.share_told
        found.append(f"{part.name}: read from {share:.1f} % of the pictures only; others tell less")
    row = nearest_planted(planted, part.name, width)
    missed = 0.0 if row is None else math.log(max(row.ratio, 1e-3))
    harmless = part.verdict == "absent" and missed > 0  # what is found too wide hides nothing
    allowed = POOR_RECOVERY if row is None else math.hypot(POOR_RECOVERY, CHANCE * row.error)
    if row is not None and abs(missed) > allowed and not harmless:
        found.append(
            f"{part.name}: of a planted width that should give {row.expected:.3g} {row.unit}, "
            f"{row.recovered:.3g} were recovered"
        )
    if part.verdict == "cannot be told":
        found.append(f"{part.name}: no verdict: {part.reason}")
    return found


def about_training(model: "OrbitPosterior", certain: bool) -> list[str]:
    """Whether training had settled.

    Widths are calibrated, so that a training that ended early makes them uncertain, not wrong: it
    is named where something is uncertain.
    """
    if max(model.rises) <= UNSETTLED or certain:
        return []
    return [
        f"training had not settled: its last round still gained {max(model.rises):.2f} nats; "
        "train longer"
    ]


def cut_off(model: "OrbitPosterior", name: str) -> str:
    """Why a width is not known where moves end within the density; empty where they do not."""
    share = model.outer.get(name, 0.0)
    if share <= MOST_OUTER:
        return ""
    text = f"random moves do not go far enough: {100 * share:.0f} % of the density lies at their"
    return f"{text} end, so that the width is a lower limit"


def self_test_sentence(planted: list[Planted]) -> str:
    """Whether the method works on these data, in one sentence."""
    if not planted:
        return "The method was not checked on these data."
    seen = [row for row in planted if row.visible]
    if not seen:
        text = "Planted transformations are invisible in these data"
        return f"{text}: nearly all occur already, would leave the frame, or cannot be told."
    good = sum(abs(math.log(max(row.ratio, 1e-3))) <= POOR_RECOVERY for row in seen)
    worst = max(seen, key=lambda row: abs(math.log(max(row.ratio, 1e-3))))
    text = f"{good} of {len(seen)} planted widths were recovered within 20 %"
    return f"{text} (the worst: {worst.recovered:.3g} of {worst.expected:.3g} {worst.unit})."
