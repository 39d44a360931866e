"""Estimate of the time that an audit takes, shown before it begins."""

from typing import TYPE_CHECKING

from symmetries.auditing.answers import CLASSIFIERS
from symmetries.auditing.elements import make_moves
from symmetries.auditing.run import LAYER_EXAMPLES
from symmetries.auditing.timing import expected_seconds, in_words

if TYPE_CHECKING:
    from symmetries.analysis.audits import Subject

LONG = 10.0  # seconds from which on the expected time is said


def expected_time(subject: "Subject", closely: int | None, steps: int) -> str:
    """Return how long the measures take and which can be left out; empty if the time is short.

    Args:
        subject: what is measured.
        closely: images for saliency and sensitivity; None is all.
        steps: of the integrated gradients.
    """
    x = subject.images.images
    classifier = subject.model.kind in CLASSIFIERS
    try:
        found = expected_seconds(
            subject.model.call,
            x,
            make_moves(subject.action, x[:2], half_width=subject.half_width),
            closely=min(len(x), closely or len(x)),
            steps=steps,
            gradients=subject.model.without_gradients is None and classifier and not subject.fast,
            layers=LAYER_EXAMPLES if subject.model.layers and not subject.fast else 0,
        )
    except Exception:  # a model or a group that does not fit: what measures it says why
        return ""
    if found.outputs + found.looks < LONG:
        return ""
    if subject.fast:
        return f"about {in_words(found.outputs)}"
    return f"{found} (--fast, or fast=True: outputs only)"
