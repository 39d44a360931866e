"""The orbit posterior q(r | y): densities of moves by fits that have not seen the pictures."""

import warnings
from typing import Any

import torch
from benchmarks.planted.protocol import LOOKED_AT, Answer, Found, Question, Refused, drawn

from symmetries.actions import ImageAction
from symmetries.data import background
from symmetries.groups import parse_group
from symmetries.learners.orbit_posterior import OrbitPosterior


def quick(question: Question) -> Answer:
    """The preset "quick"."""
    return fit(question, "quick")


def default(question: Question) -> Answer:
    """The preset "default"."""
    return fit(question, "default")


def fit(question: Question, preset: str) -> Answer:
    """Fit, summarise, and read the densities of the first pictures."""
    images = question.images.images
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action = ImageAction(parse_group(question.group), fill=background(images))
            model = OrbitPosterior(action, tuple(images.shape[1:]), preset, question.seed)
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from error
        model.fit(images, device=question.device, progress=False)
        summary = model.summary(images, seed=question.seed)
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    densities = _read(model, question)
    generator = torch.Generator().manual_seed(question.seed)
    found = []
    for part in summary.parameters:
        plain: dict[str, Any] = {"name": part.name, "verdict": part.verdict}
        plain |= {"width90": part.width90, "interval": part.interval}
        mass, reach = densities[part.name]
        if part.unit == "elements":
            found.append(Found(**plain, probabilities=mass))
        else:
            found.append(Found(**plain, moves=drawn(mass, -reach, reach, generator)))
    told = min(part.share_told for part in summary.parameters)
    return Answer(
        tuple(found), tuple(dict.fromkeys((*summary.warnings, *said))), told, {"gain": summary.gain}
    )


def _read(model: OrbitPosterior, question: Question) -> dict[str, tuple[torch.Tensor, float]]:
    """Masses (M, cells) and half-ranges by parameter; each picture by the fit of its own fold."""
    x = question.images.images
    folds = model.folds(len(x))[:LOOKED_AT]
    parts: dict[str, tuple[torch.Tensor, float]] = {}
    for fold in folds.unique().tolist():
        rows = (folds == fold).nonzero()[:, 0]
        for density in model.densities(x[rows], fold, seed=question.seed):
            name, reach = density.coordinate.name, density.coordinate.reach
            if name not in parts:
                parts[name] = (torch.zeros(len(folds), density.mass.shape[1]), reach)
            parts[name][0][rows] = density.mass.cpu()
    return parts
