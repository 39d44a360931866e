"""Measures of an audit on data that drift from one set to another."""

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from symmetries._utils.config import register_presets
from symmetries.analysis.inputs import check_labelled
from symmetries.analysis.pictures import spread_indices
from symmetries.auditing import drift_curve, saliency_map
from symmetries.data import ImageSet, drift
from symmetries.results import DriftPoint

if TYPE_CHECKING:
    from symmetries.analysis.audits import Subject

DRIFT_EXAMPLES = register_presets("audit of drift", {"quick": 30, "default": 100, "paper": 500})
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def drift_points(
    subject: "Subject", other: ImageSet, preset: str, steps: int, seed: int
) -> tuple[DriftPoint, ...]:
    """Return the measures while images are blended into others of the same classes.

    Args:
        subject: what is measured.
        other: images to blend into.
        preset: decides how many images are blended.
        steps: of the integrated gradients.
        seed: of everything drawn.
    """
    few = subject.images.subset(spread_indices(len(subject.images), DRIFT_EXAMPLES[preset]))
    first, labels = _tensors(few, subject.device)
    last, _ = _tensors(drift(few, other, 1.0), subject.device)
    fill = subject.action.fill
    return drift_curve(
        subject.model.call,
        first,
        last,
        labels,
        subject.action,
        betas=BETAS,
        saliency=partial(saliency_map, steps=steps, baseline=fill),
        gradients=subject.model.without_gradients is None and not subject.fast,
        half_width=subject.half_width,
        seed=seed,
    )


def _tensors(images: ImageSet, device: torch.device) -> tuple[Tensor, Tensor]:
    return images.images.to(device), check_labelled(images).to(device)
