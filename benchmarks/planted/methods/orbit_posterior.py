"""The orbit posterior q(r | y): densities of moves by fits that have not seen the pictures."""

import warnings
from typing import Any

import torch
from benchmarks.planted.protocol import LOOKED_AT, Answer, Found, Question, Refused, drawn

from symmetries.actions import ImageAction
from symmetries.data import background
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.summary import summarise


def quick(question: Question) -> Answer:
    """The preset "quick"."""
    return fit(question, "quick")


def default(question: Question) -> Answer:
    """The preset "default"."""
    return fit(question, "default")


def fit(question: Question, preset: str) -> Answer:
    """Fit and summarise; moves are drawn from the calibrated densities."""
    images = question.images.images
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action = ImageAction(parse_group(question.group), fill=background(images))
            model = OrbitPosterior(action, tuple(images.shape[1:]), preset, question.seed)
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from error
        model.fit(images, device=question.device, progress=False)
        small = model.seen(images)
        summary, read = summarise(model, small, question.seed)
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    densities = {d.coordinate.name: d for d in read.reading}
    rows = read.rows[:LOOKED_AT]
    generator = torch.Generator().manual_seed(question.seed)
    found = []
    for part in summary.parameters:
        plain: dict[str, Any] = {"name": part.name, "verdict": part.verdict}
        plain |= {"width90": part.width90, "interval": part.interval}
        mass, reach = densities[part.name].mass[: len(rows)], densities[part.name].coordinate.reach
        if part.unit == "elements":
            found.append(Found(**plain, probabilities=mass))
        else:
            moves = drawn(mass, -reach, reach, generator)
            found.append(Found(**plain, moves=moves, rows=rows))
    told = min(part.share_told for part in summary.parameters)
    return Answer(
        tuple(found), tuple(dict.fromkeys((*summary.warnings, *said))), told, {"gain": summary.gain}
    )
