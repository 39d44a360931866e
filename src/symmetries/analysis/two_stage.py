"""The two-stage symmetry model for ``symmetries discover --method two-stage``: fit and describe."""

from typing import Any

from symmetries.analysis.pictures import spread_indices
from symmetries.analysis.prototype_densities import PoseDensity, mean_density, pose_densities
from symmetries.analysis.prototype_pictures import draw_prototypes
from symmetries.analysis.provenance import Info, class_names, data_summary
from symmetries.data import ImageSet
from symmetries.groups import Group
from symmetries.groups.names import group_name
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.results import ClassSymmetries, Histogram, Quality, SymmetryResult, SymmetrySummary

LOOKED_AT = 512  # images that widths are measured on


def fit_two_stage(
    images: ImageSet,
    group: Group[Any],
    preset: str,
    *,
    fill: float,
    seed: int,
    **training: Any,  # noqa: ANN401 - of SymmetryModel.fit
) -> SymmetryModel:
    """A symmetry model of prototypes, fitted to images."""
    _, channels, height, width = images.images.shape
    model = SymmetryModel(group, (channels, height, width), preset, fill=fill, seed=seed)
    model.fit(images, **training)
    return model


def describe_two_stage(images: ImageSet, model: SymmetryModel, info: Info) -> SymmetryResult:
    """The numbers and the pictures of a fitted symmetry model.

    Args:
        images: that it was fitted to.
        model: fitted.
        info: says how it was fitted, and how long all of it took.
    """
    some = images.subset(spread_indices(len(images), LOOKED_AT))
    summary = model.summary(some, most=LOOKED_AT, seed=model.seed)
    densities = pose_densities(model, summary, some.images.to(model.device), model.seed)
    transformations = tuple(
        part.model_copy(
            update={
                "histogram": Histogram(edges=found.shown, density=mean_density(found, part.unit))
            }
        )
        for part, found in zip(summary.transformations, densities, strict=True)
    )
    stages = {} if model.history is None else model.history.stages
    result = SymmetryResult(
        method="two-stage",
        group=group_name(model.group),
        data=data_summary(images),
        transformations=transformations,
        classes=_classes(some, summary, densities),
        quality=Quality(
            images=summary.images,
            content_kept=summary.content_kept,
            losses={stage: history.last for stage, history in stages.items()},
        ),
        run=info(),
    )
    return result.attach(draw_prototypes(images, model, summary), model)


def _classes(
    images: ImageSet, summary: SymmetrySummary, densities: list[PoseDensity]
) -> dict[str, ClassSymmetries]:
    """The widths of each class with its densities."""
    if images.labels is None:
        return {}
    names = class_names(images)
    pairs = list(zip(summary.transformations, densities, strict=True))
    found = {}
    for label in sorted(set(images.labels.tolist())):
        chosen = images.labels == label
        density = {part.name: mean_density(p, part.unit, chosen) for part, p in pairs}
        found[names[label]] = summary.classes[names[label]].model_copy(update={"density": density})
    return found
