"""The symmetry model in two stages (Allingham et al. 2024), as the library has it, by preset."""

import warnings
from itertools import pairwise

import torch
from benchmarks.planted.protocol import LOOKED_AT, SAMPLES, Answer, Found, Question, Refused

from symmetries.data import background
from symmetries.groups import parse_group
from symmetries.groups.finite import FiniteGroup
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.learners.symmetry_model.summary import SymmetrySummary, counted_from_images


def quick(question: Question) -> Answer:
    """The preset "quick"."""
    return fit(question, "quick")


def default(question: Question) -> Answer:
    """The preset "default"."""
    return fit(question, "default")


def fit(question: Question, preset: str) -> Answer:
    """Fit as ``symmetries discover`` does, and read widths, verdicts and densities."""
    images = question.images
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = SymmetryModel(
                parse_group(question.group),
                tuple(images.images.shape[1:]),
                preset,
                fill=background(images.images),
                seed=question.seed,
            )
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from error
        model.fit(images.images, device=question.device, progress=False)
        summary = model.summary(images.images[:LOOKED_AT], most=LOOKED_AT, seed=question.seed)
    said = tuple(dict.fromkeys(str(w.message) for w in caught if w.category is RuntimeWarning))
    return Answer(_read(model, summary, question), said, extra={"kept": summary.content_kept})


@torch.no_grad()
def _read(model: SymmetryModel, summary: SymmetrySummary, question: Question) -> tuple[Found, ...]:
    x = question.images.images[:LOOKED_AT].to(model.device)
    if isinstance(model.group, FiniteGroup):
        context = model.generative(model.prototype(x))
        p = model.generative.distribution.log_probs(context).exp().cpu()  # type: ignore[operator]
        part = summary.transformations[0]
        return (Found(part.name, part.verdict, part.width90, probabilities=p),)
    generator = torch.Generator(x.device).manual_seed(question.seed)
    ends = [*range(0, len(x), 64), len(x)]
    moves = torch.cat(
        [
            counted_from_images(model, x[a:b], model.sample_eta(x[a:b], SAMPLES, generator)).cpu()
            for a, b in pairwise(ends)
        ]
    )
    return tuple(
        Found(part.name, part.verdict, part.width90, moves=moves[..., i])
        for i, part in enumerate(summary.transformations)
    )
